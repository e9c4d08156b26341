"""Unmodified `mem0ai` 1.0.11, 0.1.118 (PyPI) and 3.3.1 (npm), each against a real sidecar."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.integration.clients.environments import node_environment, python_environment
from tests.integration.clients.process import drive_client
from tests.integration.running import AGENT_KEY, Running, running

CLIENTS: Final = Path(__file__).parent / "clients"
CANARY: Final = "Quixotia9e41"
PYTHON: Final = ("1.0.11", "0.1.118")
NPM: Final = "3.3.1"
ORDERS: Final = ("refused", "held_update", "held_batch")

Seen = dict[str, Any]


@pytest.fixture(scope="module", params=[*PYTHON, f"npm-{NPM}"])
def driver(request: pytest.FixtureRequest) -> tuple[str | Path, ...]:
    """The command that drives one client, once its environment is there."""
    if request.param not in PYTHON:
        module = node_environment("mem0ai", NPM) / "node_modules/mem0ai/dist/index.mjs"
        node = shutil.which("node")
        assert node is not None
        return node, CLIENTS / "mem0_npm_drive.mjs", module
    interpreter = python_environment("mem0ai", request.param)
    return interpreter, "-W", "ignore", CLIENTS / "mem0_old_drive.py"


async def drive(sidecar: Running, driver: tuple[str | Path, ...], home: Path) -> Seen:
    refused_key = await sidecar.key("refused")
    return await drive_client(*driver, sidecar.url, AGENT_KEY, refused_key, CANARY, home=home)


def items(answer: Seen | list[Seen]) -> list[Seen]:
    """The memories of an answer: older clients return a bare list where newer ones wrap it."""
    listed = answer["results"] if isinstance(answer, dict) else answer
    return msgspec.convert(listed, type=list[Seen])


def texts(answer: Seen | list[Seen]) -> list[str]:
    return sorted(item["memory"] for item in items(answer))


@pytest.mark.share(of=3)
@pytest.mark.heavy
@pytest.mark.timeout(600)
async def test_the_client_writes_reads_and_is_refused_honestly(
    driver: tuple[str | Path, ...], tmp_path: Path
) -> None:
    async with running(tmp_path) as sidecar:
        seen = await drive(sidecar, driver, tmp_path / "home")
        stored = await sidecar.texts(AGENT_KEY)
    wrote_and_read(seen)
    changed(seen)
    removed(seen)
    refused(seen)
    asynchronous(seen)
    assert stored == ["We spoke about dinner."]
    # Control: what was admitted does come back, and the search for it is the same.
    assert "I moved to Porto." in json.dumps(seen)
    assert CANARY not in json.dumps(seen)


def wrote_and_read(seen: Seen) -> None:
    assert texts(seen["add"]) == [
        "I live in Lisbon and I cycle to work.",
        "Noted: Lisbon, by bicycle.",
    ]
    assert seen["add"]["infer"].startswith("verbatim")
    later = ["My sister is called Marta.", "The build is green."]
    everything = sorted([*texts(seen["add"]), *later])
    assert texts(seen["get_all"]) == everything
    assert len(items(seen["page"])) == 2
    assert seen["page"]["next"] is not None
    best = items(seen["search"])
    assert [item["memory"] for item in best] == ["I live in Lisbon and I cycle to work."]
    # The same words, unproven: (1 + 1.5 x 0.5) x 0.92 / 2.9.
    assert best[0]["score"] == pytest.approx(0.555, abs=1e-3)
    assert best[0]["metadata"] == {"src": "chat"}
    assert seen["get"]["memory"] == best[0]["memory"]
    if "search_v1" in seen:
        assert [item["id"] for item in items(seen["search_v1"])] == [best[0]["id"]]
        assert texts(seen["get_all_v1"]) == everything
        assert len(items(seen["page_v1"])) == 2
    kinds = {(entity["type"], entity["name"]) for entity in items(seen["users"])}
    assert kinds == {("user", "alice"), ("run", "r1"), ("app", "ci")}


def changed(seen: Seen) -> None:
    assert seen["update"]["memory"] == "I moved to Porto."
    assert seen["update_metadata"]["memory"] == "I moved to Porto."
    assert seen["update_metadata"]["metadata"] == {"z": 2}
    assert [row["event"] for row in seen["history"]] == ["ADD", "UPDATE", "UPDATE"]
    assert seen["batch_update"]["message"].startswith("Successfully updated 1 memories; 1 were not")
    assert [item["reason"] for item in seen["batch_update"]["results"]] == ["target_missing"]
    left = ["I moved to Braga.", "I moved to Porto.", "My sister is called Marta."]
    assert sorted(seen["export_by_id"]["memories"]) == [*left, "The build is green."]
    assert seen["export_by_user"] == seen["export_by_id"]


def removed(seen: Seen) -> None:
    assert "deleted" in seen["delete"]["message"]
    for gone in ("get_deleted", "delete_again"):
        assert seen[gone]["raised"] == "MemoryNotFoundError", seen[gone]
    assert seen["batch_delete"]["message"] == "Successfully deleted 1 memories"
    assert seen["delete_run"]["message"] == "Entity deleted successfully."
    assert "deleted 0" in seen.get("delete_user", {"message": "deleted 0"})["message"]
    assert seen["delete_all"]["message"] == "Successfully deleted 1 memories"
    assert seen["delete_all_without_id"]["code"] == "HTTP_400"
    assert items(seen["get_all_after"]) == []


def refused(seen: Seen) -> None:
    for name in ORDERS:
        assert seen[name]["raised"] == "ValidationError", (name, seen[name])
        assert seen[name]["code"] == "HTTP_422"
    assert "rejected: source_class_forbidden (class L1" in seen["refused"]["message"]
    for name in ORDERS[1:]:
        assert "held for review: class_floor (class L1" in seen[name]["message"], seen[name]
        assert "waits for a person" in seen[name]["message"]
    # An add that waits raises nothing, and stores nothing.
    (waits,) = items(seen["held"])
    assert (waits["event"], waits["decision"]) == ("NONE", "hold"), seen["held"]
    assert "waits for a person" in waits["observation"]
    partial = items(seen["partial"])
    assert [(item["event"], item.get("reason")) for item in partial] == [
        ("NONE", "class_floor"),
        ("ADD", None),
    ]
    assert texts(seen["refused_search"]) == ["We spoke about dinner."]
    assert texts(seen["refused_get_all"]) == ["We spoke about dinner."]
    assert seen["refused_history"] == seen["history"]
    assert seen["refused_export"]["memories"] == seen["export_by_id"]["memories"]
    taken = seen["feedback"]
    assert taken.get("feedback") == "POSITIVE" or taken.get("raised") == "TypeError", taken
    if "profile" in seen:
        assert seen["profile"]["code"] == "HTTP_404"
    else:
        assert seen["summary"]["code"] == "HTTP_403"
    # 3.x shows the whole answer; the older ones stop in their constructor with its `detail`.
    assert "credential" in seen["bad_key"]["message"]


def asynchronous(seen: Seen) -> None:
    """The Python packages have a second client; the one of npm is asynchronous as it is."""
    if "async_add" not in seen:
        return
    assert len(items(seen["async_add"])) == 2
    assert len(items(seen["async_search"])) == 2
    assert "deleted" in seen["async_delete"]["message"]
    assert seen["async_delete_all"]["message"] == "Successfully deleted 1 memories"
