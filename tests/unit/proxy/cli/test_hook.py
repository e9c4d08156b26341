"""What `mnemogate hook` prints where it ends unforeseen."""

from __future__ import annotations

import io
import json
import sys

import pytest

from proxy.cli import hook
from proxy.cli.command import Context
from proxy.cli.entry import main
from proxy.dialects.hooks import EVENTS


@pytest.mark.parametrize("host", ["codex", "claude-code", "gemini"])
def test_a_fault_of_its_own_is_a_denial(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Context) -> None:
        raise ZeroDivisionError("a word of the call")

    monkeypatch.setattr(hook, "settings_of", fails)
    event: dict[str, object] = {
        "hook_event_name": EVENTS[host],
        "tool_name": "write",
        "tool_input": {},
    }
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(event).encode())))
    assert main(["hook", host]) == 0, "hosts take another exit code as no objection"
    printed = capsys.readouterr().out
    assert '"deny"' in printed
    assert "ZeroDivisionError" in printed
    assert "a word" not in printed
