"""Retention and the SIEM's export through the real command line, beside a process that serves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.integration.cli_process import DEADLINE_S, ROOT, Place
from tests.unit.storage.opening import RULESET_TEXT

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
    assert [one["user.id"] for one in purges] == ["mnemogate:retention"] * 3
    data = (place.state / "store" / "data.mdb").read_bytes()
    assert b"Episode number 4" in data, "control: the search finds what is there"
    assert b"Episode number 0" not in data
