"""Every fuzz target: one module of `tests/fuzz/targets` each, with its own corpus."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import msgspec

_HERE = Path(__file__).resolve().parent
CORPUS = _HERE / "corpus"
TARGETS = tuple(sorted(path.stem for path in (_HERE / "targets").glob("*.py")))
PLANTED = "planted"
"""The control: not a decoder of ours, but one with a fault that has to be found."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """`check` returns, or raises what a decoder must not raise; `words` help a fuzzer along."""

    name: str
    check: Callable[[bytes], None]
    words: tuple[bytes, ...]

    def seeds(self) -> list[bytes]:
        """The corpus that is kept in the repository, in a fixed order."""
        return [path.read_bytes() for path in sorted((CORPUS / self.name).iterdir())]


def load(name: str) -> Target:
    """One target; its decoder is imported here and not before."""
    place = "tests.fuzz" if name == PLANTED else "tests.fuzz.targets"
    module = importlib.import_module(f"{place}.{name}")
    return Target(name=name, check=module.check, words=tuple(module.WORDS))
