"""An option has the type of the field that it fills, and fills one that is there."""

from __future__ import annotations

import argparse
import enum

import msgspec
import pytest

from proxy.admin.wire.operator_routes import ROUTES
from proxy.cli.command import Command, option
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
def test_each_option_fills_a_field_of_the_request_or_the_name_in_its_path(
    command: Command,
) -> None:
    fields = {one.encode_name for one in msgspec.structs.fields(command.form)}
    assert {one.field for one in command.options} <= fields | SEGMENTS
