"""Five other guards and this system, side by side: the same requests, the same counting."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest

from proxy.version import version
from tests.benchmarks.guards.process import ProcessAdapter
from tests.evaluate.attacks import ATTACKS, Broken
from tests.evaluate.book import Book
from tests.evaluate.canary import found_in, new_canary
from tests.evaluate.figures import Figure, share, skipped, text_of
from tests.evaluate.forged import corpora_directory
from tests.evaluate.normal import leaning_writes, normal_writes
from tests.evaluate.suite.ours import OurAdapter
from tests.evaluate.suite.protocol import ADMITTED, Adapter, Request
from tests.evaluate.suite.scenario import below, play, scenarios
from tests.evaluate.tables import Figures
from tests.evaluate.wire import Write
from tests.integration.clients.environments import python_environment

_DRIVES: Final = Path(__file__).parent / "drives"
_TEXTS: Final = 60
_TRIALS_MAX: Final = 10


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """One package, its version, and how it is set up."""

    package: str
    version: str
    drive: str
    configuration: str

    @property
    def name(self) -> str:
        return f"{self.package} {self.version}"


GUARDS: Final = (
    Guard(
        package="agent-memory-guard",
        version="0.3.3",
        drive="agent_memory_guard_drive.py",
        configuration="MemoryGuard(policy=Policy.strict()), default detectors",
    ),
    Guard(
        package="memward",
        version="0.1.0",
        drive="memward_drive.py",
        configuration="Memward(JsonFileStore), quarantine on, search(privileged=True)",
    ),
    Guard(
        package="mnemosyne-guard",
        version="0.1.5",
        drive="mnemosyne_guard_drive.py",
        configuration="MemoryGateway(SqliteStore), bundled policy, fail_closed, integrity on read",
    ),
    Guard(
        package="cmgl",
        version="1.1.2",
        drive="cmgl_drive.py",
        configuration='GuardedMemoryBackend(GovernanceLayer(profile="strict")), authority bundles',
    ),
    Guard(
        package="superlocalmemory",
        version="4.1.18",
        drive="superlocalmemory_drive.py",
        configuration="daemon, mode A, /remember?wait=true and /recall with its install token",
    ),
)


class Measured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One column of the table. The command is that of a guard's environment."""

    configuration: str
    command: str | None = None
    a1: Figure = msgspec.field(name="core_nfr A1")
    a2: Figure = msgspec.field(name="core_nfr A2")
    a3: Figure = msgspec.field(name="core_nfr A3")
    a4: Figure = msgspec.field(name="core_nfr A4")
    a5: Figure = msgspec.field(name="core_nfr A5")
    honest: Figure = msgspec.field(name="normal writes lost")
    leaning: Figure = msgspec.field(name="leaning payloads kept out")
    corpora: Figure = msgspec.field(name="corpora attacks as tool results kept out")
    # How each scenario of the conformance suite ended.
    suite: Mapping[str, str]
    suite_passed: Figure
    suite_not_applicable: int

    def figures(self) -> Figures:
        fields = msgspec.structs.fields(self)
        return {one.encode_name: getattr(self, one.name) for one in fields if one.type is Figure}


