"""Commands about a store: export, retention, formats, rules, recalls, lineage."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import lmdb
import msgspec
import pytest

from proxy.cli.exits import Exit
from storage.features.pinned_tools import PINS
from storage.tables.codec import STORE_FORMAT, encode
from storage.tables.names import TABLES
from storage.tables.read_only import read_only
from storage.upkeep.backup import take
from tests.integration.cli_process import DEADLINE_S, ROOT, Done, Place
from tests.integration.model_bench import asking, call, fronted
from tests.integration.models.server import scripted_model
from tests.integration.running import AGENT_KEY
from tests.integration.test_cli_sessions import PAGE, SAID, note_of_a_page, served
from tests.integration.test_model_coupling import answered
from tests.integration.test_recalls_of_replies import TEA, TRAIN, reply_id_in
from tests.unit.proxy.admin.test_rules_in_force import STRICTER
from tests.unit.storage.opening import RULESET_TEXT, Bench, digests_of, put_header, say

RULES = RULESET_TEXT + "\n[retention.classes.L4]\nper_principal_max = 2\n"
POLICY = {"text": "Invoices go to billing@acme.example.", "class": "L1"}


@contextmanager
def _following(place: Place, *words: str) -> Generator[subprocess.Popen[str]]:
    """`audit export --follow`, ended as a supervisor ends it."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "proxy", "audit", "export", "--follow", *words],
        cwd="/",
        env=place.environment() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            rest, complaint = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, rest, complaint) == (0, "", "")


def _next(stream: IO[str] | None) -> Any:  # noqa: ANN401 - a record as JSON has it
    assert stream is not None
    return json.loads(stream.readline())


def _until(stream: IO[str] | None, dataset: str) -> Any:  # noqa: ANN401 - as above
    while True:
        record = _next(stream)
        if record["event.dataset"] == dataset:
            return record


def test_an_export_that_follows_tells_each_verdict_once_and_ends_when_told(tmp_path: Path) -> None:
    place = Place(root=tmp_path)
    with place.running() as sidecar:
        key = sidecar.key("agent")
        assert sidecar.write(key, text="Ada moved to Lisbon in March.")[0] == 201
        with _following(place) as process:
            first = _until(process.stdout, "mnemogate.verdict")
            assert first["mnemogate.decision"] == "admit"
            # It is at the log's end: what comes now is there by following, not by reading on.
            assert sidecar.write(key, **POLICY)[0] == 403
            second = _until(process.stdout, "mnemogate.verdict")
            assert (second["mnemogate.decision"], second["event.reason"]) == (
                "reject",
                "source_class_forbidden",
            )
            assert sidecar.write(key, text="Ada likes the sea.")[0] == 201
            third = _until(process.stdout, "mnemogate.verdict")
        told = [one["event.sequence"] for one in (first, second, third)]
        assert told == sorted(set(told))
        # Resumed by the number the SIEM saw last: neither again, nor with a gap.
        with _following(place, "--since", str(second["event.sequence"] + 1)) as process:
            assert _until(process.stdout, "mnemogate.verdict") == third
    every = [json.loads(line) for line in place.command("audit", "export").out.splitlines()]
    assert [one for one in every if one["event.dataset"] == "mnemogate.verdict"] == [
        first,
        second,
        third,
    ]


def test_an_export_without_a_store_says_where_to_go_on(tmp_path: Path) -> None:
    done = Place(root=tmp_path).command("audit", "export", "--follow", "--since", "7")
    assert done.code == 3
    assert "stopped before leaf 7" in done.err
    assert "--since 7" in done.err


def test_retention_run_lists_first_and_then_erases_with_a_leaf_each(tmp_path: Path) -> None:
    place = Place(root=tmp_path)
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    with place.running("--ruleset", str(rules), "--retention-seconds", "0") as sidecar:
        key = sidecar.key("agent")
        for number in range(5):
            text = f"Episode number {number}."
            assert sidecar.write(key, **{"text": text, "class": "L4"})[0] == 201
        assert sidecar.write(key, **{"text": "Knowledge that stays.", "class": "L3"})[0] == 201

        dry = place.command("retention", "run", "--dry-run", "--json")
        assert (dry.code, dry.data["due_count"], dry.data["purged_count"]) == (0, 3, 0), dry.err
        assert {one["why"] for one in dry.data["due"]} == {"per_principal"}
        shown = place.command("retention", "run", "--dry-run")
        assert "3 memories are due; nothing was erased" in shown.out
        assert place.command("memory", "list", "--json").data["total"] == 6

        done = place.command("retention", "run")
        assert (done.code, done.err) == (0, "")
        assert done.out == "3 memories erased, with a leaf each\n"
        left = place.command("memory", "list", "--json").data["memories"]
        assert sorted(one["text"] for one in left) == [
            "Episode number 3.",
            "Episode number 4.",
            "Knowledge that stays.",
        ]
        again = place.command("retention", "run", "--json").data
        assert (again["due_count"], again["purged_count"]) == (0, 0)
    purges = [
        one
        for one in map(json.loads, place.command("audit", "export").out.splitlines())
        if one.get("event.action") == "memory-purge"
    ]
    assert [one["user.id"] for one in purges] == [f"uid:{os.getuid()}"] * 3
    data = (place.state / "store" / "data.mdb").read_bytes()
    assert b"Episode number 4" in data, "control: the search finds what is there"
    assert b"Episode number 0" not in data


