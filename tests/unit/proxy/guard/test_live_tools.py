"""Which tools are judged at a relay, and until when."""

from __future__ import annotations

from policy.model import Principal, PrincipalId, Tenant
from proxy.guard.live_tools import Relays


def principal(name: str, tenant: str) -> Principal:
    return Principal(principal_id=PrincipalId(name), tenant=Tenant(tenant))


ONE, TWO = principal("key:a", "one"), principal("key:a", "two")
OTHER = principal("key:b", "one")


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


def test_another_agents_relay_is_not_on_this_ones_way() -> None:
    relays = Relays()
    relays.pinned(ONE, "memory", ["create_entities"])
    relays.pinned(ONE, "notes", ["add"], "wrapper")
    assert relays.serves(ONE, "memory", "create_entities")
    assert not relays.serves(OTHER, "memory", "create_entities")
    assert not relays.serves(OTHER, "notes", "add")


def test_a_relay_of_nobody_known_stands_beside_every_agent_of_its_tenant() -> None:
    relays = Relays()
    relays.pinned(principal("uid:1000", "one"), "memory", ["create_entities"], "wrapper")
    assert relays.serves(ONE, "memory", "create_entities")
    assert relays.serves(OTHER, "memory", "create_entities")
    assert not relays.serves(TWO, "memory", "create_entities")