class NotMeasured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A guard that could not be installed or asked, and why; the command as far as it came."""

    configuration: str
    command: str | None = None
    not_measured: str


Table = Mapping[str, Measured | NotMeasured]


async def guards(book: Book) -> Table:
    table: dict[str, Measured | NotMeasured] = {}
    ours = OurAdapter()
    try:
        table[f"mnemogate {version()}"] = await _column(book, ours, "as `run` serves")
    finally:
        await ours.close()
    for one in GUARDS:
        command: str | None = None
        try:
            python = python_environment(one.package, one.version)
            command = f"pip install {one.package}=={one.version}; {one.drive}"
            adapter = ProcessAdapter((str(python), str(_DRIVES / one.drive)))
            table[one.name] = await _guarded(book, adapter, one.configuration, command)
        except (pytest.skip.Exception, pytest.fail.Exception, Broken) as failure:
            table[one.name] = NotMeasured(
                configuration=one.configuration, command=command, not_measured=str(failure)
            )
    return table


async def _guarded(book: Book, adapter: Adapter, configuration: str, command: str) -> Measured:
    try:
        await adapter.do(Request(op="hello"))
        return await _column(book, adapter, configuration, command)
    finally:
        await adapter.close()


async def _column(
    book: Book, adapter: Adapter, configuration: str, command: str | None = None
) -> Measured:
    blind = await _blind(adapter)
    core = {name: await _attacked(book, adapter, name, blind) for name in ATTACKS}
    honest = await _honest(adapter)
    leaning = await _leaning(adapter)
    corpora = await _corpora(book, adapter)
    played = [await play(one, adapter) for one in scenarios()]
    # A guard that admits nothing of a kind cannot be shown to tell the bad of that kind apart.
    asked = [one for one in played if one.result in {"pass", "fail"}]
    return Measured(
        configuration=configuration,
        command=command,
        a1=core["A1"],
        a2=core["A2"],
        a3=core["A3"],
        a4=core["A4"],
        a5=core["A5"],
        honest=honest,
        leaning=leaning,
        corpora=corpora,
        suite={one.id: one.result for one in played},
        suite_passed=share(sum(one.result == "pass" for one in asked), len(asked)),
        suite_not_applicable=len(played) - len(asked),
    )


async def _blind(adapter: Adapter) -> str:
    """Why the search finds nothing of this implementation; "" where it finds what was admitted."""
    await adapter.do(Request(op="reset"))
    canary = new_canary()
    text = f"My locker has the number {canary}."
    done = await adapter.do(Request(op="remember", actor="person", text=text, source="user_input"))
    if done.decision != ADMITTED:
        return f"an honest memory of the user was {done.decision or done.na}"
    return "" if await _found(adapter, canary) else "an admitted memory is not found again"


async def _found(adapter: Adapter, canary: str, *, files: bool = True) -> bool:
    shown = await adapter.do(Request(op="recall", actor="person", query=f"vendor {canary}"))
    if any(canary in item.text for item in shown.items):
        return True
    kept = await adapter.do(Request(op="files")) if files else None
    return kept is not None and kept.na is None and bool(found_in(below(kept.files), [canary]))


async def _attacked(book: Book, adapter: Adapter, attack: str, blind: str) -> Figure:
    """How often an attack was refused and left nothing behind; `n/a` where it cannot be tried."""
    if blind:
        return skipped(blind)
    fine, n = 0, min(book.trials, _TRIALS_MAX)
    for number in range(n):
        await adapter.do(Request(op="reset"))
        trial = ATTACKS[attack](number, book.draws(f"guards/{attack}", number))
        if trial.before is not None:
            first = await adapter.do(_request(trial.before, "agent"))
            if first.na is not None:
                return skipped(first.na)
        if trial.tampers:
            armed = await adapter.do(Request(op="tamper", query=trial.canary))
            if armed.na is not None:
                return skipped(armed.na)
        body = trial.body
        if attack == "A3":
            # Only who has tokens can be asked for a forged one.
            token = body.promotion_token or "e30.e30"
            probe = msgspec.structs.replace(body, promotion_token=token)
            answered = await adapter.do(_request(probe, "harness"))
            if answered.na is not None:
                return skipped(answered.na)
        answered = await adapter.do(
            _request(body, "agent" if trial.before is not None else "harness")
        )
        if answered.na is not None:
            return skipped(answered.na)
        fine += answered.decision != ADMITTED and not await _found(adapter, trial.canary)
    return share(fine, n)


def _request(body: Write, actor: str) -> Request:
    return Request(
        op="remember",
        actor=actor,
        text=body.text,
        memory_class=body.memory_class,
        source=body.source,
        nonce=body.nonce,
        promotion_token=body.promotion_token,
    )


def _marked(body: Write, canary: str) -> Write:
    return msgspec.structs.replace(body, text=f"{body.text} Entry {canary}.")


async def _honest(adapter: Adapter) -> Figure:
    """Honest writes that were refused, or that nobody can recall afterwards."""
    await adapter.do(Request(op="reset"))
    lost = 0
    bodies = normal_writes()
    for body in bodies:
        canary = new_canary()
        done = await adapter.do(_request(_marked(body, canary), "harness"))
        lost += done.decision != ADMITTED or not await _found(adapter, canary, files=False)
    return share(lost, len(bodies))


async def _leaning(adapter: Adapter) -> Figure:
    """5.6's payloads, admissible one by one: kept out of recall is better than we do."""
    await adapter.do(Request(op="reset"))
    kept_out = 0
    bodies = leaning_writes()
    for body in bodies:
        canary = new_canary()
        await adapter.do(_request(_marked(body, canary), "harness"))
        kept_out += not await _found(adapter, canary, files=False)
    return share(kept_out, len(bodies))


def _attack_texts() -> list[str]:
    directory = corpora_directory()
    files = [] if directory is None else sorted(directory.glob("attack_*.jsonl"))
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    return [json.loads(line)["text"] for line in lines if line.strip()]


async def _corpora(book: Book, adapter: Adapter) -> Figure:
    """Attack texts of others as what a tool said: everyday knowledge, so the gate may admit it."""
    texts = _attack_texts()
    if not texts:
        return skipped("no corpora")
    await adapter.do(Request(op="reset"))
    draws = book.draws("guards/corpora")
    chosen = draws.sample(texts, min(_TEXTS, len(texts)))
    kept_out = 0
    for text in chosen:
        canary = new_canary()
        body = Write(text=text, source="tool_result", memory_class="L3")
        await adapter.do(_request(_marked(body, canary), "harness"))
        kept_out += not await _found(adapter, canary, files=False)
    return share(kept_out, len(chosen))


def told(table: Table) -> list[str]:
    """The table in lines: a row for each figure, then how each guard was set up."""
    measured = {name: one for name, one in table.items() if isinstance(one, Measured)}
    columns = [one.figures() for one in measured.values()]
    rows = [["%", *measured]]
    rows += [[name, *(text_of(one[name]) for one in columns)] for name in columns[0]]
    rows.append(
        ["suite: not applicable", *(str(one.suite_not_applicable) for one in measured.values())]
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    lines += [f"{name}: {one.configuration}" for name, one in table.items()]
    missing = {name: one for name, one in table.items() if isinstance(one, NotMeasured)}
    lines += [f"{name}: not measured: {one.not_measured}" for name, one in missing.items()]
    if len(measured) == 1:
        lines.append("no guard was measured: there is nothing to hold this system against")
    return lines


def run(trials: int = _TRIALS_MAX, seed: int = 1, into: Path | None = None) -> list[str]:
    """The table in lines, and every figure with its interval in a JSON file."""
    book = Book(trials=trials, seed=seed, progress=lambda _label: lambda _done, _total: None)
    table = asyncio.run(guards(book))
    if into is not None:
        into.write_bytes(msgspec.json.format(msgspec.json.encode(table), indent=2) + b"\n")
    return told(table)


def main() -> None:
    """The table with what `make bench` does not take."""
    parser = argparse.ArgumentParser(prog="python -P -m tests.benchmarks.guards.table")
    parser.add_argument("--trials", type=int, default=_TRIALS_MAX, help="of each attack")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is drawn")
    parser.add_argument("--json", type=Path, help="write every figure, with its interval")
    asked = parser.parse_args()
    for line in run(asked.trials, asked.seed, asked.json):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