COMMANDS = {
    "run": ("run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
    "verify": ("audit", "verify"),
    "export": ("audit", "export"),
    "backup": ("backup", "{root}/taken"),
    "restore": ("restore", "{root}/backup", "--state", "{root}/new"),
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A store with one memory, and a backup of it as it will be."""
    bench = Bench(tmp_path)
    store = bench.open()
    say(store, "the meeting is on Tuesday")
    store.close()
    return Place(root=tmp_path)


def _becomes(place: Place, number: int) -> None:
    """Store and backup get another format, the backup by a version that can take one of it."""
    bench = Bench(place.root)
    with read_only(place.state / "store", digests_of(place.state)) as view:
        header = view.header()
    assert header is not None
    put_header(bench, encode(msgspec.structs.replace(header, format=number)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("storage.upkeep.backup.refuse_unknown", id)
        take(place.state, place.root / "backup", bench.clock(), with_secrets=True)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", [STORE_FORMAT - 1, STORE_FORMAT + 1])
def test_a_store_of_another_format_is_refused_with_what_to_do(
    place: Place, command: str, number: int
) -> None:
    words = [word.format(root=place.root) for word in COMMANDS[command]]
    _becomes(place, number)
    before = (place.state / "store" / "data.mdb").read_bytes()
    done = place.command(*words)
    assert done.code != 0
    assert f"the store has format {number}, and this version reads " in done.err
    assert "install the version that wrote it" in done.err
    assert "owner" not in done.err, "another user would be refused as well"
    assert "Traceback" not in done.err
    assert (place.state / "store" / "data.mdb").read_bytes() == before
    assert not (place.root / "new" / "store").exists()
    assert not (place.root / "taken").exists(), "nothing of a store is left by a refused backup"


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "run"])
def test_a_store_of_this_format_is_refused_by_none(place: Place, command: str) -> None:
    words = [word.format(root=place.root) for word in COMMANDS[command]]
    _becomes(place, STORE_FORMAT)
    done = place.command(*words)
    assert (done.code, done.err) == (0, "")


def test_a_number_that_somebody_changed_hides_nothing_from_the_auditor(place: Place) -> None:
    _becomes(place, STORE_FORMAT + 1)
    place.checkpoint.unlink()
    done = place.command("audit", "verify", "--json")
    assert done.code == 1
    assert [problem["where"] for problem in done.data["problems"]] == ["header", "copy"]
    assert f"the store has format {STORE_FORMAT + 1}" in done.data["first_bad"]["what"]


def test_a_store_that_lacks_a_table_is_told_from_one_that_cannot_be_read(place: Place) -> None:
    env = lmdb.open(str(place.state / "store"), max_dbs=len(TABLES), map_size=1 << 28)
    with env.begin(write=True) as txn:
        txn.drop(env.open_db(PINS, txn=txn))
    env.close()
    done = place.command("audit", "verify")
    assert done.code != 0
    assert "another version wrote it, or its first start did not end" in done.err


def _epoch(place: Place) -> int:
    return int(place.command("policy", "show", "--json").data["epoch"])


def _until_epoch(place: Place, epoch: int) -> int:
    deadline = time.monotonic() + DEADLINE_S
    while (now := _epoch(place)) != epoch and time.monotonic() < deadline:
        pass
    return now


def test_rules_are_exchanged_while_it_serves(tmp_path: Path) -> None:
    place, file = Place(root=tmp_path), tmp_path / "ruleset.toml"
    file.write_text(RULESET_TEXT)
    with place.running("--ruleset", str(file)) as sidecar:
        key = sidecar.key("agent")
        assert sidecar.write(key, text="A plain fact.")[0] == 201
        file.write_text(STRICTER)
        done = place.command("policy", "reload", "--json")
        assert (done.code, done.data["epoch"], done.data["changed"]) == (0, 2, True)
        status, refused = sidecar.write(key, text="Another plain fact.")
        assert (status, refused["reason"]) == (202, "source_class_forbidden")

        file.write_text(RULESET_TEXT)
        os.kill(sidecar.pid, signal.SIGHUP)
        assert _until_epoch(place, 3) == 3
        assert sidecar.write(key, text="A third plain fact.")[0] == 201

        file.write_text(STRICTER[:900])
        bad = place.command("policy", "reload")
        assert bad.code == 5
        assert "ruleset_refused" in bad.err
        assert "epoch 3 stays in force" in bad.err
        os.kill(sidecar.pid, signal.SIGHUP)
        shown = place.command("policy", "show", "--json").data
        assert (shown["epoch"], shown["text"]) == (3, RULESET_TEXT), "not what the file says now"
        assert sidecar.write(key, text="A fourth plain fact.")[0] == 201
    assert place.command("audit", "verify", "--json").data["sound"]


async def test_a_person_sees_what_reads_showed_and_what_stood_before_a_reply(
    tmp_path: Path,
) -> None:
    async def told(*words: str) -> Done:
        return await asyncio.to_thread(Place(root=tmp_path).command, "recall", *words)

    async with fronted(tmp_path) as bench:
        ids = [(await bench.front.write(AGENT_KEY, {"text": one}))[1]["id"] for one in (TEA, TRAIN)]
        asked = {"query": "When is tea?", "limit": 1}
        _, found = await bench.front.call("POST", "/v1/search", AGENT_KEY, asked)
        assert [one["id"] for one in found["results"]] == ids[:1]
        body = asking("chat", f"When is tea? {call('fetch', url='x')}", tools=("fetch",))
        assert (await bench.ask("chat", body)).status == 200
        result = json.dumps({"results": found["results"]})
        second = await bench.ask("chat", answered("chat", body, "call_0000", result))
        reply_id = reply_id_in(second.raw)

        (recall,) = (await told("list", "--json")).data["recalls"]
        reply = (await told("show", "--reply", reply_id, "--json")).data
        assert [one["memory_id"] for one in reply["memories"]] == ids[:1]
        assert reply["memories"][0]["recall_id"] == recall["recall_id"]
        assert (await told("show", recall["recall_id"], "--json")).data == recall
        for option, given in (("--memory", ids[0]), ("--session", reply["session"])):
            short = await told("list", option, given[:12], "--json")
            assert short.data["recalls"] == [recall]
        # Controls: a memory that was never shown, and the tables for a person.
        never = await told("list", "--memory", ids[1])
        assert (never.code, "no read" in never.out) == (Exit.OK, True), never.err
        shown = [await told("list"), await told("show", recall["recall_id"])]
        shown.append(await told("show", "--reply", reply_id))
        for one in shown:
            assert (one.code, ids[0] in one.out) == (Exit.OK, True), one.err
            assert "tea" not in one.out, "ids and numbers, no text"

        for words, code in (
            (("show", "0" * 16), Exit.NOT_FOUND),
            (("show", "--reply", "msg_never"), Exit.NOT_FOUND),
            (("show",), Exit.USAGE),
            (("show", "0" * 16, "--reply", reply_id), Exit.USAGE),
            (("list", "--memory", ids[0], "--session", reply["session"]), Exit.USAGE),
            (("list", "--limit", "0"), Exit.USAGE),
        ):
            refused = await told(*words)
            assert (refused.code, refused.out) == (code, ""), words


async def test_a_memory_is_followed_to_its_leaves_its_session_and_its_parents(
    tmp_path: Path,
) -> None:
    place = Place(root=tmp_path)
    async with scripted_model() as model, served(place, model) as sidecar:
        key = sidecar.agent_key()
        _, parent = await sidecar.post(key, "/v1/memories", {"text": "Ada collects old clocks."})
        _, gone = await sidecar.post(key, "/v1/memories", {"text": "Ada sold a clock."})
        await note_of_a_page(sidecar, key)
        listed = await sidecar.command("memory", "list")
        (noted,) = [one for one in listed["memories"] if PAGE in (one["text"] or "")]
        said = {"id": noted["memory_id"]}
        derived = {"text": "Trains it is.", "derived_from": [said["id"], parent["id"], gone["id"]]}
        _, child = await sidecar.post(key, "/v1/memories", derived)
        await sidecar.command("memory", "purge", gone["id"], "--yes")

        traced = await sidecar.command("provenance", "show", child["id"])
        nodes = {one["memory_id"]: one for one in traced["memories"]}
        assert traced["memories"][0]["memory_id"] == child["id"]
        assert set(nodes[child["id"]]["parents"]) == {said["id"], parent["id"], gone["id"]}
        # What is lost is named, and nothing behind it is told.
        assert (nodes[gone["id"]]["status"], nodes[gone["id"]]["steps"]) == ("lost", [])
        (step,) = nodes[said["id"]]["steps"]
        assert (step["basis"], step["trust"], step["known"]) == ("unproven", "trusted", True)
        assert "fetch" in {one["tool"] for one in step["segments"]}
        listed = await sidecar.command("session", "list")
        assert step["session"] in {one["session"] for one in listed["sessions"]}
        assert step["verdict"]["leaf_index"] > step["intercepted"]["leaf_index"]
        # A session that began later is in no step of what was there before it.
        (first,) = nodes[parent["id"]]["steps"]
        assert (first["session"], first["segments"]) == (None, [])

        dot = await asyncio.to_thread(
            place.command, "provenance", "show", child["id"], "--format", "dot"
        )
        assert dot.out.startswith("digraph provenance {")
        assert f'"{said["id"]}" -> "{child["id"]}" [label="derived"];' in dot.out
        assert "fetch" in dot.out
        told = await asyncio.to_thread(place.command, "provenance", "show", child["id"])
        assert f"{gone['id']} (lost)" in told.out
        for text in (PAGE, SAID):
            assert text not in told.out + dot.out
