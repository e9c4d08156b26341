"""Scenarios are data; this module reads and plays them."""

from __future__ import annotations

import tomllib
from collections.abc import (
    AsyncIterator,
    Iterator,
    Mapping,
)
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from proxy.dialects.strict_json.strict import JsonValue
from tests.evaluate.attacks import Broken
from tests.evaluate.canary import files_below, found_in, new_canary
from tests.evaluate.suite.protocol import ADMITTED, Adapter, Item, Reply, Request
from tests.evaluate.tables import Played

_READERS: Final = ("agent", "person", "operator")
# Steps that change nothing, and only check the state.
_CHECKS: Final = frozenset({"absent", "hidden", "present", "mark", "unmoved", "labelled"})


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step of a scenario, which is one line in its file.

    In a text, `{a}` is the canary with that name.
    """

    do: str
    actor: str = msgspec.field(name="as", default="agent")
    text: str | None = None
    memory_class: str | None = msgspec.field(name="class", default=None)
    source: str | None = None
    nonce: str | None = None
    save: str | None = None
    of: str | None = None
    derived_from: tuple[str, ...] = ()
    target: str | None = None
    metadata: Mapping[str, JsonValue] | None = None
    promotion_token: str | None = None
    statement: str | None = None
    query: str | None = None
    canary: str | None = None
    # The expected decision: admitted, held, refused, or stopped (anything but admitted). For a
    # check of a label: the label, which a stopped write need not have.
    expect: str | None = None
    times: int = 1


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change in this program's code: `old` occurs once in `file` and becomes `new`."""

    file: str
    old: str
    new: str


class Mutant(Fault, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault that is put into a copy of this program, so that an attack succeeds there.

    `more` has further faults, where several defences have to be removed for that.
    """

    more: tuple[Fault, ...] = ()


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An adversary's story, the promise that it would break, and a mutant in which it does."""

    id: str
    invariant: str
    step: tuple[Step, ...]
    mutant: Mutant


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scenario: tuple[Scenario, ...]


class _Ended(Exception):  # noqa: N818 - a way out of the steps
    def __init__(self, result: str, detail: str) -> None:
        super().__init__(detail)
        self.result = result
        self.detail = detail


def scenarios() -> tuple[Scenario, ...]:
    """The shipped suite."""
    folder = resources.files("tests.evaluate.suite")
    text = folder.joinpath("scenarios.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Document).scenario


async def play(scenario: Scenario, adapter: Adapter) -> Played:
    """Play one scenario against one implementation, starting with an empty store."""
    player = _Player(adapter)
    result, detail = "pass", ""
    try:
        await player.run(scenario)
    except _Ended as ended:
        result, detail = ended.result, ended.detail
    return Played(id=scenario.id, invariant=scenario.invariant, result=result, detail=detail)


class _Player:
    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._canaries: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._said: list[str] = []
        self._version: int | None = None

    async def run(self, scenario: Scenario) -> None:
        await self._asked(Request(op="reset"))
        for number, step in enumerate(scenario.step, start=1):
            for _ in range(step.times):
                try:
                    await self._step(step)
                except _Ended as ended:
                    raise _Ended(ended.result, f"step {number}: {ended.detail}") from None

    async def _step(self, step: Step) -> None:
        if step.do in _CHECKS:
            await self._check(step)
            return
        reply = await self._asked(self._request(step))
        if step.save is not None and reply.id is not None:
            self._ids[step.save] = reply.id
        self._said.append(reply.said)
        expected = step.expect
        if expected == "stopped":
            if reply.decision == ADMITTED:
                raise _Ended("fail", f"{step.do} was admitted")
        elif expected is not None and reply.decision != expected:
            result = "control" if expected == ADMITTED else "fail"
            raise _Ended(result, f"{step.do} was {reply.decision}, not {expected}")

    def _request(self, step: Step) -> Request:
        said = self._filled
        metadata: dict[str, JsonValue] | None = None
        if step.metadata is not None:
            metadata = {
                said(k): said(v) if isinstance(v, str) else v for k, v in step.metadata.items()
            }
        return Request(
            op=step.do,
            actor=step.actor,
            text=None if step.text is None else said(step.text),
            memory_class=step.memory_class,
            source=step.source,
            nonce=step.nonce,
            id=None if step.of is None else self._ids.get(step.of, "none"),
            derived_from=tuple(self._ids[name] for name in step.derived_from),
            target=None if step.target is None else said(step.target),
            metadata=metadata,
            promotion_token=step.promotion_token,
            statement=step.statement,
            query=step.query if step.canary is None else self._canary(step.canary),
        )

    def _filled(self, text: str) -> str:
        for name in "abcdef":
            if f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", self._canary(name))
        return text

    def _canary(self, name: str) -> str:
        return self._canaries.setdefault(name, new_canary())

    async def _asked(self, request: Request) -> Reply:
        reply = await self._adapter.do(request)
        if reply.na is not None:
            raise _Ended("n/a", f"{request.op}: {reply.na}")
        return reply

    # ---- checks of the state in a scenario -------------------------------------------------------

    async def _check(self, step: Step) -> None:
        if step.do in {"mark", "unmoved"}:
            version = (await self._asked(Request(op="version"))).version
            if step.do == "unmoved" and version != self._version:
                raise _Ended("fail", f"the version went from {self._version} to {version}")
            self._version = version
            return
        if step.canary is None:
            raise Broken(f"a scenario's {step.do} names no canary")
        canary = self._canary(step.canary)
        shown = [item async for item in self._shown(canary)]
        if step.do == "labelled":
            self._labelled(step, [item for item in shown if canary in item.text])
            return
        where = [f"a recall ({item.source})" for item in shown if canary in item.text]
        if step.do != "present" and any(canary in said for said in self._said):
            where.append("an answer")
        if step.do != "hidden" and await self._on_disk(canary):
            where.append("a file")
        if step.do == "present":
            if not any(one.startswith("a recall") for one in where) or "a file" not in where:
                raise _Ended("control", f"an admitted memory is only in {where}")
        elif where:
            raise _Ended("fail", f"it is in {', '.join(sorted(set(where)))}")

    async def _shown(self, canary: str) -> AsyncIterator[Item]:
        for actor in _READERS:
            for query in (canary, f"vendor {canary}", "what is known"):
                reply = await self._asked(Request(op="recall", actor=actor, query=query))
                for item in reply.items:
                    yield item

    def _labelled(self, step: Step, items: list[Item]) -> None:
        if not items and step.expect == "stopped":
            return
        if not items:
            raise _Ended("control", "it is not recalled at all")
        for item in items:
            if item.source is None:
                raise _Ended("n/a", "recall: items carry no label")
            if step.source is not None and item.source != step.source:
                raise _Ended("fail", f"it is labelled {item.source}, not {step.source}")
            if step.memory_class is not None and item.memory_class != step.memory_class:
                raise _Ended("fail", f"its class is {item.memory_class}, not {step.memory_class}")

    async def _on_disk(self, canary: str) -> bool:
        kept = (await self._asked(Request(op="files"))).files
        return bool(found_in(below(kept), [canary]))


def below(kept: tuple[str, ...]) -> Iterator[Path]:
    """Every file among these paths, and every file below a directory among them."""
    for path in map(Path, kept):
        if path.is_dir():
            yield from files_below(path)
        elif path.is_file():
            yield path
