"""One command loads what it needs, and is the same command as among all."""

from __future__ import annotations

import subprocess
import sys

import pytest

from proxy.cli.parser import commands

FIRST = sorted({each.words[0] for each in commands()})
LOADED = """
import sys
from proxy.cli.parser import build_parser
build_parser(sys.argv[1])
print(*(name for name in ("faiss", "policy.text.languages") if name in sys.modules))
"""


@pytest.mark.parametrize("first", FIRST)
def test_a_first_word_finds_each_command_that_begins_with_it_and_no_other(first: str) -> None:
    meant = {each.words for each in commands() if each.words[0] == first}
    assert {each.words for each in commands(first)} == meant


@pytest.mark.parametrize("first", ["--help", "nothing", ""])
def test_any_other_word_finds_all(first: str) -> None:
    assert commands(first) == commands()


@pytest.mark.parametrize(("first", "loaded"), [("trust", ""), ("mcp", "policy.text.languages")])
def test_a_command_that_asks_a_running_sidecar_loads_no_index_and_no_language(
    first: str, loaded: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, first], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == loaded
