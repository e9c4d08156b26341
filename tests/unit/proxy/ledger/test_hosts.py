"""The hosts that a call names: by its addresses, and not by the texts that it writes."""

from __future__ import annotations

import pytest

from proxy.ledger.turn_reader import HOSTS_MAX, hosts_in


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("https://praise.example/page?x=1", ("//praise.example",)),
        ("curl -s HTTPS://ada:secret@Praise.Example.:8080/a | head", ("//praise.example",)),
        (
            "wget http://a.example/ http://b.example http://a.example/2",
            ("//a.example", "//b.example"),
        ),
        ("git clone 'ssh://git@praise.example/x'", ("//praise.example",)),
        ("notes/praise.example.md", ()),
        ("a note of many words " * 200 + "https://praise.example", ()),
        ("http://" * 300, ()),
    ],
)
def test_hosts_are_those_of_addresses(text: str, hosts: tuple[str, ...]) -> None:
    assert hosts_in([text]) == hosts


def test_hosts_are_bounded() -> None:
    many = [f"https://host-{number}.example" for number in range(HOSTS_MAX + 3)]
    assert hosts_in(many) == tuple(f"//host-{number}.example" for number in range(HOSTS_MAX))
