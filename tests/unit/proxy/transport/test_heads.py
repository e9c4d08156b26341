"""A head has one reading, or none: what two readers could take differently is refused."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from proxy.seams.faults import MalformedRequest
from tests.fuzz.heads import taken


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "Content-Length",
        "Content-Type",
        "Host",
        "Idempotency-Key",
        "Origin",
        "Transfer-Encoding",
        "X-Api-Key",
    ],
)
def test_a_header_that_says_who_or_what_is_sent_once(name: str) -> None:
    once = CIMultiDict({"Host": "localhost"}) if name != "Host" else CIMultiDict[str]()
    once.add(name, "one")
    assert taken("GET", "/v1/whoami", once).headers[name.lower()] == "one"
    once.add(name.upper(), "two")
    with pytest.raises(MalformedRequest) as caught:
        taken("GET", "/v1/whoami", once)
    assert caught.value.status == 400


def test_other_headers_are_joined_in_their_order() -> None:
    headers: CIMultiDict[str] = CIMultiDict()
    headers.add("Tracestate", "a=1")
    headers.add("tracestate", "b=2")
    assert taken("GET", "/", headers).headers == {"tracestate": "a=1, b=2"}


@pytest.mark.parametrize(
    "target",
    [
        "/v1%2fmemories",
        "/v1%5Cmemories",
        "/v1\\memories",
        "/v1//memories",
        "/v1/../memories",
        "/v1/%2e%2e/memories",
        "/v1/./memories",
        "/v1/%00",
        "/v1/%ff",
        "/v1/%e2%80%ae",
        "http://localhost/v1/memories",
        "*",
        "/v1/memories#fragment",
        "/v1/memories?a=%ff",
        "/" + "a" * 4_096,
    ],
)
def test_a_target_with_two_readings_is_refused(target: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        taken("GET", target, CIMultiDict())
    assert caught.value.status in {400, 414, 422}


def test_a_path_is_decoded_once() -> None:
    head = taken("GET", "/v1/%6demories/%2541?a=%2B&b=", CIMultiDict())
    assert (head.path, head.query) == ("/v1/memories/%41", (("a", "+"), ("b", "")))
