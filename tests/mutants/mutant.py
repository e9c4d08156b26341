"""One deliberate fault in our own code, where it is put, and the tests that must notice it."""

from __future__ import annotations

from enum import Enum

import msgspec


class Operator(Enum):
    """What is done to the place that a mutant names."""

    REPLACE = "replace expression by"
    DROP = "drop statement"
    RETURN = "return constant"


class Exchange(msgspec.Struct, frozen=True):
    """What is done to one place, which `at` writes as `ast.unparse` does."""

    operator: Operator
    at: str = ""
    by: str = ""


def replaced(at: str, by: str) -> Exchange:
    """An expression or argument in the place of another."""
    return Exchange(Operator.REPLACE, at, by)


def dropped(at: str) -> Exchange:
    """A statement left out."""
    return Exchange(Operator.DROP, at)


def returned(value: str) -> Exchange:
    """A constant in the place of a function's body."""
    return Exchange(Operator.RETURN, by=value)


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that is addressed by what the code is, not by how its lines are laid out.

    `row` is the row of docs/threat-model.md whose wall the fault takes away, or a promise of the
    README. `where` is a module and a qualified name in it (none: the module itself); what the fault
    takes out must occur exactly once there. At least one of `tests` must fail. `quick` ones are
    tried by `make test`.
    """

    row: str
    name: str
    invariant: str
    where: str
    fault: Exchange
    tests: tuple[str, ...]
    quick: bool = False

    @property
    def file(self) -> str:
        """The file that the fault is put into."""
        return f"{self.where.partition(':')[0].replace('.', '/')}.py"


def bound_tests(mutants: tuple[Mutant, ...]) -> tuple[str, ...]:
    """Every test that some mutant is bound to, once."""
    return tuple(sorted({test for mutant in mutants for test in mutant.tests}))


def at(file: str, name: str) -> str:
    """The node id of one test."""
    return f"{file}::{name}"


def one_test(file: str, name: str) -> tuple[str, ...]:
    """The one test that notices a fault."""
    return (at(file, name),)
