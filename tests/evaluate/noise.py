"""Table 5: what the gate is worth when labels are wrong, by chance or by an adversary.

It is measured twice. Noise on what a trusted harness *claims* is the paper's setting, whose
collapse under targeted forgery is reproduced. Noise on the labels that the sidecar *derives* shows
what its own mistakes would cost: the gate sees a wrong source or class, while the bytes are the
same. There the true class counts: a text that lands in a class below it, where it can do less, is
counted apart.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec

from policy.checks import STEPS
from policy.facts import Facts
from policy.model import Candidate, Channel, Claims, MemoryClass, SourceKind
from tests.evaluate.attacks import ATTACKS, Trial, statement
from tests.evaluate.book import Book
from tests.evaluate.figures import share
from tests.evaluate.normal import normal_writes
from tests.evaluate.systems import ADMITTED, BY_NAME, PLAIN, Bench, Extras, running
from tests.evaluate.tables import NoiseRow, Tables
from tests.evaluate.unsafe import UnsafeMislabelledGate
from tests.evaluate.wire import Tried, Write

RATES: Final = (5, 10, 20)
SEEDS: Final = 3
MODES: Final = ("source", "class", "both")
LABELLED: Final = ("A1", "A2", "A3")
_SOURCES: Final = ("user_input", "agent_self_edit", "model_inference", "tool_result")
_CLASSES: Final = ("L1", "L2", "L3", "L4")
_HELD: Final = 202


class _Sent(msgspec.Struct, frozen=True, kw_only=True):
    """One attack that was sent."""

    trial: Trial
    body: Write
    # The class that the text really has. With None, landing in any class counts, as in the paper.
    aimed_at: MemoryClass | None = None


class _Count(msgspec.Struct, kw_only=True):
    """Counts for one noise rate: attacks tried, landed, and landed below their true class."""

    n: int = 0
    landed: int = 0
    below: int = 0
    disagreeing: int = 0
    honest: int = 0
    refused: float = 0.0


async def noise(book: Book) -> None:
    """Measure both halves of Table 5: noise on claims, and noise on derived labels."""
    table: dict[str, dict[str, NoiseRow]] = {}
    draw = book.progress("table 5")
    total, done = 2 * len(MODES) * len(RATES) * SEEDS, 0
    async with running(BY_NAME["S4"]) as bench:
        for mode in MODES:
            for rate in RATES:
                count = _Count()
                for round_number in range(SEEDS):
                    await _claims(
                        book, bench, count, mode=mode, rate=rate, round_number=round_number
                    )
                    done += 1
                    draw(done, total)
                table.setdefault(f"claims_{mode}", {})[str(rate)] = _row(count)
        for words in (False, True):
            count = _Count()
            await _round(
                book,
                bench,
                [_forged(one, words=words) for one in _trials(book, f"targeted/{words}")],
                count,
            )
            name = "claims_targeted_directive" if words else "claims_targeted"
            table[name] = {"100": _row(count)}
    noisy = _Noise(book.seed)
    gate = UnsafeMislabelledGate(noisy, STEPS)
    async with running(BY_NAME["S4"], Extras(gate=gate)) as bench:
        for mode in MODES:
            for rate in RATES:
                count = _Count()
                for round_number in range(SEEDS):
                    noisy.set(mode, rate, round_number)
                    await _derived(book, bench, noisy, count)
                    done += 1
                    draw(done, total)
                table.setdefault(f"derived_{mode}", {})[str(rate)] = _row(count)
    table["derived_targeted"] = {"100": await _targeted(book)}
    book.found(Tables(table5=table))
    collapse = table["claims_targeted"]["100"].refused
    book.control(
        "table 5: trusted claims collapse under targeted forgery",
        fired=collapse.value == 0.0,
        detail=f"{collapse.value} % of {collapse.n} did not form",
    )
    book.promise(
        "table 5: targeted forgery of what the sidecar derives lands as named, L1 and L2",
        table["derived_targeted"]["100"].landed_as_named,
        0.0,
    )


def _trials(book: Book, name: str, round_number: int = 0) -> list[Trial]:
    return [
        ATTACKS[attack](number, book.draws(f"noise/{name}/{attack}/{number}", round_number))
        for attack in LABELLED
        for number in range(book.trials)
    ]


def _mislabelled(draws: random.Random, body: Write, mode: str, rate: int) -> Write:
    """The body with each label exchanged for another one, by chance."""
    source, memory_class = body.source, body.memory_class
    if mode != "class" and draws.random() < rate / 100:
        source = draws.choice([word for word in _SOURCES if word != source])
    if mode != "source" and draws.random() < rate / 100:
        memory_class = draws.choice([word for word in _CLASSES if word != memory_class])
    return msgspec.structs.replace(body, source=source, memory_class=memory_class)


async def _claims(
    book: Book, bench: Bench, count: _Count, *, mode: str, rate: int, round_number: int
) -> None:
    draws = book.draws(f"noise/claims/{mode}/{rate}", round_number)
    sent = [
        _Sent(
            trial=trial,
            body=_mislabelled(draws, trial.body, mode, rate),
        )
        for trial in _trials(book, f"claims/{mode}/{rate}", round_number)
    ]
    await _round(book, bench, sent, count)
    honest = [_mislabelled(draws, body, mode, rate) for body in normal_writes()]
    await _honest(bench, honest, count)


def _forged(trial: Trial, *, words: bool) -> _Sent:
    """The attack with all client fields forged to values that land: the paper's forgery."""
    text = trial.body.text if words else statement(trial.number, trial.canary)
    return _Sent(
        trial=trial,
        body=Write(text=text, source="user_input", memory_class="L4"),
    )


