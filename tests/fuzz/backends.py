"""Promises of every adapter of a memory server, for every request and every answer."""

from __future__ import annotations

from policy.model import CandidateId
from proxy.backends.http_backend import HttpBackend
from proxy.dialects.strict_json.strict import canonical_json, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.guard import UnsettledItem
from proxy.seams.http_backend import Does, RoutedRequest, SentMemory
from proxy.seams.operation import HttpReply, HttpRequest
from tests.fuzz.choices import MARK
from tests.fuzz.heads import written_down

DETAIL_LEN_MAX = 300
_REFUSED = CandidateId("0" * 32)


def check_backend(adapter: HttpBackend, data: bytes) -> None:
    """A request is refused without a word of it, or goes on as it was judged.

    The text behind a line of dashes, if there is one, is the server's answer.
    """
    sent, _, answered = data.partition(b"\n---\n")
    asked = written_down(sent)
    if asked is None:
        return
    adapter.credential(asked)
    routed = adapter.classify(asked)
    if routed is None:
        return
    assert asked.path.split("/")[1] in adapter.segments, "a path that the adapter does not claim"
    reply = HttpReply(status=200, body=answered)
    try:
        _check(adapter, asked, routed, reply)
    except MalformedRequest as refused:
        _check_refusal(refused)


def _check_refusal(refused: MalformedRequest) -> None:
    assert 400 <= refused.status < 500
    assert len(refused.detail) < DETAIL_LEN_MAX
    assert MARK not in refused.detail, "a refusal repeats what was sent"


def _check(
    adapter: HttpBackend, asked: HttpRequest, routed: RoutedRequest, reply: HttpReply
) -> None:
    adapter.folder(asked)
    if routed.does in {Does.READ, Does.OTHER}:
        assert "authorization" not in adapter.asking(asked).headers
    if routed.does is Does.READ:
        _check_read(adapter, asked, reply)
    elif routed.does in {Does.WRITE, Does.REMOVE}:
        question = adapter.first(asked)
        sendings = adapter.items(asked, None if question is None else reply)
        everything = dict.fromkeys(range(len(sendings)), _REFUSED)
        parts = [{at: one} for at, one in everything.items()] if routed.singly else [everything]
        for part in parts:
            outgoing = adapter.forward(asked, sendings, part)
            assert outgoing is None or set(outgoing.headers) <= {"content-type"}
        assert adapter.forward(asked, sendings, {}) is None, "what nobody admitted goes on"
        for one in sendings:
            _check_sending(adapter, one, reply)


def _check_read(adapter: HttpBackend, asked: HttpRequest, reply: HttpReply) -> None:
    shown = adapter.shown(asked, reply)
    places = [one.place for one in shown]
    assert len(set(places)) == len(places), "two memories share a place"
    left = adapter.without(asked, reply, frozenset(places))
    again = adapter.shown(asked, left)
    assert not [one for one in again if one.strings], "what was left out is still shown"
    if adapter.page(asked) is not None:
        adapter.asking(asked, 2)


def _check_sending(adapter: HttpBackend, one: SentMemory, reply: HttpReply) -> None:
    item = one.item
    assert canonical_json(decode_object(item.arguments.encode())) == item.arguments
    kept = UnsettledItem(
        candidate_id=_REFUSED,
        tool="tool",
        change=item.change,
        arguments=item.arguments,
        pieces=item.pieces,
        key=item.key,
        sent=True,
    )
    adapter.released(kept, one.blob)
    if adapter.question(kept) is not None:
        adapter.told(kept, reply)
