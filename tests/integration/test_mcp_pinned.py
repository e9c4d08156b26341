"""What a client is shown of tools is what was pinned, whatever the server adds for it alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.integration.cli_process import Place
from tests.integration.hostile.pipes import Pipes, direct, wrapped

SERVER: Final = str(Path(__file__).parent / "hostile" / "listing_server.py")
# Where the list is another one, its client gets an error; else it is shown what was pinned.
CHANGED: Final = ("plain", "cursor", "meta", "name", "tools", "result", "description")
CLEANED: Final = ("unknown", "beside", "next")


def seen(client: Pipes) -> bytes:
    """Everything that a client is shown of the tools after it saw them once."""
    client.hello()
    client.ask("tools/list")
    client.call("read_graph")
    got = client.ask("tools/list")
    cursor = json.loads(got[-1]).get("result", {}).get("nextCursor")
    if cursor is not None:
        got += client.ask("tools/list", cursor=cursor)
    return b"".join(got)


@pytest.mark.parametrize("mode", [*CHANGED, *CLEANED])
def test_no_way_around_the_pinned_tools_reaches_the_client(tmp_path: Path, mode: str) -> None:
    words = (sys.executable, SERVER, mode)
    (tmp_path / "direct").mkdir()
    with direct(Place(root=tmp_path / "direct"), *words) as client:
        assert b"EVIL" in seen(client), "control: the server itself shows it"
    with wrapped(Place(root=tmp_path), *words) as client:
        shown = seen(client)
        called = client.call("read_graph")[-1]
    assert b"EVIL" not in shown
    if mode in CHANGED:
        assert b'"error"' in shown
    else:
        assert [one["name"] for one in json.loads(shown.splitlines()[0])["result"]["tools"]] == [
            "read_graph",
            "create_entities",
        ]
        assert b'"done"' in called


def test_honest_tools_pass_as_the_servers_own_bytes(tmp_path: Path) -> None:
    with wrapped(Place(root=tmp_path), sys.executable, SERVER, "honest") as client:
        shown = json.loads(seen(client))
        assert len(shown["result"]["tools"]) == 2
        assert b'"done"' in client.call("read_graph")[-1]
