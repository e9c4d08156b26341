"""Requests and whole replies of models: refused by name, or read, edited and written anew."""

from __future__ import annotations

from policy.model import PrincipalId
from proxy.dialects.model.api import APIS, continued
from proxy.dialects.model.body import read_body, write_body
from proxy.dialects.model.stream import Decided
from proxy.dialects.operation import MalformedRequest
from proxy.model.recurring import Recurring
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
    b"\\ud800",
    b"1e999",
    b"needle",
)
_PRINCIPAL = PrincipalId("key:ada")


def check(data: bytes) -> None:
    api = APIS[data[0] % len(APIS)] if data else APIS[0]
    try:
        body = read_body(data[1:])
    except MalformedRequest as refused:
        withholds(refused.detail)
        return
    read = api.read_request(body)
    kept = Recurring()
    for _ in range(2):
        again = kept.body(_PRINCIPAL, data[1:])
        assert again == body
        assert api.read_request(again, kept) == read
    written = write_body(body)
    assert write_body(read_body(written)) == written
    for refuses in (False, True):
        reply = api.whole()
        waiting = reply.feed(body)
        for one in waiting:
            reply.decide(Decided(key=one.key, refusal="Not stored." if refuses else None))
        reply.said()
        if reply.refused_all():
            write_body(continued(api, body, reply.again()))
        write_body(reply.edited())
