"""SIGHUP and `policy reload` against a real process: good files count, bad ones are named."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.integration.cli_process import DEADLINE_S, Place
from tests.unit.proxy.admin.test_rules_in_force import STRICTER
from tests.unit.storage.opening import RULESET_TEXT


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
