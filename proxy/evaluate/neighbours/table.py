"""The neighbours and this system, side by side: the same requests, the same counting.

`n/a` is what an implementation cannot express, and never zero. Where they do better it is in the
table as well.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

import msgspec

from proxy.evaluate.attacks import ATTACKS, Broken
from proxy.evaluate.canary import found_in, new_canary
from proxy.evaluate.figures import share, skipped
from proxy.evaluate.forged import attack_texts
from proxy.evaluate.neighbours.environment import NotInstalled, python_of
from proxy.evaluate.normal import leaning_writes, normal_writes
from proxy.evaluate.suite.ours import OurAdapter
from proxy.evaluate.suite.process import ProcessAdapter
from proxy.evaluate.suite.protocol import ADMITTED, Request
from proxy.evaluate.suite.scenario import below, play, scenarios
from proxy.evaluate.tables import Measured, NotMeasured, Tables
from proxy.evaluate.wire import Write
from proxy.version import version

if TYPE_CHECKING:
    from proxy.evaluate.book import Book
    from proxy.evaluate.figures import Figure
    from proxy.evaluate.suite.protocol import Adapter

_TEXTS: Final = 60
_TRIALS_MAX: Final = 10


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """One package, its version, and how it is set up."""

    package: str
    version: str
    drive: str
    configuration: str

    @property
    def name(self) -> str:
        """As the table has it."""
        return f"{self.package} {self.version}"


NEIGHBOURS: Final = (
    Neighbour(
        package="agent-memory-guard",
        version="0.3.3",
        drive="agent_memory_guard_drive.py",
        configuration="MemoryGuard(policy=Policy.strict()), default detectors",
    ),
    Neighbour(
        package="memward",
        version="0.1.0",
        drive="memward_drive.py",
        configuration="Memward(JsonFileStore), quarantine on, search(privileged=True)",
    ),
    Neighbour(
        package="mnemosyne-guard",
        version="0.1.5",
        drive="mnemosyne_guard_drive.py",
        configuration="MemoryGateway(SqliteStore), bundled policy, fail_closed, integrity on read",
    ),
    Neighbour(
        package="cmgl",
        version="1.1.2",
        drive="cmgl_drive.py",
        configuration='GuardedMemoryBackend(GovernanceLayer(profile="strict")), authority bundles',
    ),
    Neighbour(
        package="superlocalmemory",
        version="4.1.18",
        drive="superlocalmemory_drive.py",
        configuration="daemon, mode A, /remember?wait=true and /recall with its install token",
    ),
)


async def neighbours(book: Book) -> None:
    """Every column of the table, ours first."""
    table: dict[str, Measured | NotMeasured] = {}
    ours = OurAdapter()
    try:
        table[f"mnemogate {version()}"] = await _column(book, ours, "as `run` serves")
    finally:
        await ours.close()
    draw = book.progress("neighbours")
    with resources.as_file(resources.files("proxy.evaluate.neighbours") / "drives") as drives:
        for done, one in enumerate(NEIGHBOURS, start=1):
            command: str | None = None
            try:
                python = await python_of(one.package, one.version)
                command = f"pip install {one.package}=={one.version}; {one.drive}"
                adapter = ProcessAdapter((str(python), str(drives / one.drive)))
                table[one.name] = await _guarded(book, adapter, one.configuration, command)
            except (NotInstalled, Broken) as failure:
                table[one.name] = NotMeasured(
                    configuration=one.configuration, command=command, not_measured=str(failure)
                )
                book.note("neighbours", f"{one.name}: not measured: {failure}")
            draw(done, len(NEIGHBOURS))
    book.found(Tables(neighbours=table))
    book.control(
        "neighbours: at least one was measured",
        fired=any(isinstance(column, Measured) for column in list(table.values())[1:]),
    )


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
    # Who admits nothing of a kind cannot be shown to keep the bad of it out.
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
    """Refused, in no recall, and in no file; `n/a` where the attack cannot be put to it."""
    if blind:
        return skipped(blind)
    fine, n = 0, min(book.trials, _TRIALS_MAX)
    for number in range(n):
        await adapter.do(Request(op="reset"))
        trial = ATTACKS[attack](number, book.draws(f"neighbours/{attack}", number))
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


async def _corpora(book: Book, adapter: Adapter) -> Figure:
    """Attack texts of others as what a tool said: everyday knowledge, so the gate may admit it."""
    texts = attack_texts()
    if not texts:
        return skipped("no corpora")
    await adapter.do(Request(op="reset"))
    draws = book.draws("neighbours/corpora")
    chosen = draws.sample(texts, min(_TEXTS, len(texts)))
    kept_out = 0
    for text in chosen:
        canary = new_canary()
        body = Write(text=text, source="tool_result", memory_class="L3")
        await adapter.do(_request(_marked(body, canary), "harness"))
        kept_out += not await _found(adapter, canary, files=False)
    return share(kept_out, len(chosen))
