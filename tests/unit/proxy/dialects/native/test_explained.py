"""A search that asks for it has the parts of each score, and no other has them."""

from __future__ import annotations

import msgspec
import pytest

from policy.model import Hit, Ranking
from proxy.dialects.native.dialect import Native
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import HttpRequest, SearchResult
from tests.unit.proxy.dialects.mem0.sample import ANSWERING, memory

NATIVE = Native()
RANKING = Ranking(cosine=0.4123456789, words=0.5, trust=0.3, capped=True)


def asked(**fields: object) -> HttpRequest:
    body = msgspec.json.encode({"query": "tea"} | fields)
    return HttpRequest(method="POST", path="/v1/search", query=(), headers={}, body=body)


@pytest.mark.parametrize("explain", [True, False])
def test_the_parts_of_a_score_are_sent_where_they_are_asked_for(explain: bool) -> None:  # noqa: FBT001
    request = asked(explain=explain)
    found = SearchResult(hits=(Hit(memory=memory(), score=0.2512345678, ranking=RANKING),))
    reply = NATIVE.encode(request, NATIVE.decode(request), found, ANSWERING)
    (result,) = msgspec.json.decode(reply.body)["results"]
    assert result["score"] == 0.251235
    parts = {"cosine": 0.412346, "words": 0.5, "trust": 0.3, "capped": True}
    assert result.get("explained") == (parts if explain else None)


def test_anything_but_a_boolean_is_refused() -> None:
    with pytest.raises(MalformedRequest):
        NATIVE.decode(asked(explain="yes"))
