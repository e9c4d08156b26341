"""Which names a request may be addressed to; the rest of the intake is shown over sockets."""

from __future__ import annotations

import pytest

from proxy.seams.faults import MalformedRequest
from proxy.transport.head import HostRules

RULES = HostRules.of(("memory.internal",), ("https://console.example",), "10.0.0.5")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:7077",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:7077",
        "memory.internal",
        "10.0.0.5:80",
    ],
)
def test_own_names_are_served(host: str) -> None:
    RULES.check({"host": host})


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "127.0.0.1.nip.io",
        "localhost:70770000",
        "localhost:",
        "localhost, evil.example",
        "[::1",
        "0.0.0.0",  # noqa: S104 - a host that is asked for, not bound
    ],
)
def test_foreign_names_are_misdirected(host: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        RULES.check({"host": host})
    assert caught.value.status == 421


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "", "http://console.example", "http://localhost"]
)
def test_foreign_pages_are_refused(origin: str) -> None:
    RULES.check({"host": "localhost", "origin": "https://console.example"})
    with pytest.raises(MalformedRequest) as caught:
        RULES.check({"host": "localhost", "origin": origin})
    assert caught.value.status == 403
