"""Shapes in which guards of memory were bypassed elsewhere: what decides, and what it covers."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import msgspec
import pytest

from policy.checks import STEPS
from policy.gate import GATE, Gate
from policy.model import Channel, Claims
from proxy.compose.app import Composition
from proxy.settings.table import SettingsError
from storage.ground.errors import TransactionFailed
from tests.conformance.bypass import directive, formed, mem0, reads
from tests.conformance.canary import new_canary, traces
from tests.evaluate.unsafe import unsafe_gate_without
from tests.integration.running import AGENT_KEY, OPERATOR_KEY, Json, running

NO_FLOOR = unsafe_gate_without(frozenset({1, 2}))
WALLS = pytest.mark.parametrize("walled", [True, False], ids=["walled", "control"])
NAMES = ("target", "role", "actor", "user_id", "agent_id", "run_id", "app_id")


def with_wall(walled: bool) -> Composition:  # noqa: FBT001 - the parameter of every test here
    return Composition() if walled else Composition(gate=NO_FLOOR)


@WALLS
async def test_a_batch_is_judged_item_by_item(walled: bool, tmp_path: Path) -> None:  # noqa: FBT001
    text, canary = directive()
    operations = [
        {"op": "create", "text": "The office opens at nine."},
        {"op": "create", "text": text},
        {"op": "create", "text": "The library closes at six."},
    ]
    async with running(tmp_path, with_wall(walled)) as live:
        _, body = await live.call(
            "POST", "/v1/memories/batch", AGENT_KEY, {"operations": operations}
        )
        assert (body["admitted"], body["held"]) == ((2, 1) if walled else (3, 0))
        assert body["refused"] == 0
        assert live.version() == (2 if walled else 3)
        assert (await formed(live, canary) == []) is walled


@WALLS
async def test_a_bulk_add_of_messages_is_judged_message_by_message(
    walled: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    text, canary = directive()
    messages = [
        {"role": "user", "content": "I moved to Lisbon."},
        {"role": "assistant", "content": text},
    ]
    async with running(tmp_path, with_wall(walled)) as live:
        _, said = await mem0(
            live, "POST", "/v1/memories/", AGENT_KEY, {"messages": messages, "user_id": "ada"}
        )
        assert live.version() == (1 if walled else 2)
        assert (canary in said) is not walled
        assert (await formed(live, canary) == []) is walled


async def test_what_is_stored_is_what_was_judged_byte_by_byte(tmp_path: Path) -> None:
    """No transform stands between verdict and store that could make a directive of a text."""
    text = "\uff26\uff32\uff2f\uff2d e\u0301 \u212b  spaced   out\tand\r\nmore "
    assert unicodedata.normalize("NFKC", text) != text
    async with running(tmp_path) as live:
        status, made = await live.write(AGENT_KEY, {"text": text})
        assert status == 201
        assert await live.texts(AGENT_KEY) == [text]
        _, told = await live.call("GET", f"/v1/memories/{made['id']}/history", AGENT_KEY)
        assert told["history"][0]["new_text"] == text


def carrying(name: str, said: str) -> Json:
    carriers: Json = {
        "metadata value": {"metadata": {"note": {"deep": [said]}}},
        "metadata key": {"metadata": {said: 1}},
    }
    carrier: Json = carriers.get(name, {name: said})
    return carrier


@WALLS
async def test_no_side_field_carries_a_directive(walled: bool, tmp_path: Path) -> None:  # noqa: FBT001
    async with running(tmp_path, with_wall(walled)) as live:
        for name in (*NAMES, "metadata value", "metadata key"):
            said, canary = directive()
            body = {"text": "Lunch is at noon.", **carrying(name, said)}
            status, answer = await live.write(AGENT_KEY, body)
            assert status == (202 if walled else 201), (name, answer)
            assert (await formed(live, canary) == []) is walled, name


async def test_a_delete_is_checked_like_any_write(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        _, theirs = await live.write(OPERATOR_KEY, {"text": "Refunds take a day.", "user_id": "a"})
        _, own = await live.write(AGENT_KEY, {"text": "Ada likes tea.", "user_id": "a"})
        path = f"/v1/memories/{theirs['id']}"
        delete = {"operations": [{"op": "delete", "id": theirs["id"]}]}
        for method, where, body in (
            ("DELETE", path, None),
            ("POST", "/v1/memories/batch", delete),
        ):
            status, answer = await live.call(method, where, AGENT_KEY, body)
            assert "source_below_stored" in str(answer), (status, answer)
        await mem0(live, "DELETE", f"/v1/memories/{theirs['id']}/", AGENT_KEY, None)
        # Of everything under one id, only its own goes; that is the control as well.
        await live.call("DELETE", "/v1/memories?user_id=a", AGENT_KEY)
        await mem0(live, "DELETE", "/v1/memories/?user_id=a", AGENT_KEY, None)
        assert await live.texts(OPERATOR_KEY) == ["Refunds take a day."]
        status, _ = await live.call("GET", f"/v1/memories/{own['id']}", AGENT_KEY)
        assert status == 404


@pytest.mark.parametrize("gate", [Gate(()), GATE], ids=["no steps", "control"])
async def test_an_empty_list_of_checks_admits_nothing(gate: Gate, tmp_path: Path) -> None:
    canary = new_canary()
    async with running(tmp_path, Composition(gate=gate)) as live:
        status, body = await live.write(OPERATOR_KEY, {"text": f"The word is {canary}."})
        if gate is GATE:
            assert status == 201
            assert await formed(live, canary) != []
        else:
            assert (status, body["reason"]) == (503, "gate_unavailable")
            assert (live.version(), await formed(live, canary)) == (0, [])


@pytest.mark.parametrize("text", ["", "[matrix]\n", "# nothing\n"])
async def test_an_empty_ruleset_stops_the_start(text: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text)
    with pytest.raises((SettingsError, ValueError)):
        async with running(tmp_path, flags={"ruleset": str(file)}):
            pass


class _Crashing(msgspec.Struct, frozen=True):
    """A step's check that fails for one text and passes every other."""

    canary: str

    def __call__(self, candidate: object, *_more: object) -> None:
        if self.canary in str(candidate):
            raise ZeroDivisionError(self.canary)


