"""One command is the same as among all; its options fill fields that are there."""

from __future__ import annotations

import argparse
import enum
import subprocess
import sys

import msgspec
import pytest

from proxy.admin.wire.operator_routes import ROUTES
from proxy.cli.command import Command, option
from proxy.cli.neighbours import foreign
from proxy.cli.parser import commands
from proxy.dialects.described import ARGUMENT

SEGMENTS = {name for row in ROUTES for name in ARGUMENT.findall(row.template)}


class _Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class _Form(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    names: tuple[str, ...] = ()
    count: int | None = None
    colour: _Colour = _Colour.RED
    loud: bool = False


def _parsed(*words: str) -> dict[str, object]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for one in (
        option("name"), option("--names"), option("--count"), option("--colour"), option("--loud"),
    ):  # fmt: skip
        one.add(parser, _Form)
    return vars(parser.parse_args(words))


def test_what_is_typed_is_of_the_fields_type() -> None:
    given = _parsed("a", "--names", "b", "--names", "c", "--count", "3", "--loud")
    assert given == {"name": "a", "names": ["b", "c"], "count": 3, "colour": None, "loud": True}


@pytest.mark.parametrize("words", [("a", "--count", "many"), ("a", "--colour", "green")])
def test_what_the_field_cannot_be_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(argparse.ArgumentError):
        _parsed(*words)


@pytest.mark.parametrize("command", commands(), ids=lambda one: " ".join(one.words))
def test_each_option_fills_a_field_of_the_request_or_the_name_in_its_path(command: Command) -> None:
    fields = {one.encode_name for one in msgspec.structs.fields(command.form)}
    assert {one.field for one in command.options} <= fields | SEGMENTS


FIRST = sorted({each.words[0] for each in commands()})
LOADED = """
import sys
from proxy.cli.parser import build_parser
build_parser(*sys.argv[1:])
print(*(name for name in ("faiss", "policy.text.languages") if name in sys.modules))
"""


@pytest.mark.parametrize("first", FIRST)
def test_a_first_word_finds_each_command_that_begins_with_it_and_no_other(first: str) -> None:
    meant = {each.words for each in commands() if each.words[0] == first}
    assert {each.words for each in commands(first)} == meant


@pytest.mark.parametrize("first", ["--help", "nothing", ""])
def test_any_other_word_finds_all(first: str) -> None:
    assert commands(first) == commands()


@pytest.mark.parametrize("words", [each.words for each in commands() if len(each.words) > 1])
def test_a_whole_command_is_found_alone(words: tuple[str, ...]) -> None:
    assert [each.words for each in commands(*words)] == [words]


@pytest.mark.parametrize(("words", "first"), [(("memory", "shows"), "memory"), (("key",), "key")])
def test_a_word_that_is_no_command_finds_its_group(words: tuple[str, ...], first: str) -> None:
    assert commands(*words, "--json") == commands(first)


@pytest.mark.parametrize(
    ("words", "loaded"), [("trust", ""), ("memory list", ""), ("mcp", "policy.text.languages")]
)
def test_a_command_that_asks_a_running_sidecar_loads_no_index_and_no_language(
    words: str, loaded: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words.split()], capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == loaded


def test_who_brings_a_package_of_our_name_is_named() -> None:
    installed = {"proxy": ["mnemogate", "proxy.py"], "storage": ["mnemogate"], "numpy": ["numpy"]}
    assert foreign(installed) == ("proxy (proxy.py)",)


def test_control_this_environment_has_none() -> None:
    assert foreign() == ()
    assert foreign({"policy": ["Mnemogate"]}) == ()
