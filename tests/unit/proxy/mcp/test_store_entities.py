"""Store mode: what hangs on an entity, of anybody, stays in sight for as long as it is kept."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from policy.model import ChangeKind, Channel, Memory, MemoryId, Principal, PrincipalId, Tenant
from policy.ruleset import Budgets
from proxy.dialects.mcp.store.graph import ENTITIES, OBSERVATIONS, WHOLE_GRAPH, marked
from proxy.dialects.mcp.store.graph import EntityMark as Made
from proxy.dialects.mcp.store.graph import ObservationMark as Said
from proxy.intercept import graphs as keeping
from proxy.intercept.graphs import Graphs
from proxy.intercept.operations import SHOWN_PER_UNIT, Window
from proxy.seams.faults import MalformedRequest, RateLimited
from proxy.seams.operation import FindInGraph, Proposal, ReadGraph, Write, WriteResult
from storage.features.registered import PutAnchor
from storage.values import Anchor
from tests.unit.proxy.intercept.test_operations import Conversation, talking
from tests.unit.proxy.mcp.storing import AGENT, Object, connected, text_of
from tests.unit.proxy.mcp.test_store_server import entity, relation
from tests.unit.storage.opening import RULESET

USER = Principal(principal_id=PrincipalId("ada"), tenant=Tenant("default"), channel=Channel.USER)
HERS = "I am allergic to nuts."
ADA: Object = {"entityNames": ["Ada"]}


def kept(talk: Conversation, target: str) -> list[Memory]:
    """Oldest first."""
    found = talk.live.store.reader.page(AGENT.tenant, WHOLE_GRAPH, 0, 99).memories
    return [memory for memory in reversed(found) if memory.target == target]


async def delete(
    talk: Conversation, memory_id: MemoryId, principal: Principal = AGENT
) -> tuple[str, ...]:
    proposal = Proposal(change=ChangeKind.DELETE, memory_id=memory_id)
    written = await talk.ask(Write(proposals=(proposal,)), principal)
    assert isinstance(written, WriteResult)
    return tuple(item.decision for item in written.items)


async def say_of_ada(talk: Conversation, text: str = HERS) -> None:
    """The agent makes Ada, and she says something of herself."""
    async with connected(talk) as agent:
        await agent.call("create_entities", {"entities": [entity("Ada", "lives in Bern")]})
    async with connected(talk, USER) as user:
        said: Object = {"entityName": "Ada", "contents": [text]}
        await user.call("add_observations", {"observations": [said]})


async def test_an_entity_stays_with_all_that_is_said_of_it_while_a_persons_word_has_to_stay(
    tmp_path: Path,
) -> None:
    with talking(tmp_path) as talk:
        await say_of_ada(talk)
        [made] = kept(talk, ENTITIES)
        async with connected(talk) as agent:
            before = await agent.graph()
            ways: list[tuple[str, Object]] = [
                ("delete_entities", ADA),
                ("delete_memory", {"id": made.memory_id}),
            ]
            for tool, arguments in ways:
                refused = await agent.call(tool, arguments)
                assert refused["isError"] is True
                # Hers was asked for first, and nothing else after it.
                assert "1 of 1 were not deleted." in text_of(refused)
                assert await agent.graph() == before


async def test_an_entity_goes_with_all_that_hangs_on_it_where_all_of_it_may_go(
    tmp_path: Path,
) -> None:
    """The control: who may delete each part may delete the whole."""
    with talking(tmp_path) as talk:
        await say_of_ada(talk)
        async with connected(talk, USER) as user:
            await user.call("create_relations", {"relations": [relation("Ben", "Ada")]})
            done = await user.call("delete_entities", ADA)
            assert "isError" not in done
            assert await user.graph() == {"entities": [], "relations": []}


async def test_a_relation_that_a_person_made_keeps_its_entity_too(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        async with connected(talk) as agent:
            await agent.call("create_entities", {"entities": [entity("Ada"), entity("Ben")]})
        async with connected(talk, USER) as user:
            await user.call("create_relations", {"relations": [relation("Ben", "Ada")]})
        async with connected(talk) as agent:
            before = await agent.graph()
            assert (await agent.call("delete_entities", ADA))["isError"] is True
            assert await agent.graph() == before


async def test_the_same_words_of_an_agent_do_not_stand_before_those_of_a_person(
    tmp_path: Path,
) -> None:
    with talking(tmp_path) as talk:
        async with connected(talk) as agent:
            await agent.call("create_entities", {"entities": [entity("Ada", HERS)]})
            [made] = kept(talk, ENTITIES)
            # By another way than the tools, which would find it said.
            mark = marked(Said(entity_id=made.memory_id, entity_name="Ada"))
            proposal = Proposal(
                change=ChangeKind.CREATE, text=HERS, metadata_json=mark, target=OBSERVATIONS
            )
            await talk.ask(Write(proposals=(proposal,)), USER)
            assert len(kept(talk, OBSERVATIONS)) == 2
            before = await agent.graph()
            assert (await agent.call("delete_entities", ADA))["isError"] is True
            assert await agent.graph() == before


async def test_what_is_said_of_an_entity_that_is_gone_is_shown_under_its_name(
    tmp_path: Path,
) -> None:
    with talking(tmp_path) as talk:
        await say_of_ada(talk)
        [made] = kept(talk, ENTITIES)
        # The memory of the entity alone, past the tools.
        assert await delete(talk, made.memory_id) == ("admit",)
        left = entity("Ada", "lives in Bern", HERS, kind="unknown")
        async with connected(talk) as agent:
            assert await agent.graph() == {"entities": [left], "relations": []}
            found = await agent.call("search_nodes", {"query": "NUTS"})
            assert found["structuredContent"] == {"entities": [left], "relations": []}
            # It cannot be added to before it is made anew, and what was said stays in sight then.
            more: Object = {"entityName": "Ada", "contents": ["sails"]}
            added = await agent.call("add_observations", {"observations": [more]})
            assert added["isError"] is True
            await agent.call("create_entities", {"entities": [entity("Ada", "can eat nuts")]})
            opened = await agent.call("open_nodes", {"names": ["Ada"]})
            shown = entity("Ada", "lives in Bern", HERS, "can eat nuts")
            assert opened["structuredContent"] == {"entities": [shown], "relations": []}
            assert (await agent.call("delete_entities", ADA))["isError"] is True
        async with connected(talk, USER) as user:
            mine: Object = {"entityName": "Ada", "observations": [HERS]}
            await user.call("delete_observations", {"deletions": [mine]})
            assert HERS not in str(await user.graph())


async def test_orphans_are_told_with_the_name_that_they_are_shown_under(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        await say_of_ada(talk)
        graphs = Graphs(talk.live.store.reader)
        assert graphs.orphans(AGENT.tenant) == ()
        [made] = kept(talk, ENTITIES)
        await delete(talk, made.memory_id)
        said = {memory.memory_id for memory in kept(talk, OBSERVATIONS)}
        orphans = graphs.orphans(AGENT.tenant)
        assert {(one.memory_id, one.entity_name) for one in orphans} == {(m, "Ada") for m in said}
        assert graphs.orphans(Tenant("another")) == ()


async def test_the_index_that_is_kept_is_the_one_that_the_store_would_give_now(
    tmp_path: Path,
) -> None:
    """Whatever is written, taken away, or changed past the tools, in any order."""
    dice = random.Random(7)  # noqa: S311 - the same order every time
    names = ("Ada", "Ben", "Cleo")
    with talking(tmp_path) as talk:
        kept_graphs = Graphs(talk.live.store.reader)
        for turn in range(120):
            made = kept(talk, ENTITIES)
            live = [*made, *kept(talk, OBSERVATIONS)]
            name = dice.choice(names)
            roll = dice.random()
            if live and roll < 0.3:
                await delete(talk, dice.choice(live).memory_id)
            elif roll < 0.5:
                await _create(talk, ENTITIES, f"{name} {turn}", Made(name=name, entity_type="t"))
            elif live and roll < 0.6:
                proposal = Proposal(
                    change=ChangeKind.UPDATE,
                    memory_id=dice.choice(live).memory_id,
                    metadata_json=marked(Made(name=dice.choice(names), entity_type="u")),
                )
                await talk.ask(Write(proposals=(proposal,)))
            else:
                entity_id = dice.choice([one.memory_id for one in made] or ["nobody"])
                mark = Said(entity_id=entity_id, entity_name=name)
                await _create(talk, OBSERVATIONS, f"word {dice.randrange(9)}", mark)
            fresh = Graphs(talk.live.store.reader)
            for asked in (ReadGraph(), ReadGraph(names=(name,)), ReadGraph(query="WORD 3")):
                answer = kept_graphs.read(AGENT.tenant, asked).answer
                assert answer == fresh.read(AGENT.tenant, asked).answer
            texts = tuple((one, "word 3") for one in names)
            find = FindInGraph(names=names, texts=texts, hanging=True)
            one, other = (g.find(AGENT.tenant, find) for g in (kept_graphs, fresh))
            assert [{*e.hanging} for e in one.entities] == [{*e.hanging} for e in other.entities]
            # Every live observation is in sight.
            shown = {
                text
                for e in fresh.read(AGENT.tenant, ReadGraph()).answer.entities
                for text in e.observations
            }
            assert shown >= {
                memory.text
                for memory in kept(talk, OBSERVATIONS)
                if "entityName" in (memory.metadata_json or "")
            }


async def _create(talk: Conversation, target: str, text: str, mark: Made | Said) -> None:
    proposal = Proposal(
        change=ChangeKind.CREATE, text=text, metadata_json=marked(mark), target=target
    )
    await talk.ask(Write(proposals=(proposal,)))


def at_most(count: int) -> Budgets:
    return msgspec.structs.replace(RULESET.budgets, writes_per_window_max=count)


async def test_a_read_takes_of_the_window_what_it_shows(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        said = [f"fact {number}" for number in range(2 * SHOWN_PER_UNIT)]
        async with connected(talk) as agent:
            await agent.call("create_entities", {"entities": [entity("Ada", *said)]})
        principal_id, now_ms = PrincipalId("reader"), talk.live.surroundings.now_ms()
        reader = Principal(principal_id=principal_id, tenant=AGENT.tenant)
        # Looking for nothing takes one; showing all of it one more for each hundred.
        await talk.graph(FindInGraph(names=("Nobody",)), reader)
        talk.live.budgets.require_room(principal_id, 1, at_most(2), now_ms)
        await talk.graph(ReadGraph(), reader)
        talk.live.budgets.require_room(principal_id, 1, at_most(5), now_ms)
        with pytest.raises(RateLimited):
            talk.live.budgets.require_room(principal_id, 1, at_most(4), now_ms)


def test_a_window_that_is_full_takes_no_read(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        window = Window(talk.live.budgets, lambda: RULESET, talk.live.surroundings.now_ms)
        principal_id = PrincipalId("reader")
        window.spend(principal_id, RULESET.budgets.writes_per_window_max - 1)
        window.take(principal_id)
        with pytest.raises(RateLimited):
            window.take(principal_id)


async def test_a_graph_beyond_all_bounds_is_refused_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "GRAPH_MEMORIES_MAX", 3)
    with talking(tmp_path) as talk:
        async with connected(talk) as agent:
            await agent.call("create_entities", {"entities": [entity("Ada", "a", "b")]})
            assert "isError" not in await agent.call("read_graph", {})
            await agent.call("create_entities", {"entities": [entity("Ben")]})
            refused = await agent.call("read_graph", {})
            assert refused["isError"] is True
            assert "too large" in text_of(refused)
        graphs = Graphs(talk.live.store.reader)
        with pytest.raises(MalformedRequest):
            graphs.find(AGENT.tenant, FindInGraph())
        assert graphs.find(Tenant("another"), FindInGraph()).entities == ()


async def test_what_contradicts_an_anchor_is_not_shown_and_does_not_stay_behind(
    tmp_path: Path,
) -> None:
    lie = "The office door code is 66."
    with talking(tmp_path) as talk:
        async with connected(talk) as agent:
            made: Object = {
                "entities": [entity("office", lie, "opens at nine"), entity("Ada", "lives in Bern")]
            }
            await agent.call("create_entities", made)
            assert lie in str(await agent.graph()), "control: nothing is registered yet"
            anchor = Anchor(
                anchor_id="code",
                tenant=AGENT.tenant,
                statement="The office door code is 11.",
                questions=("Which code?",),
                created_at_ms=1,
            )
            await talk.live.store.writer.order(PutAnchor(anchor, AGENT.principal_id))
            shown = [entity("office", "opens at nine"), entity("Ada", "lives in Bern")]
            calls: tuple[tuple[str, Object], ...] = (
                ("read_graph", {}),
                ("open_nodes", {"names": ["office", "Ada"]}),
                ("search_nodes", {"query": "a"}),
            )
            for tool, asked in calls:
                answer = await agent.call(tool, asked)
                assert answer["structuredContent"] == {"entities": shown, "relations": []}, tool
            named = await agent.call("search_nodes", {"query": "66"})
            assert named["structuredContent"] == {"entities": [], "relations": []}
            # A deletion takes the memory away that no read shows.
            gone = await agent.call("delete_entities", {"entityNames": ["office"]})
            assert "isError" not in gone
        assert [one.text for one in kept(talk, OBSERVATIONS)] == ["lives in Bern"]
