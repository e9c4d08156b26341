"""Which tools are judged at a relay, and until when."""

from __future__ import annotations

from policy.model import Tenant
from proxy.relays import Relays

ONE, TWO = Tenant("one"), Tenant("two")


def test_a_tool_is_served_by_its_server_to_its_tenant() -> None:
    relays = Relays()
    relays.pinned(ONE, "My Memory", ["create-entities"])
    # Hosts write names in their own way.
    assert relays.serves(ONE, "my_memory", "create_entities")
    assert not relays.serves(ONE, "memory", "create_entities")
    assert not relays.serves(ONE, "my_memory", "create")
    assert not relays.serves(TWO, "my_memory", "create_entities")


def test_a_relay_that_left_serves_nothing_and_the_others_go_on() -> None:
    relays = Relays()
    relays.pinned(ONE, "kb", ["add"], "first")
    relays.pinned(ONE, "kb", ["add"], "second")
    relays.pinned(ONE, "web", ["add"], "first")
    relays.left("first")
    assert relays.serves(ONE, "kb", "add")
    assert not relays.serves(ONE, "web", "add")
    relays.left("second")
    relays.left("second")
    assert not relays.serves(ONE, "kb", "add")


def test_tools_that_changed_are_those_that_count() -> None:
    relays = Relays()
    relays.pinned(ONE, "kb", ["add"])
    relays.pinned(ONE, "kb", ["put"])
    assert not relays.serves(ONE, "kb", "add")
    assert relays.serves(ONE, "kb", "put")
