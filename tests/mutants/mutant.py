"""One deliberate fault in our own code, and the tests that must notice it."""

from __future__ import annotations

import msgspec


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """`old` occurs exactly once in `file`, and becomes `new`; `more` are further such pairs.

    `invariant` is the sentence that the fault makes false. At least one of `tests` must fail.
    `quick` ones are tried by `make test`, all of them in the heavy share.
    """

    name: str
    file: str
    old: str
    new: str
    invariant: str
    tests: tuple[str, ...]
    more: tuple[tuple[str, str], ...] = ()
    quick: bool = False


def bound_tests(mutants: tuple[Mutant, ...]) -> tuple[str, ...]:
    """Every test that some mutant is bound to, once."""
    return tuple(sorted({test for mutant in mutants for test in mutant.tests}))


def at(file: str, name: str) -> str:
    """The node id of one test."""
    return f"{file}::{name}"
