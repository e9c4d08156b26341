"""Builds answers to Mem0's writes: which items were stored, and why others were not.

No answer repeats the content of a refused item.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from policy.verdict import InvariantBroken
from proxy.dialects.mem0.calls import Note
from proxy.dialects.mem0.shapes import EVENTS, VERBATIM, Shape, reply
from proxy.seams.operation import (
    EncodingContext,
    HttpReply,
    HttpRequest,
    Refusal,
    Result,
    WriteResult,
    WrittenItem,
)

PHRASE_LEN_MAX: Final = 120
# The largest number of refused items that an answer lists.
FAILURES_LEN_MAX: Final = 1_000
_PRINTABLE_FIRST, _PRINTABLE_LAST = " ", "~"

_UNAUTHORIZED: Final = 401
_OF_THE_TEXT: Final = frozenset({413, 422})


class _Spoken(msgspec.Struct, frozen=True, kw_only=True):
    role: str = ""


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[_Spoken] = []
    infer: object = None


_LOOSELY: Final = msgspec.json.Decoder(_Turn)
_DECIDED: Final = frozenset({"admit", "hold", "reject"})
_Result = TypeVar("_Result")


def expect(result: Result, kind: type[_Result]) -> _Result:
    """Return the result, after a check of its type.

    Raises:
        InvariantBroken: The result is one of another operation.
    """
    if not isinstance(result, kind):
        raise InvariantBroken(f"expected {kind.__name__}, got {type(result).__name__}")
    return result


def landed(items: tuple[WrittenItem, ...]) -> list[WrittenItem]:
    """The items of a write that were admitted, and so changed the store."""
    return [item for item in items if item.decision == "admit"]


def item_shape(item: WrittenItem) -> Shape:
    """One item of a write's result in Mem0's form; `event` is `NONE` if nothing was changed."""
    if item.decision == "admit":
        shape: Shape = {
            "id": item.memory_id,
            "memory": None if item.memory is None else item.memory.text,
            "event": EVENTS[item.change],
        }
        if item.class_lowered:
            # A class is reported only if it was lowered, so any other answer has Mem0's own form.
            shape |= {
                "memory_class": item.memory_class.value,
                "class_lowered": True,
                "observation": item.observation,
            }
        return shape
    return {
        "id": item.memory_id,
        "memory": None,
        "event": "NONE",
        "decision": item.decision,
        "reason": None if item.reason is None else item.reason.value,
        "step": item.step,
        "memory_class": item.memory_class.value,
        "observation": item.observation,
        "candidate_id": item.candidate_id,
    }


def none_landed(
    items: tuple[WrittenItem, ...], answering: EncodingContext, missing: str
) -> HttpReply | None:
    """The refusal of a write of which no item was admitted; None for any other write.

    The status of a verdict is 422, which `MemoryClient` reports as bad data, not as bad
    credentials. A client that raises on the status alone shows only the reason phrase, so the
    phrase contains the reason as well.
    """
    if not items or landed(items):
        return None
    first = next((i for i in items if i.decision == "reject"), items[0])
    decisions = {item.decision for item in items}
    if decisions == {"missing"}:
        return reply({"detail": missing, "error": missing}, 404)
    if decisions == {"error"}:
        detail = "memory write not decided; nothing was stored"
        return reply({"detail": detail, "trace_id": answering.trace_id}, 503, phrase=phrase(detail))
    held = decisions == {"hold"}
    head = f"memory write {'held for review' if held else 'rejected'}: {_why(first)}"
    if len(items) > 1:
        head += f"; none of {len(items)} stored"
    tail = "not stored yet" if held else "nothing stored"
    body = {
        "detail": f"{head}. {first.observation}".rstrip(),
        "error": "memory_write_held" if held else "memory_write_rejected",
        **item_shape(first),
        "trace_id": answering.trace_id,
        "results": [item_shape(item) for item in items[:FAILURES_LEN_MAX]],
    }
    return reply(body, 422, phrase=phrase(f"{head}; {tail}; do not retry"))


def waiting(items: tuple[WrittenItem, ...]) -> str | None:
    """The message for an add all of whose items are held for a person; None for any other outcome.

    Mem0's platform answers each add before the add is done, with the status `PENDING`. An exception
    would end an honest application because of a text that a person may still release.
    """
    if not items or any(item.decision != "hold" for item in items):
        return None
    return f"memory write held for review: {_why(items[0])}. {items[0].observation}".rstrip()


def captured(items: tuple[WrittenItem, ...]) -> Shape | None:
    """The members of the answer about refused messages of a conversation; None if none was refused.

    No one reads this answer, because the agent sent the conversation in the background. Mem0
    answers 200 with the memories that it extracted, perhaps none. A failure would count as an
    outage of the memory, and agents pause a memory that fails often. So refused items are not in
    `results`, which agents count, but in `refused`.
    """
    if any(item.decision not in _DECIDED for item in items):
        return None
    refusals = [item_shape(item) for item in items if item.decision != "admit"]
    if not refusals:
        return None
    done = len(items) - len(refusals)
    return {
        "message": f"Stored {done} of {len(items)} messages, see refused",
        "refused": refusals[:FAILURES_LEN_MAX],
    }


def unheard(request: HttpRequest, refusal: Refusal) -> Shape | None:
    """The answer for a conversation that was refused before any verdict; None for other requests.

    A page or a tool may have caused the refusal, by a control character or an overlong text. That
    must not count as an outage of the agent's memory, so the answer is 200 with empty results and a
    message about the refusal.
    """
    if refusal.status not in _OF_THE_TEXT or not _is_conversation(request.body):
        return None
    return {"results": [], "message": f"Stored none of it: {refusal.detail}"}


def _is_conversation(raw: bytes) -> bool:
    """Whether a body is a conversation with `infer` set, by the roles of its messages alone."""
    try:
        body = _LOOSELY.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return body.infer is True and {"user", "assistant"} <= {one.role for one in body.messages}


def added_extras(note: Note) -> Shape:
    """Members of an answer that report how an add was done differently than the client asked."""
    extras: Shape = {}
    if note.inferred:
        extras["infer"] = VERBATIM
    if note.skipped:
        extras["skipped_messages"] = list(note.skipped)
    return extras


def counted(items: tuple[WrittenItem, ...], verb: str) -> Shape:
    """The answer to a batch or bulk delete: how many items succeeded, and each that did not."""
    done = len(landed(items))
    failed = [item_shape(item) for item in items if item.decision != "admit"]
    message = f"Successfully {verb} {done} memories"
    if failed:
        message += f"; {len(failed)} were not, see results"
    return {"message": message, "results": failed[:FAILURES_LEN_MAX]}


def written(result: Result) -> tuple[WrittenItem, ...]:
    """The items in the result of a write, each with its outcome."""
    return expect(result, WriteResult).items


def refused(refusal: Refusal, scheme: str) -> HttpReply:
    """The answer to a failure that is no verdict: `detail`, the one field that clients read."""
    headers: tuple[tuple[str, str], ...] = ()
    if refusal.status == _UNAUTHORIZED:
        headers = (("WWW-Authenticate", scheme),)
    if refusal.retry_after_s is not None:
        headers = (*headers, ("Retry-After", str(refusal.retry_after_s)))
    answer = reply({"detail": refusal.detail}, refusal.status, phrase=phrase(refusal.detail))
    return msgspec.structs.replace(answer, headers=headers)


def phrase(text: str) -> str:
    """The text as an HTTP reason phrase: printable ASCII, one line, at most 120 characters."""
    line = "".join(c if _PRINTABLE_FIRST <= c <= _PRINTABLE_LAST else " " for c in text)
    return line[:PHRASE_LEN_MAX].strip()


def _why(item: WrittenItem) -> str:
    reason = item.decision if item.reason is None else item.reason.value
    step = "" if item.step is None else f", step {item.step}"
    return f"{reason} (class {item.memory_class.value}{step})"
