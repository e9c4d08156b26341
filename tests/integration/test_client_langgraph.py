"""Unmodified `langgraph`, `langgraph-sdk` and `langmem`, each against a real sidecar."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.bypass import directive, formed
from tests.integration.cli_process import ROOT
from tests.integration.clients.process import drive_client, run_client
from tests.integration.langgraph_environment import PINS, langgraph_python
from tests.integration.running import AGENT_KEY, running

EXAMPLE: Final = ROOT / "examples" / "langgraph"
README: Final = (EXAMPLE / "README.md").read_text(encoding="utf-8")
DRIVE: Final = Path(__file__).parent / "clients" / "langgraph_drive.py"
pytestmark = [pytest.mark.heavy, pytest.mark.share(of=3, turn=1), pytest.mark.timeout(600)]


async def test_the_store_is_langgraphs_own_but_for_what_is_refused(tmp_path: Path) -> None:
    order, canary = directive()
    async with running(tmp_path) as live:
        seen = await drive_client(
            langgraph_python(), DRIVE, EXAMPLE, live.url, AGENT_KEY, order, home=tmp_path / "home"
        )
        assert await formed(live, canary) == []
    told = seen["client"]
    assert told["got"]["value"] == {"text": "likes tea", "n": 1}
    assert (told["missing"], told["found"]) == (None, [["k1", True]])
    assert told["namespaces"] == {"namespaces": [["docs", "ann"]]}
    assert told["refused"].startswith("Not stored yet (class_floor, L1): it waits for a person.")
    assert told["left"] == ["k1"]
    # Control: the two stores were compared on batches of every kind, with refused puts in them.
    alike = seen["alike"]
    assert alike["batches"] > 20
    assert alike["operations"] > 60
    assert alike["refused"] > 5


async def test_the_example_says_what_its_readme_shows(tmp_path: Path) -> None:
    for pin in re.findall(r"\b(?:langgraph|langmem)==\S+", README):
        assert pin in PINS
    async with running(tmp_path) as live:
        environment = {"MNEMOGATE_URL": live.url, "MNEMOGATE_AGENT_KEY": AGENT_KEY}
        code, out, errors = await run_client(
            langgraph_python(),
            EXAMPLE / "remember.py",
            home=tmp_path / "home",
            environment=environment,
        )
        texts = await live.texts(AGENT_KEY)
    assert code == 0, errors[-3_000:]
    shown = re.search(r"^```\n(stored: .*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert out == shown[1]
    assert sorted(texts) == [
        "My sister Ada moved to Lisbon in March.",
        "The trip is in May.",
    ]
