"""What waits for a person hides no part of any message of a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from policy.text.readings import readings_of
from policy.withheld.words import words_of
from tests.integration.cli_process import Place
from tests.integration.hostile.answering_server import (
    ANSWERS,
    METHODS,
    REFUSED,
    RESULTS,
    UNASKED,
)
from tests.integration.hostile.pipes import Pipes, direct, wrapped

SERVER: Final = str(Path(__file__).parent / "hostile" / "answering_server.py")
WANTED: Final = "".join(words_of(REFUSED))
# What of a task's id a client is to bring back is a handle of ours, and this one is not known.
UNKNOWN_HANDLE: Final = ("tasks/get", "tasks/cancel")


def tells(got: list[bytes]) -> bool:
    return any(
        WANTED in "".join(words_of(reading))
        for line in got
        for reading in readings_of(line.decode())
    )


def parts(client: Pipes) -> dict[str, list[bytes]]:
    """Everything that the server says, by the part of a message that it is said in."""
    found = {"initialize": client.hello()}
    client.ask("tools/list")
    entity = {"name": "shop", "entityType": "policy", "observations": [REFUSED]}
    found["held"] = client.call("create_entities", entities=[entity])
    for name in (*RESULTS, *ANSWERS, *UNASKED):
        found[name] = client.call("search_nodes", query=name)
    for method in METHODS:
        found[method] = client.ask(method, taskId="1", uri="memo://a", name="x", level="info")
    return found


def test_what_is_held_takes_nothing_out_of_any_message(tmp_path: Path) -> None:
    words = (sys.executable, SERVER)
    (tmp_path / "direct").mkdir()
    with direct(Place(root=tmp_path / "direct"), *words) as client:
        control = parts(client)
    with wrapped(Place(root=tmp_path), *words) as client:
        shown = parts(client)
    # The control: the server itself says it in every one of them.
    assert [name for name, got in control.items() if not tells(got)] == ["held"]
    assert shown["held"] != control["held"], "it waits"
    for name in ("plain", "meta", "a name", "log", "no padding"):
        assert tells(shown[name]), name


def test_before_it_was_held_the_same_passes(tmp_path: Path) -> None:
    with wrapped(Place(root=tmp_path), sys.executable, SERVER) as client:
        client.hello()
        client.ask("tools/list")
        for name in ("plain", "meta", "a name", "log", "no padding", "form"):
            assert tells(client.call("search_nodes", query=name)), name
