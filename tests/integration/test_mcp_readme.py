"""The refused call of the README's section on MCP servers, made through the wrapper it shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.cli_process import ROOT
from tests.integration.hosts.guarded import wrapped, wrapper_environment
from tests.integration.hosts.raw_client import raw_client
from tests.integration.hosts.scene import Scene

SERVER = ROOT / "tests" / "benchmarks" / "mcp_memory.py"
README = (ROOT / "README.md").read_text(encoding="utf-8")

_PAGE = re.compile(r"http://127\.0\.0\.1:\d+/confirm/[0-9a-f]{32}")


@pytest.mark.timeout(120)
async def test_the_call_that_the_readme_shows_is_answered_as_it_shows(tmp_path: Path) -> None:
    section = README.partition("## In front of an MCP server")[2]
    _, call, answer = re.findall(r"```json\n(.*?)```", section, re.DOTALL)[:3]
    scene = Scene(tmp_path, "nothing")
    command = wrapped("memory", scene.recorded("inner", (sys.executable, str(SERVER))))
    given = msgspec.json.decode(call, type=dict[str, Any])
    async with raw_client(command, tmp_path / "home", wrapper_environment(scene)) as client:
        told = msgspec.json.encode(await client.call("create_entities", given))
        # Port and id are of this run.
        said, shown = (_PAGE.sub("(the page)", one) for one in (told.decode(), answer))
        assert "(the page)" in said
        assert msgspec.json.decode(said) == msgspec.json.decode(shown)
        # The control: the same wrapper lets a harmless one through.
        entity = {"name": "Alice", "entityType": "person", "observations": ["Likes green tea."]}
        kept = await client.call("create_entities", {"entities": [entity]})
        assert kept["structuredContent"] == {"entities": [entity]}
    assert not [one for one in scene.said("inner") if b"Acme" in one.line]
