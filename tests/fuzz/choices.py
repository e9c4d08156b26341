"""Turns the bytes of a fuzzer into what a target needs: a few choices first, then the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")

MARK = "cnry7f3a91e2"
"""Stands in the corpus wherever a peer may put words; no refusal may ever repeat it."""


class Choices:
    """Reads its bytes once, from the front; past their end every choice is the first one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        if self._at >= len(self._data):
            return 0
        self._at += 1
        return self._data[self._at - 1]

    def pick(self, among: Sequence[_T]) -> _T:
        return among[self.byte() % len(among)]

    def rest(self) -> bytes:
        found = self._data[self._at :]
        self._at = len(self._data)
        return found


def withholds(said: str) -> None:
    """Hold a refusal against the mark: what a peer sent must not come back in it."""
    assert said, "a refusal without a reason"
    assert MARK not in said, "a refusal repeats what was sent"


def lines_of(data: bytes) -> str:
    """Text, with what is no UTF-8 as lone surrogates: a decoder must survive those as well."""
    return data.decode("utf-8", "surrogateescape")


def words(listed: str) -> tuple[bytes, ...]:
    """Words of a language for the fuzzer's dictionary, separated by white space."""
    return tuple(word.encode() for word in listed.split())
