"""The log as others get it from a running gate: tiles by the command line, heads by witnesses."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cli_process import Done, Place, Running
from tests.integration.running import AGENT_KEY, running
from tests.tlog_reader import check_public, check_whole, cosigned_at, head_of
from tests.tlog_witness import Answer, Trusting, Witness, serving

DEADLINE_S = 60
ORIGIN = "gate.example/prod"


def settings_for(url: str, witness: Witness, required: int = 1) -> str:
    return (
        f'log_origin = "{ORIGIN}"\nwitness_seconds = 1.0\nwitness_required = {required}\n'
        f'[[witness]]\nname = "w1"\nurl = "{url}"\nkey = "{witness.vkey}"\n'
    )


def tiles(place: Place, out: Path, *words: str, config: Path | None = None) -> Done:
    more = {} if config is None else {"MNEMOGATE_CONFIG": str(config)}
    return place.command("audit", "tiles", "--out", str(out), *words, **more)


def ready_at(sidecar: Running, strict: str = "") -> dict[str, object]:
    with urllib.request.urlopen(  # noqa: S310 - our own listener
        f"{sidecar.ready['admin']}/readyz{strict}", timeout=DEADLINE_S
    ) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def write(sidecar: Running, count: int, key: str = "") -> None:
    key = key or sidecar.key("agent")
    for at in range(count):
        status, _ = sidecar.write(key, text=f"fact {at} at {time.monotonic_ns()}")
        assert status == 201


def test_tiles_of_a_running_gate_are_read_with_nothing_but_the_key(tmp_path: Path) -> None:
    place = Place(root=tmp_path)
    with place.running() as sidecar:
        vkey = place.command("audit", "checkpoint", "--vkey-only").out.strip()
        for round_ in range(2):
            write(sidecar, 5)
            done = tiles(place, tmp_path / "public")
            assert done.code == 0, done.err
            head = check_public(tmp_path / "public", vkey)
            assert f"{head.size} leaves in {tmp_path / 'public'}" in done.out
            done = tiles(place, tmp_path / "own", "--entries", "--json")
            assert done.code == 0, done.err
            whole, entries = check_whole(tmp_path / "own", vkey)
            assert whole.size == len(entries) == done.data["size"] == head.size
            if round_:
                again = tiles(place, tmp_path / "public", "--entries")
                assert again.code == 3
                assert "was begun without entries" in again.err
    # The same, once the gate is stopped; and a changed DIR is not continued.
    assert tiles(place, tmp_path / "public").code == 0
    shutil.copytree(tmp_path / "public", tmp_path / "changed")
    path = tmp_path / "changed" / "checkpoint"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n9", 1))
    refused = tiles(place, tmp_path / "changed")
    assert refused.code == 1
    assert "nothing was published" in refused.err
    file = tmp_path / "file"
    file.write_text("no directory")
    refused = tiles(place, file)
    assert (refused.code, str(file) in refused.err) == (3, True)
    elsewhere = place.command("audit", "tiles", "--out", str(tmp_path / "x"), "--state", "/nowhere")
    assert elsewhere.code == 3
    assert "--state" in elsewhere.err


def test_a_witnessed_head_is_published_with_its_cosignature(tmp_path: Path) -> None:
    place, config = Place(root=tmp_path), tmp_path / "mnemogate.toml"
    witness = Witness(tmp_path / "witness.json")
    with serving(witness) as url:
        config.write_text(settings_for(url, witness))
        with place.running(MNEMOGATE_CONFIG=str(config)) as sidecar:
            # A witness has to be given the key of a log.
            until(lambda: "404" in str(ready_at(sidecar)["reason"]), "the refusal is shown")
            assert ready_at(sidecar)["status"] == "degraded"
            assert ready_at(sidecar, "?strict=true")["status"] == "degraded", "not 503: it writes"
            down = place.command("status", MNEMOGATE_CONFIG=str(config))
            assert down.code == 1
            early = tiles(place, tmp_path / "early", config=config)
            assert "cosigned by 0" in early.out, early.err
            assert "[[witness]] w1" in down.out
            assert "it does not know this log" in down.out
            write(sidecar, 3)
            vkey = place.command("audit", "checkpoint", "--vkey-only").out.strip()
            assert vkey.startswith(f"{ORIGIN}+")
            witness.knows(vkey)
            until(lambda: ready_at(sidecar)["status"] == "ready", "it is ready")
            size = head_of(place.command("audit", "checkpoint").out.encode()).size
            until(lambda: witness.kept()[ORIGIN][0] == size, "the newest head was cosigned")
            done = tiles(place, tmp_path / "public", config=config)
            assert done.code == 0, done.err
            assert "cosigned by 1" in done.out
            head = check_public(tmp_path / "public", vkey)
            note = (tmp_path / "public" / "checkpoint").read_bytes()
            assert abs(cosigned_at(note, witness.vkey) - time.time()) < DEADLINE_S
            assert head.size == size
            assert place.command("status", MNEMOGATE_CONFIG=str(config)).code == 0


@pytest.mark.parametrize("kind", [Witness, Trusting])
def test_a_store_that_was_put_back_with_its_copy_is_shown_by_its_witness_alone(
    tmp_path: Path, kind: type[Witness]
) -> None:
    """Store, copy of the checkpoint and keys are all an older state's: nothing here can tell."""
    place, config = Place(root=tmp_path), tmp_path / "mnemogate.toml"
    witness = kind(tmp_path / "witness.json")
    earlier = [
        (path, tmp_path / f"earlier-{path.name}") for path in (place.state, place.checkpoint.parent)
    ]
    with serving(witness) as url:
        config.write_text(settings_for(url, witness))
        with place.running(MNEMOGATE_CONFIG=str(config)) as sidecar:
            key = sidecar.key("agent")
            vkey = place.command("audit", "checkpoint", "--vkey-only").out.strip()
        for path, kept in earlier:
            shutil.copytree(path, kept)
        witness.knows(vkey)
        with place.running(MNEMOGATE_CONFIG=str(config)) as sidecar:
            write(sidecar, 20, key)
            size = head_of(place.command("audit", "checkpoint").out.encode()).size
            until(lambda: witness.asked and witness.asked[-1][1] == size, "it is witnessed")
            assert tiles(place, tmp_path / "public", config=config).code == 0
        for path, kept in earlier:
            shutil.rmtree(path)
            shutil.copytree(kept, path)
        before = witness.kept()
        with place.running(MNEMOGATE_CONFIG=str(config)) as sidecar:
            asked = len(witness.asked)
            until(lambda: len(witness.asked) > asked + 1, "it is asked about the older log")
            if kind is Trusting:
                until(lambda: ready_at(sidecar)["status"] == "ready", "control: it is cosigned")
                return
            until(lambda: "409" in str(ready_at(sidecar)["reason"]), "the rollback is shown")
            assert "rolled back or forked" in str(ready_at(sidecar)["reason"])
            # Verdicts go on, and the log grows past what the witness cosigned: a fork now.
            write(sidecar, 30, key)
            until(lambda: "422" in str(ready_at(sidecar)["reason"]), "the fork is shown")
            assert ready_at(sidecar)["status"] == "degraded"
            status = place.command("status", MNEMOGATE_CONFIG=str(config))
            assert status.code == 1
            assert "422: the log does not continue what it cosigned before" in status.out
            refused = tiles(place, tmp_path / "public", config=config)
            assert refused.code == 1
            assert "another copy of the store was put in place" in refused.err
            assert witness.kept() == before


class Flood(Witness):
    """Answers 10 MB, after a second, to everything."""

    def cosign(self, body: bytes) -> bytes:
        self.asked.append((0, len(body)))
        time.sleep(1)
        raise Answer(200, bytes(10 * 1024 * 1024))


async def test_verdicts_do_not_wait_for_a_witness_and_nothing_loops(tmp_path: Path) -> None:
    flood = Flood(tmp_path / "witness.json")
    with serving(flood) as url:
        async with running(tmp_path, tables=settings_for(url, flood)) as here:
            began = time.monotonic()
            took = list[float]()
            for at in range(60):
                start = time.monotonic()
                status, _ = await here.write(AGENT_KEY, {"text": f"fact {at} beside a flood"})
                took.append(time.monotonic() - start)
                assert status == 201
                await asyncio.sleep(0.05)
            assert sorted(took)[len(took) // 2] < 1, "a round of the witness takes more"
            rounds = len(flood.asked)
            assert 1 <= rounds <= time.monotonic() - began + 2, "at most one in each second"
            async with here.client.get(f"{here.admin_url}/readyz") as answer:
                assert answer.status == 200
                body = await answer.json()
            assert body["status"] == "degraded"
            assert "too large" in body["reason"]
