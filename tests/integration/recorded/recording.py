"""A recorded life (its steps, its audit log, its counters), and the comparison of two lives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).parent / "life.json"
# Of a value in a message: enough to see what it is, and the place where the other one differs.
_SHOWN_LEN: Final = 1_500
_AROUND_LEN: Final = 120


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """One request that the sidecar made to a server behind it."""

    request: str  # method and path
    headers: str  # a line for each
    body: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One request to the sidecar, its answer, and what went upstream meanwhile."""

    name: str
    request: str  # method and path
    status: str  # with its phrase, unless it is the usual one
    headers: str  # a line for each
    body: str
    upstream: tuple[Sent, ...]


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """One leaf of the audit log: its members as far as set, and the digest of its bytes."""

    fields: dict[str, object]
    sha256: str


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    leaves: tuple[Leaf, ...]
    checkpoint: str  # the signed head of the audit log
    counters: dict[str, str]


def read() -> Recording:
    return msgspec.json.decode(FILE.read_bytes(), type=Recording)


def write(recording: Recording) -> None:
    steps = ",\n".join(_lines(step) for step in recording.steps)
    leaves = ",\n".join(msgspec.json.encode(leaf).decode() for leaf in recording.leaves)
    FILE.write_text(
        f'{{\n"steps": [\n{steps}\n],\n"leaves": [\n{leaves}\n],\n'
        f'"checkpoint": {_lines(recording.checkpoint)},\n'
        f'"counters": {_lines(recording.counters)}\n}}\n',
        encoding="utf-8",
    )


def _lines(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()


def differences(kept: Recording, found: Recording) -> list[str]:
    """The differences between a life and its recording, in the order of the life."""
    return [
        *_steps(kept.steps, found.steps),
        *_leaves(kept.leaves, found.leaves),
        *_values("checkpoint", kept.checkpoint, found.checkpoint),
        *_counters(kept.counters, found.counters),
    ]


def _steps(kept: Sequence[Step], found: Sequence[Step]) -> Iterator[str]:
    names = [step.name for step in kept]
    if names != [step.name for step in found]:
        missing = [name for name in names if name not in {step.name for step in found}]
        more = [step.name for step in found if step.name not in names]
        yield f"steps: other ones, or another order; missing {missing}, new {more}"
    by_name = {step.name: step for step in found}
    for step in kept:
        other = by_name.get(step.name)
        if other is not None:
            yield from _fields(f"step {step.name}", step, other)


def _fields(place: str, kept: Step, found: Step) -> Iterator[str]:
    yield from _values(f"{place}: request", kept.request, found.request)
    yield from _values(f"{place}: status", kept.status, found.status)
    yield from _values(f"{place}: headers", kept.headers, found.headers)
    yield from _values(f"{place}: body", kept.body, found.body)
    yield from _values(f"{place}: upstream", kept.upstream, found.upstream)


def _leaves(kept: Sequence[Leaf], found: Sequence[Leaf]) -> Iterator[str]:
    if len(kept) != len(found):
        yield f"leaves: {len(found)}, recorded {len(kept)}"
    for number, (leaf, other) in enumerate(zip(kept, found, strict=False)):
        for name in sorted(leaf.fields.keys() | other.fields.keys()):
            place = f"leaf {number}: {name}"
            yield from _values(place, leaf.fields.get(name), other.fields.get(name))
        yield from _values(f"leaf {number}: bytes", leaf.sha256, other.sha256)


def _counters(kept: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(kept.keys() | found.keys()):
        yield from _values(f"counter {name}", kept.get(name), found.get(name))


def _values(place: str, kept: object, found: object) -> Iterator[str]:
    if kept == found:
        return
    before, after = _text(kept), _text(found)
    # As they are where they are short, and else around the first place where they differ.
    at = next(
        (index for index, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    start = 0 if max(len(before), len(after)) <= _SHOWN_LEN else max(0, at - _AROUND_LEN)
    stop = start + _SHOWN_LEN
    yield (
        f"{place} differs, at character {at}\n"
        f"  recorded: {before[start:stop]}\n"
        f"  found:    {after[start:stop]}"
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(msgspec.to_builtins(value))
