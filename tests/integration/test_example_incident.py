"""`examples/incident`, as a stranger runs it: a wrong answer, one feedback, and a right answer."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest

from tests.integration.cli_process import ROOT
from tests.integration.clients.environments import python_environment
from tests.integration.clients.process import run_client
from tests.integration.hosts.agents import OPENAI_SDK
from tests.integration.test_first_hour import COMMAND

EXAMPLE: Final = ROOT / "examples" / "incident"
README: Final = (EXAMPLE / "README.md").read_text(encoding="utf-8")
_IDS: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{16}\b|[0-9a-f]{32}")
_LEAF: Final = re.compile(r" \d+$")


def _lines(printed: str) -> list[str]:
    """What is printed without padding, ids and numbers of leaves, which may be others each time."""
    return [
        _LEAF.sub("", " ".join(_IDS.sub("-", line).split()))
        for line in printed.strip().splitlines()
    ]


def _as_named(directory: Path) -> str:
    """The program by a relative path, as README names it."""
    return os.path.relpath(COMMAND, directory)


async def _printed(home: Path, *words: str) -> list[str]:
    """The lines that the example prints, as a stranger runs it."""
    interpreter = python_environment("openai", OPENAI_SDK)
    assert f"openai=={OPENAI_SDK}\n" in README
    words = (*words, "--mnemogate", _as_named(home / "project"))
    code, out, errors = await run_client(interpreter, EXAMPLE / "incident.py", *words, home=home)
    assert code == 0, errors[-3_000:]
    return _lines(out)


def _shown(output: int) -> list[str]:
    """The lines of one of the two outputs in the README: 0 or 1."""
    return _lines(README.split("\n```\n")[2 + 3 * output])


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.skipif(not COMMAND.is_file(), reason="`make install-dev` puts `mnemogate` there")
async def test_one_feedback_hides_what_made_an_answer_wrong_as_the_readme_shows(
    tmp_path: Path,
) -> None:
    said = await _printed(tmp_path)
    assert said == _shown(0)
    # Control: the same question was answered wrongly before anybody said so, in two conversations.
    # After that it is right in a third one, and in the second, which sends its history again.
    assert said[0] == said[1] != said[-2] == said[-1]


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.skipif(not COMMAND.is_file(), reason="`make install-dev` puts `mnemogate` there")
async def test_a_registered_statement_alone_opens_the_incident_as_the_readme_shows(
    tmp_path: Path,
) -> None:
    said = await _printed(tmp_path, "--unasked")
    assert said == _shown(1)
    assert "Porto. (in what the model read: Porto 3 times)" in said[0], "control: it was shown"
    assert "Lisbon. (in what the model read: Porto 0 times)" in said[3]
    assert said[-1].endswith(" events, 0 words of the story in them")
