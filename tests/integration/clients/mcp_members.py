"""Prints the members of MCP's messages, as the `mcp` package has them, for one protocol version.

Run by an interpreter that has `mcp`: `python mcp_members.py 2025-11-25`. What it prints is the
`TABLE` of the module of that version in `proxy/dialects/mcp/members/`.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
import typing
from typing import Any, TypeAlias

# The package is not installed where this is checked.
Foreign: TypeAlias = Any

ORIGIN: Foreign = typing.get_origin
METHODS: Foreign = importlib.import_module("mcp_types.methods")
PYDANTIC: Foreign = importlib.import_module("pydantic")
# What may hold anything: schemas, `_meta`, and objects without members of their own.
OPEN = frozenset({"InputSchema", "OutputSchema", "JSONObject"})
META = "_meta"
OF_META = ("Meta", "MetaObject")


def models(annotation: Foreign, *, mapped: bool = False) -> set[tuple[bool, Foreign]]:
    """The models in an annotation, each with whether it is the value of a free-form object."""
    model: Foreign = annotation if isinstance(annotation, type) else None
    if model is not None and issubclass(model, PYDANTIC.RootModel):
        return models(model.model_fields["root"].annotation, mapped=mapped)
    if model is not None and issubclass(model, PYDANTIC.BaseModel):
        return {(mapped, model)}
    arguments = typing.get_args(annotation)
    if ORIGIN(annotation) is dict:
        return models(arguments[1], mapped=True)
    found: set[tuple[bool, Foreign]] = set()
    for one in arguments:
        found |= models(one, mapped=mapped)
    return found


def literals(annotation: Foreign) -> set[str]:
    """The words of the closed lists in an annotation."""
    if ORIGIN(annotation) == typing.Literal:
        return {one for one in typing.get_args(annotation) if isinstance(one, str)}
    return {word for one in typing.get_args(annotation) for word in literals(one)}


class Tables:
    """The shapes that the methods of one version reach."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, ...], str] = {}
        self.shapes: dict[str, dict[str, str]] = {}
        self.words: dict[str, set[str]] = {}

    def shape(self, classes: set[Foreign]) -> str:
        """The name of the shape that has the members of all these models; "" where any may be."""
        found = sorted(
            (one for one in classes if one.model_fields and not one.__name__.endswith(OF_META)),
            key=lambda one: one.__name__,
        )
        if not found or any(one.__name__ in OPEN for one in found):
            return ""
        key = tuple(one.__name__ for one in found)
        if key in self.names:
            return self.names[key]
        name: str = key[0] + ("+" * (len(key) > 1))
        while name in self.shapes:
            name += "+"
        self.names[key] = name
        members = self.shapes[name] = {}
        for member, hints in sorted(_members(found).items()):
            for one in hints:
                words = literals(one)
                if words:
                    self.words.setdefault(member, set()).update(words)
            members[member] = "" if member == META else self._below(hints)
        return name

    def _below(self, hints: list[Foreign]) -> str:
        each = [models(one) for one in hints]
        if not all(each):
            return ""  # to one of them it is anything
        found: set[tuple[bool, Foreign]] = set()
        found = found.union(*each)
        plain = self.shape({one for mapped, one in found if not mapped})
        if plain:
            return plain
        mapped = self.shape({one for mapped, one in found if mapped})
        return "{" + mapped + "}" if mapped else ""


def _members(found: list[Foreign]) -> dict[str, list[Foreign]]:
    members: dict[str, list[Foreign]] = {}
    for model in found:
        for field, info in model.model_fields.items():
            members.setdefault(info.alias or field, []).append(info.annotation)
    return members


def table(version: str) -> str:
    tables = Tables()
    lines: list[str] = []
    asked: dict[str, set[Foreign]] = {}
    for kind in ("CLIENT_REQUESTS", "CLIENT_NOTIFICATIONS", "SERVER_REQUESTS"):
        _asked(getattr(METHODS, kind), version, asked)
    _asked(METHODS.SERVER_NOTIFICATIONS, version, asked)
    for method, classes in sorted(asked.items()):
        lines.append(f"params {method} {tables.shape(classes)}".rstrip())
    answered: dict[str, set[Foreign]] = {}
    for kind in ("SERVER_RESULTS", "CLIENT_RESULTS"):
        for (method, one), model in getattr(METHODS, kind).items():
            if one == version:
                answered.setdefault(method, set()).update(found for _, found in models(model))
    for method, classes in sorted(answered.items()):
        lines.append(f"result {method} {tables.shape(classes)}".rstrip())
    for name, members in sorted(tables.shapes.items()):
        listed = " ".join(f"{one}:{below}" if below else one for one, below in members.items())
        lines.append(f"shape {name} {listed}")
    for member, words in sorted(tables.words.items()):
        lines.append(f"words {member} {' '.join(sorted(words))}")
    return "\n".join(
        textwrap.fill(
            line, 96, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
        for line in lines
    )


def _asked(found: Foreign, version: str, asked: dict[str, set[Foreign]]) -> None:
    for (method, one), model in found.items():
        if one == version:
            classes = asked.setdefault(method, set())
            if "params" in model.model_fields:
                classes |= {each for _, each in models(model.model_fields["params"].annotation)}


if __name__ == "__main__":
    sys.stdout.write(table(sys.argv[1]) + "\n")
