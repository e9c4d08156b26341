"""The neighbours and this system, side by side: the same requests, the same counting.

`n/a` is what an implementation cannot express, and never zero. Where they do better it is in the
table as well.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any, Final

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
from proxy.version import version

if TYPE_CHECKING:
    from proxy.evaluate.book import Book
    from proxy.evaluate.figures import Figure
    from proxy.evaluate.suite.protocol import Adapter
    from proxy.evaluate.systems import Json

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
    table: dict[str, Any] = {}
    ours = OurAdapter()
    try:
        table[f"mnemogate {version()}"] = {
            "configuration": "as `run` serves",
            **await _column(book, ours),
        }
    finally:
        await ours.close()
    draw = book.progress("neighbours")
    with resources.as_file(resources.files("proxy.evaluate.neighbours") / "drives") as drives:
        for done, one in enumerate(NEIGHBOURS, start=1):
            column: dict[str, Any] = {"configuration": one.configuration}
            try:
                python = await python_of(one.package, one.version)
                command = (str(python), str(drives / one.drive))
                column["command"] = f"pip install {one.package}=={one.version}; {one.drive}"
                column |= await _guarded(book, command)
            except (NotInstalled, Broken) as failure:
                column["not_measured"] = str(failure)
                book.note("neighbours", f"{one.name}: not measured: {failure}")
            table[one.name] = column
            draw(done, len(NEIGHBOURS))
    book.tables["neighbours"] = table
    book.control(
        "neighbours: at least one was measured",
        fired=any("suite" in column for column in list(table.values())[1:]),
    )


async def _guarded(book: Book, command: tuple[str, ...]) -> dict[str, Any]:
    adapter = ProcessAdapter(command)
    try:
        await adapter.do(Request(op="hello"))
        return await _column(book, adapter)
    finally:
        await adapter.close()


async def _column(book: Book, adapter: Adapter) -> dict[str, Any]:
    column: dict[str, Any] = {}
    blind = await _blind(adapter)
    for attack in ("A1", "A2", "A3", "A4", "A5"):
        column[f"core_nfr {attack}"] = await _attacked(book, adapter, attack, blind)
    column["normal writes lost"] = await _honest(adapter)
    column["leaning payloads kept out"] = await _leaning(adapter)
    column["corpora attacks as tool results kept out"] = await _corpora(book, adapter)
    played = [await play(one, adapter) for one in scenarios()]
    column["suite"] = {one.id: one.result for one in played}
    # Who admits nothing of a kind cannot be shown to keep the bad of it out.
    asked = [one for one in played if one.result in {"pass", "fail"}]
    column["suite_passed"] = share(sum(one.result == "pass" for one in asked), len(asked))
    column["suite_not_applicable"] = len(played) - len(asked)
    return column


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
            probe = {**body, "promotion_token": body.get("promotion_token", "e30.e30")}
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


def _request(body: Json, actor: str) -> Request:
    return Request(
        op="remember",
        actor=actor,
        text=body.get("text"),
        memory_class=body.get("class"),
        source=body.get("source"),
        nonce=body.get("nonce"),
        promotion_token=body.get("promotion_token"),
    )


async def _honest(adapter: Adapter) -> Figure:
    """Honest writes that were refused, or that nobody can recall afterwards."""
    await adapter.do(Request(op="reset"))
    lost = 0
    bodies = normal_writes()
    for body in bodies:
        canary = new_canary()
        text = f"{body['text']} Entry {canary}."
        done = await adapter.do(_request({**body, "text": text}, "harness"))
        lost += done.decision != ADMITTED or not await _found(adapter, canary, files=False)
    return share(lost, len(bodies))


async def _leaning(adapter: Adapter) -> Figure:
    """5.6's payloads, admissible one by one: kept out of recall is better than we do."""
    await adapter.do(Request(op="reset"))
    kept_out = 0
    bodies = leaning_writes()
    for body in bodies:
        canary = new_canary()
        await adapter.do(_request({**body, "text": f"{body['text']} Entry {canary}."}, "harness"))
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
        body = {"text": f"{text} Entry {canary}.", "source": "tool_result", "class": "L3"}
        await adapter.do(_request(body, "harness"))
        kept_out += not await _found(adapter, canary, files=False)
    return share(kept_out, len(chosen))
