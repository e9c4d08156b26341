"""The word lists of `word_lists.toml`, with which texts are compared; the file is read once."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import msgspec


def word_list(table: str, name: str) -> tuple[str, ...]:
    """The words of one list, in its order."""
    return tuple(_lists()[table][name].split())


@cache
def _lists() -> dict[str, dict[str, str]]:
    text = resources.files("policy.text").joinpath("word_lists.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, dict[str, str]])
