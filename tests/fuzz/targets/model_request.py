"""Requests and whole replies of models: refused by name, or read, edited and written anew."""

from __future__ import annotations

from policy.model import MemoryClass, PrincipalId
from policy.verdict import Reason
from policy.withheld.words import WordHasher, prints_of
from proxy.dialects.model.anthropic.withheld import withhold
from proxy.dialects.model.api import APIS, continued
from proxy.dialects.model.gemini.withheld import withhold as withhold_gemini
from proxy.dialects.model.openai.withheld import withhold_chat, withhold_responses
from proxy.dialects.model.stream import CallDecision
from proxy.dialects.model.withheld import LeftUnchanged
from proxy.dialects.strict_json.tolerant import read_body, write_body
from proxy.model.reading_cache import ReadingCache
from proxy.seams.faults import MalformedRequest
from proxy.withhold.request_withholding import RequestWithholding
from proxy.withhold.state import NoticeParts, RefusedRecord, UndecidedRecord, WithheldTexts
from tests.fuzz.choices import withholds

WORDS = (
    b'{"messages":[{"role":"user","content":"',
    b'{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{',
    b'{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"',
    b'"tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}}]',
    b'{"input":[{"type":"function_call","call_id":"a","name":"x","arguments":"{}"}',
    b'{"output":[{"type":"function_call","call_id":"a","name":"x","arguments":"{}"}]}',
    b'{"content":[{"type":"tool_use","id":"a","name":"x","input":{}}],"stop_reason":"tool_use"}',
    b'{"choices":[{"index":0,"message":{"tool_calls":[',
    b'"tools":[{"type":"namespace","name":"n","tools":[',
    b'"system":[{"type":"text","text":"',
    b'{"contents":[{"role":"model","parts":[{"functionCall":{"name":"x","args":{}}},{"text":"',
    b'{"functionResponse":{"name":"x","response":{"output":"needle"}}}',
    b'{"candidates":[{"index":0,"content":{"parts":[{"functionCall":{"name":"x","args":{}}}]}}]}',
    b'"systemInstruction":{"parts":[{"text":"needle"}]}',
    b"\\ud800",
    b"1e999",
    b"needle",
    b"one two three four five",
    b'"thinking":[{"type":"thinking","thinking":"one two three four five","signature":"',
    b'{"type":"reasoning","summary":[{"type":"summary_text","text":"one two three four five"}]}',
)
_PRINCIPAL = PrincipalId("key:ada")


def _refused() -> WithheldTexts:
    """One refused text, in words that stand in the corpus and the dictionary."""
    kept = WithheldTexts("key:ada")
    prints = prints_of(_PRINTER, ["needle", "one two three four five"])
    pairs = tuple((one.numbers, one.whole) for one in prints)
    kept.apply(
        UndecidedRecord(
            kept.principal, "a", pairs, flagged=True, session="", orders=(), tenant="default"
        )
    )
    told = NoticeParts("reject", Reason.SOURCE_CLASS_FORBIDDEN, MemoryClass.L1)
    kept.apply(RefusedRecord(kept.principal, "a", told))
    return kept


_PRINTER = WordHasher(b"k" * 32)
_KEPT = _refused()
_WITHHOLD = (withhold, withhold_chat, withhold_responses, withhold_gemini)


def check(data: bytes) -> None:
    api = APIS[data[0] % len(APIS)] if data else APIS[0]
    try:
        body = read_body(data[1:])
    except MalformedRequest as refused:
        withholds(refused.detail)
        return
    read = api.read_request(body)
    kept = ReadingCache()
    for _ in range(2):
        again = kept.body(_PRINCIPAL, data[1:])
        assert again == body
        assert api.read_request(again, kept) == read
    change = _WITHHOLD[APIS.index(api)]
    went = change(body, LeftUnchanged(), RequestWithholding(_KEPT, _PRINTER))
    assert write_body(
        change(went, LeftUnchanged(), RequestWithholding(_KEPT, _PRINTER))
    ) == write_body(went)
    written = write_body(body)
    assert write_body(read_body(written)) == written
    for refuses in (False, True):
        reply = api.whole()
        waiting = reply.feed(body)
        for one in waiting:
            reply.decide(CallDecision(key=one.key, refusal="Not stored." if refuses else None))
        reply.said()
        if reply.refused_all():
            write_body(continued(api, body, reply.again()))
        write_body(reply.edited())
