"""Tables 2 and 3: whether a refused candidate ever becomes state, and what a rollback leaves."""

from __future__ import annotations

from typing import Final

import msgspec

from storage.values import Submission
from tests.evaluate.attacks import ATTACKS, WALLS, Tamperer, Trial, attempted, prepared
from tests.evaluate.book import Book
from tests.evaluate.canary import new_canary
from tests.evaluate.figures import Figure, share
from tests.evaluate.systems import ADMITTED, BY_NAME, SYSTEMS, Bench, Extras, System, running
from tests.evaluate.tables import Beyond, Tables
from tests.evaluate.unsafe import unsafe_gate_without
from tests.evaluate.wire import Write

_CONTROLS: Final = 3


class Formed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one attack: the answer, and all its traces in the store."""

    system: str
    attack: str
    number: int
    status: int
    reason: str
    as_expected: bool
    rows: int
    vectors: int
    version_steps: int
    listed: bool
    recalled: bool
    on_disk: bool
    # Whether another client's search found the text after it was written and before it was removed
    # again. None if it was never written.
    probed: bool | None
    problems: tuple[str, ...]

    @property
    def nothing_formed(self) -> bool:
        """Whether the attack was refused for the expected reason and left no trace.

        This is what Core NFR counts.
        """
        return (
            self.as_expected
            and (self.rows, self.vectors, self.version_steps) == (0, 0, 0)
            and not (self.listed or self.recalled or self.on_disk or self.problems)
        )


async def core(book: Book) -> None:
    """Measure five systems under five attacks.

    Positive controls show that the search for traces can find any.
    """
    draw = book.progress("table 2")
    total, done = len(SYSTEMS) * len(ATTACKS) * book.trials, 0
    cells: dict[str, dict[str, Figure]] = {}
    formed: dict[str, list[Formed]] = {}
    for system in SYSTEMS:
        tamperer = Tamperer()
        async with running(system, Extras(failpoint=tamperer)) as bench:
            tamperer.sidecar = bench.sidecar
            ends: list[Formed] = []
            for attack in ATTACKS:
                for number in range(book.trials):
                    trial = ATTACKS[attack](number, book.draws(f"core/{attack}", number))
                    end = await tried(bench, trial, tamperer)
                    ends.append(end)
                    book.trial("table2", **msgspec.structs.asdict(end))
                    done += 1
                    draw(done, total)
            await _control_search(book, bench)
        formed[system.name] = ends
        cells[system.name] = {
            attack: _nfr([end for end in ends if end.attack == attack]) for attack in ATTACKS
        }
        cells[system.name]["all"] = _nfr(ends)
    table3 = _late(formed["LG"])
    byte_level = {
        name: share(sum(not end.on_disk for end in formed[name]), len(formed[name]))
        for name in ("S3", "S4")
    }
    book.found(
        Tables(table2=cells, table3=table3, beyond=Beyond(byte_level_nfr=byte_level)),
    )
    _promised(book, cells, table3)
    for attack in ATTACKS:
        await _control_wall(book, attack)


async def tried(bench: Bench, trial: Trial, tamperer: Tamperer) -> Formed:
    """Send one attack, and look for all of its traces afterwards."""
    key = await prepared(bench, trial)
    probed: list[bool] = []
    if bench.late is not None:

        async def probe(_submission: Submission) -> None:
            """Search as another client at this moment, over HTTP."""
            found = await bench.recalled(bench.operator_key, trial.canary, 100)
            probed.append(any(trial.canary in text for text in found))

        bench.late.between = probe
    # Making keys changes no memory, so the store's state before this trial is its state after the
    # last trial.
    before = bench.seen if trial.before is None else None
    before = before or bench.observed()
    answered = await attempted(bench, trial, key, tamperer)
    after = bench.seen = bench.observed()
    listed = await bench.listed(key)
    recalled = await bench.recalled(key, f"vendor {trial.canary}", 100)
    return Formed(
        system=bench.system.name,
        attack=trial.attack,
        number=trial.number,
        status=answered.status,
        reason=answered.body.reason or "",
        as_expected=(
            answered.status == trial.status
            and answered.body.reason == trial.reason
            and answered.body.step == trial.step
        ),
        rows=after.rows - before.rows,
        vectors=after.vectors - before.vectors,
        version_steps=after.version - before.version,
        listed=any(trial.canary in text for text in listed),
        recalled=any(trial.canary in text for text in recalled),
        on_disk=bool(bench.on_disk([trial.canary])),
        probed=probed[0] if probed else None,
        problems=after.problems,
    )


def _nfr(ends: list[Formed]) -> Figure:
    return share(sum(end.nothing_formed for end in ends), len(ends))


def _late(ends: list[Formed]) -> dict[str, Figure]:
    """The attacks that LateGate rejects: what it removed, and what was visible before.

    LateGate judges after the write, and removes what it rejects.
    """
    rejected = [end for end in ends if end.as_expected]
    n = len(rejected)

    def of(hits: int) -> Figure:
        return share(hits, n)

    return {
        "rejected": share(n, len(ends)),
        "row_removed": of(sum(not end.listed and not end.on_disk for end in rejected)),
        "vector_removed": of(sum(not end.recalled and end.vectors <= 0 for end in rejected)),
        "version_unchanged": of(sum(end.version_steps == 0 for end in rejected)),
        "absent_from_probe": of(sum(end.probed is False for end in rejected)),
        "ever_materialized": of(
            sum(end.version_steps > 0 and bool(end.probed) for end in rejected)
        ),
    }


def _promised(book: Book, cells: dict[str, dict[str, Figure]], table3: dict[str, Figure]) -> None:
    for name in ("S3", "S4"):
        for attack in ATTACKS:
            book.promise(f"table 2: nothing forms, {name} {attack}", cells[name][attack], 100.0)
    for name in ("B0", "B1", "LG"):
        # In these systems attacks become memories. That is the positive control for the promise of
        # S4: the search that finds nothing there finds these.
        figure = cells[name]["all"]
        book.control(
            f"table 2: attacks form in {name}",
            fired=figure.value == 0.0,
            detail=f"{figure.value} % of {figure.n} did not form",
        )
    for row, wanted in (
        ("rejected", 100.0),
        ("row_removed", 100.0),
        ("vector_removed", 100.0),
        ("version_unchanged", 0.0),
        ("absent_from_probe", 0.0),
        ("ever_materialized", 100.0),
    ):
        book.promise(f"table 3: {row}", table3[row], wanted)


async def _control_search(book: Book, bench: Bench) -> None:
    """Positive control: the three searches for traces find an admitted memory."""
    canary = new_canary()
    answered = await bench.write(
        bench.operator_key, Write(text=f"The word of the day is {canary}.")
    )
    listed = any(canary in text for text in await bench.listed(bench.operator_key))
    recalled = any(canary in text for text in await bench.recalled(bench.operator_key, canary, 100))
    on_disk = bool(bench.on_disk([canary]))
    book.control(
        f"an admitted canary is found by the same search, {bench.system.name}",
        fired=answered.status in ADMITTED and listed and recalled and on_disk,
        detail=f"listed {listed}, recalled {recalled}, on disk {on_disk}",
    )


async def _control_wall(book: Book, attack: str) -> None:
    """Positive control: each attack lands if only the gate step against it is left out."""
    tamperer = Tamperer()
    gate = unsafe_gate_without(WALLS[attack])
    landed = 0
    system: System = BY_NAME["S4"]
    async with running(system, Extras(failpoint=tamperer, gate=gate)) as bench:
        tamperer.sidecar = bench.sidecar
        for number in range(_CONTROLS):
            trial = ATTACKS[attack](number, book.draws(f"wall/{attack}", number))
            end = await tried(bench, trial, tamperer)
            landed += end.listed and end.recalled and end.on_disk and end.version_steps == 1
    book.control(
        f"{attack} lands without step {min(WALLS[attack])}",
        fired=landed == _CONTROLS,
        detail=f"{landed} of {_CONTROLS}",
    )
