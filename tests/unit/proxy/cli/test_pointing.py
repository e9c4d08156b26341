"""What commands print for model APIs, MCP servers and probes: addresses, a map, each once."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

import pytest

from proxy.cli.command import Context
from proxy.cli.doctor import told as tell
from proxy.cli.mcp_map import skeleton_of, tools_named
from proxy.cli.pointing import mcp_entries, pointed
from proxy.cli.terminal import Terminal
from proxy.dialects.mcp.maps import parse_map
from proxy.doctor.examine import Examination
from proxy.doctor.finding import Finding, ProbeResult
from proxy.ledger.unmapped_tools import UnmappedTool
from tests.unit.proxy.tabled import tables_of

URL = "http://127.0.0.1:7077"


def said(table: dict[str, Any]) -> str:
    (upstream,) = tables_of("model", [table])
    return pointed(upstream, URL, "mg_key")


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        (
            "anthropic",
            f'ANTHROPIC_BASE_URL={URL}/there ANTHROPIC_CUSTOM_HEADERS="Mnemogate-Key: mg_key"',
        ),
        (
            "gemini",
            f'GOOGLE_GEMINI_BASE_URL={URL}/there GEMINI_CLI_CUSTOM_HEADERS="Mnemogate-Key: mg_key"',
        ),
        (
            "openai",
            (
                f"OPENAI_BASE_URL={URL}/there/v1 and the header `Mnemogate-Key: mg_key` beside the "
                "agent's own OPENAI_API_KEY"
            ),
        ),
    ],
)
def test_without_a_credential_of_ours_the_agent_keeps_its_own(api: str, expected: str) -> None:
    assert said({"name": "there", "api": api, "url": "https://model.example"}) == expected


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("anthropic", f"ANTHROPIC_BASE_URL={URL}/there ANTHROPIC_API_KEY=mg_key"),
        ("gemini", f"GOOGLE_GEMINI_BASE_URL={URL}/there GEMINI_API_KEY=mg_key"),
        ("openai", f"OPENAI_BASE_URL={URL}/there/v1 OPENAI_API_KEY=mg_key"),
    ],
)
def test_with_a_credential_of_ours_our_key_stands_in_its_place(
    api: str, expected: str, tmp_path: Path
) -> None:
    headers = tmp_path / "headers"
    headers.write_text("X-Api-Key: sk-real\n", encoding="utf-8")
    headers.chmod(0o600)
    table = {"name": "there", "api": api, "url": "https://model.example"}
    assert said({**table, "headers_file": str(headers)}) == expected


def test_an_mcp_server_that_is_served_here_is_used_with_the_agent_s_key(tmp_path: Path) -> None:
    tables: list[object] = [{"name": "notes", "url": "https://mcp.example", "map": "context"}]
    (entry,) = mcp_entries(tables_of("mcp", tables), URL, tmp_path)
    assert json.loads(entry)["mcpServers"]["notes"] == {
        "type": "http",
        "url": f"{URL}/mcp/notes",
        "headers": {"X-Api-Key": "${MNEMOGATE_AGENT_KEY}"},
    }
    # With none, the host runs the server itself, and has no key.
    (entry,) = mcp_entries((), URL, tmp_path)
    assert json.loads(entry)["mcpServers"]["memory"]["args"][:2] == ["mcp", "--state"]


SEEN = (
    UnmappedTool(tool="mcp__my.notes__save_memory", arguments=("note", "user-id", "tags")),
    UnmappedTool(tool="mcp__my.notes__forget", arguments=("id",)),
    UnmappedTool(tool="recall_memories", arguments=("query",)),
    UnmappedTool(tool="kb/upsert_memory"),
)


def test_a_skeleton_is_a_sound_map() -> None:
    found = parse_map(skeleton_of("My.Notes!", SEEN), "skeleton")
    assert found.name == "my-notes"
    kinds = {name: tool.kind.value if tool.kind else None for name, tool in found.tools.items()}
    assert kinds == {
        "save_memory": "write",
        "forget": "delete",
        "recall_memories": "read",
        "upsert_memory": "write",
    }
    assert found.tools["save_memory"].texts == ("note", "tags")


def test_a_name_is_a_tool_s_or_its_server_s() -> None:
    assert tools_named("recall_memories", SEEN) == (SEEN[2],)
    assert tools_named("my.notes", SEEN) == SEEN[:2]
    assert tools_named("kb", SEEN) == (SEEN[3],)
    assert tools_named("another", SEEN) == ()
    assert tools_named("", SEEN) == ()


@pytest.mark.parametrize("verdict", [ProbeResult.FAIL, ProbeResult.WARNED, ProbeResult.OK])
def test_a_finding_is_told_once_and_a_failure_to_its_end(
    monkeypatch: pytest.MonkeyPatch, verdict: ProbeResult
) -> None:
    def narrow(_stream: object) -> int:
        return 60

    monkeypatch.setattr("proxy.cli.terminal._columns", narrow)
    got = f"it could be done, {'at length, ' * 20}to the end"
    finding = Finding(id="state.list", tried="list it", expected="no", got=got, verdict=verdict)
    out = io.StringIO()
    tell(
        Context(argparse.Namespace(), Terminal(out, io.StringIO(), as_json=False)),
        Examination(
            separated=verdict is not ProbeResult.FAIL,
            proven=True,
            isolated=False,
            findings=(finding,),
        ),
    )
    assert out.getvalue().count("state.list") == 1
    # A long value goes on in further rows. Control: what went well stands in the table, whose cells
    # a terminal cuts.
    told = "".join(out.getvalue().split())
    assert ("".join(got.split()) in told) == (verdict is not ProbeResult.OK)