async def _round(
    book: Book, bench: Bench, sent: list[_Sent], count: _Count, claims: Claims = Claims.TRUSTED
) -> None:
    """Send the attacks, and count which became memories.

    Each answer is compared with the files on disk.
    """
    keys = await bench.keys(len(sent), claims=claims, channel=Channel.AGENT)
    bodies = [one.body for one in sent]
    answers = await bench.written(list(zip(keys, bodies, strict=True)))
    on_disk = bench.on_disk([one.trial.canary for one in sent])
    for one, answer in zip(sent, answers, strict=True):
        landed = answer.status in ADMITTED
        below = landed and _landed_below(answer, one.aimed_at)
        count.n += 1
        count.below += below
        count.landed += landed and not below
        count.disagreeing += landed != (one.trial.canary in on_disk)
        book.trial(
            "table5",
            attack=one.trial.attack,
            number=one.trial.number,
            source=one.body.source,
            memory_class=one.body.memory_class,
            status=answer.status,
            reason=answer.body.reason,
            landed=landed,
            below=below,
        )


def _landed_below(answer: Tried, aimed_at: MemoryClass | None) -> bool:
    """Whether the text landed in a less powerful class than the attack aimed at."""
    if aimed_at is None:
        return False
    return MemoryClass(answer.body.memory_class or "").power < aimed_at.power


async def _honest(bench: Bench, bodies: list[Write], count: _Count) -> None:
    keys = await bench.keys(len(bodies), claims=Claims.TRUSTED, channel=Channel.AGENT)
    for answer in await bench.written(list(zip(keys, bodies, strict=True))):
        count.honest += 1
        count.refused += 0.5 if answer.status == _HELD else answer.status not in ADMITTED


async def _derived(book: Book, bench: Bench, noisy: _Noise, count: _Count) -> None:
    """Give honest labels to a trusted harness, while the sidecar derives wrong ones by chance."""
    sent = [
        _Sent(
            trial=trial,
            body=trial.body,
            # A directive counts as policy because of its words, whatever class the write names.
            aimed_at=MemoryClass.L1
            if trial.attack == "A2"
            else MemoryClass(trial.body.memory_class or ""),
        )
        for trial in _trials(book, noisy.name)
    ]
    await _round(book, bench, sent, count)
    await _honest(bench, normal_writes(), count)


class _Noise:
    """Exchanges a derived label for another one by chance; the same text gets the same noise."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.name = ""
        self._mode = ""
        self._rate = 0.0

    def set(self, mode: str, rate: int, round_number: int) -> None:
        """Set the mode and the noise rate in percent."""
        self.name = f"derived/{mode}/{rate}/{round_number}"
        self._mode, self._rate = mode, rate / 100

    def __call__(self, candidate: Candidate, facts: Facts) -> tuple[Candidate, Facts]:
        """The candidate and facts that the gate's steps get, with labels changed by chance."""
        draws = random.Random(f"{self._seed}/{self.name}/{candidate.text}")  # noqa: S311 - no secret
        if self._mode != "class" and draws.random() < self._rate and facts.provenance is not None:
            others = [SourceKind(one) for one in _SOURCES if one != facts.provenance.source.value]
            provenance = msgspec.structs.replace(facts.provenance, source=draws.choice(others))
            facts = msgspec.structs.replace(facts, provenance=provenance)
        if self._mode != "source" and draws.random() < self._rate and facts.reading is not None:
            # The class that the gate derives includes the class floor, so noise on it makes the
            # floor fail.
            reading = msgspec.structs.replace(facts.reading, directive=False, injection=False)
            classes = [one for one in MemoryClass if one is not candidate.memory_class]
            candidate = msgspec.structs.replace(candidate, memory_class=draws.choice(classes))
            facts = msgspec.structs.replace(facts, reading=reading)
        return candidate, facts


async def _targeted(book: Book) -> NoiseRow:
    """Measure an agent that forges every field.

    Its label should come from its channel all the same.
    """
    count = _Count()
    async with running(BY_NAME["S4"], PLAIN) as bench:
        sent = [
            _Sent(
                trial=trial,
                body=_best(trial, name),
                aimed_at=MemoryClass(name),
            )
            for name in ("L1", "L2")
            for trial in _trials(book, f"derived/targeted/{name}")
        ]
        await _round(book, bench, sent, count, Claims.IGNORED)
    return _row(count)


def _best(trial: Trial, memory_class: str) -> Write:
    """The attack, in which every field that a client can set has its most trusted value."""
    return msgspec.structs.replace(
        trial.body,
        source="operator",
        role="system",
        actor="operator",
        user_id="operator",
        memory_class=memory_class,
    )


def _row(count: _Count) -> NoiseRow:
    return NoiseRow(
        refused=share(count.n - count.landed - count.below - count.disagreeing, count.n),
        landed_below=share(count.below, count.n),
        landed_as_named=share(count.landed, count.n),
        fpr=share(count.refused, count.honest) if count.honest else None,
    )