async def test_a_check_that_crashes_refuses_and_keeps_its_words(tmp_path: Path) -> None:
    canaries = {step.number: new_canary() for step in STEPS}
    steps = tuple(
        msgspec.structs.replace(step, check=_Crashing(canaries[step.number])) for step in STEPS
    )
    async with running(tmp_path, Composition(gate=Gate(steps))) as live:
        for number, canary in canaries.items():
            status, body = await live.write(OPERATOR_KEY, {"text": f"The word is {canary}."})
            assert (status, body["reason"], body["step"]) == (503, "gate_unavailable", number)
            assert canary not in str(body)
            assert (live.version(), await formed(live, canary)) == (0, [])
        status, _ = await live.write(OPERATOR_KEY, {"text": "The word is another."})
        assert status == 201, "control: what crashes no check lands"


async def test_nothing_of_a_refused_write_is_in_any_derived_structure(tmp_path: Path) -> None:
    text, canary = directive()
    async with running(tmp_path) as live:
        await live.write(AGENT_KEY, {"text": "The office opens at nine.", "user_id": "ada"})
        before = live.sidecar.store.reader.check()
        for body in (
            {"text": text, "class": "L1", "user_id": canary},
            {"text": text, "class": "L2", "target": canary},
            {"text": text, "metadata": {"k": canary}, "run_id": canary},
        ):
            status, _ = await live.write(AGENT_KEY, body)
            assert status in {202, 403}
        after = live.sidecar.store.reader.check()
        assert (after.rows, after.vectors, after.version, after.problems) == (
            *(before.rows, before.vectors, before.version),
            (),
        )
        assert await formed(live, canary) == []
        _, found = await live.call("POST", "/v1/search", AGENT_KEY, {"query": text, "limit": 100})
        assert [hit["text"] for hit in found["results"]] == ["The office opens at nine."]


