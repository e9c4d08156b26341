"""An implementation in a process of its own: answered lines, and one that breaks off."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.guards.process import ProcessAdapter
from tests.evaluate.attacks import Broken
from tests.evaluate.suite.protocol import Request

if TYPE_CHECKING:
    from pathlib import Path

ECHO = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["op"] == "die":
        sys.exit(1)
    if asked["op"] == "nonsense":
        print("nonsense", flush=True)
        continue
    print(json.dumps({"decision": "admitted", "id": asked.get("text"), "said": asked["op"]}))
    sys.stdout.flush()
"""


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "echo.py"
    file.write_text(ECHO)
    return (sys.executable, str(file))


async def test_one_line_goes_out_and_one_comes_back(command: tuple[str, ...]) -> None:
    adapter = ProcessAdapter(command)
    for text in ("plain", "with\nbreaks", "\u202e"):
        reply = await adapter.do(Request(op="remember", text=text))
        assert (reply.decision, reply.id, reply.said) == ("admitted", text, "remember")
    await adapter.close()


@pytest.mark.parametrize("op", ["die", "nonsense"])
async def test_what_breaks_off_is_no_answer(command: tuple[str, ...], op: str) -> None:
    adapter = ProcessAdapter(command)
    with pytest.raises(Broken):
        await adapter.do(Request(op=op))
    await adapter.close()