async def test_nothing_is_mirrored_of_a_write_whose_commit_failed(tmp_path: Path) -> None:
    canary = new_canary()
    failing = True

    def disk(name: str) -> None:
        if failing and name == "before_commit" and live.sidecar.store.reader.status().version == 0:
            raise TransactionFailed("mdb_txn_commit: Input/output error")

    body = {"text": f"The word is {canary}.", "user_id": canary, "nonce": "n-1"}
    # The keys of a first start are commits as well: the disk fails once they are there.
    armed = False
    async with running(
        tmp_path, Composition(failpoint=lambda name: disk(name) if armed else None)
    ) as live:
        armed = True
        status, answer = await live.write(AGENT_KEY, body)
        assert (status, canary in str(answer)) == (503, False)
        assert (live.version(), await formed(live, canary)) == (0, [])
        failing = False
        status, _ = await live.write(AGENT_KEY, body)
        assert status == 201, "control: the same request lands once the disk is well"
        assert canary in await reads(live, AGENT_KEY)


async def test_an_update_launders_neither_class_nor_label(tmp_path: Path) -> None:
    text, canary = directive()
    async with running(tmp_path) as live:
        person = await live.key("person", channel=Channel.USER)
        seen = {"text": "Ada likes tea.", "class": "L4", "metadata": {"seen": "on a page"}}
        _, made = await live.write(AGENT_KEY, seen)
        path = f"/v1/memories/{made['id']}"
        for body in ({"class": "L1"}, {"class": "L2"}, {"text": text}, {"metadata": {"k": text}}):
            status, answer = await live.call("PATCH", path, AGENT_KEY, body)
            assert status in {202, 403}, answer
        # A class is raised by a token and by nobody's rank.
        status, answer = await live.call("PATCH", path, OPERATOR_KEY, {"class": "L1"})
        assert (status, answer["reason"]) == (403, "promotion_token_missing")
        for key in (person, OPERATOR_KEY):
            status, answer = await live.call("PATCH", path, key, {"text": "Ada likes coffee."})
            assert (status, answer["source"]) == (200, "unknown"), "a part of it stays"
        _, shown = await live.call("GET", path, AGENT_KEY)
        assert (shown["class"], shown["source"]) == ("L4", "unknown")
        assert await formed(live, canary, (made["id"],)) == []
        status, answer = await live.write(person, {"text": "Ada likes coffee.", "class": "L2"})
        assert (status, answer["source"]) == (201, "user_input"), "control: said by a person"


async def test_lineage_cannot_be_forged_upwards(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        vouched = await live.key("harness", claims=Claims.TRUSTED)
        stranger = await live.key("stranger", tenant="other")
        _, low = await live.write(AGENT_KEY, {"text": "The agent guessed this."})
        _, high = await live.write(OPERATOR_KEY, {"text": "The operator published this."})
        _, far = await live.write(stranger, {"text": "Another tenant's."})
        _, gone = await live.write(AGENT_KEY, {"text": "Soon gone."})
        await live.call("DELETE", f"/v1/memories/{gone['id']}", AGENT_KEY)
        said: Json = {"text": "Ada lives in Lisbon.", "source": "user_input", "class": "L2"}
        status, answer = await live.write(
            vouched, {**said, "derived_from": [high["id"], low["id"]]}
        )
        # It lands as no more than the least of them may be.
        labels = (answer["source"], answer["memory_class"], answer["class_lowered"])
        assert (status, *labels) == (201, "unknown", "L3", True), answer
        for unknown in (far["id"], gone["id"], "00000000-0000-4000-8000-00000000000a"):
            status, _ = await live.write(vouched, {**said, "derived_from": [unknown]})
            assert status == 422
        # Naming a better source lifts nothing: an agent stays what its channel is.
        status, answer = await live.write(
            AGENT_KEY, {"text": "A note.", "derived_from": [high["id"]]}
        )
        assert (status, answer["source"]) == (201, "unknown")
        status, answer = await live.write(vouched, {**said, "derived_from": [high["id"]]})
        assert (status, answer["source"]) == (201, "user_input"), "control: of a better source"
        assert traces(live.state, high["id"]) != []
