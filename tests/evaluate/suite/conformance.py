"""The conformance suite against this system, and with `--mutants` against copies with a fault."""

from __future__ import annotations

from typing import Final

from tests.evaluate.book import Book
from tests.evaluate.figures import share
from tests.evaluate.suite.ours import OurAdapter
from tests.evaluate.suite.protocol import Adapter
from tests.evaluate.suite.scenario import play, scenarios
from tests.evaluate.suite.trying import try_mutants
from tests.evaluate.systems import BY_NAME
from tests.evaluate.tables import Conformance, Mutants, Played, Tables

_CONTROLS: Final = frozenset({"tool-policy", "laundered-directive", "nonce-replay"})
_LEAST: Final = 21


async def conformance(book: Book) -> None:
    """Each scenario against what `run` serves."""
    adapter = OurAdapter()
    try:
        played = await played_by(book, adapter, "conformance")
    finally:
        await adapter.close()
    passed = sum(one.result == "pass" for one in played)
    found = Conformance(passed=share(passed, len(played)), scenarios=tuple(played))
    book.found(Tables(conformance=found))
    book.promise("conformance: every invariant holds", found.passed, 100.0)
    await _control(book)
    for one in played:
        if one.result != "pass":
            book.note("conformance", f"{one.id}: {one.result}: {one.detail}")


async def _control(book: Book) -> None:
    """Positive control: without a gate the same scenarios fail."""
    adapter = OurAdapter(BY_NAME["B0"])
    try:
        played = [await play(one, adapter) for one in scenarios() if one.id in _CONTROLS]
    finally:
        await adapter.close()
    book.control(
        "conformance: scenarios fail where no gate stands",
        fired=len(played) == len(_CONTROLS) and all(one.result == "fail" for one in played),
        detail=", ".join(f"{one.id} {one.result}" for one in played),
    )


async def played_by(book: Book, adapter: Adapter, label: str) -> list[Played]:
    """The result of every scenario with one implementation."""
    draw = book.progress(label)
    chosen = scenarios()
    played: list[Played] = []
    for scenario in chosen:
        played.append(await play(scenario, adapter))
        book.trial(label, id=scenario.id, result=played[-1].result, detail=played[-1].detail)
        draw(len(played), len(chosen))
    return played


async def mutants(book: Book) -> None:
    """Check for each mutant whether the scenario that it belongs to notices it."""
    tried = await try_mutants(book.progress("mutants"))
    caught = share(sum(one.caught for one in tried), len(tried))
    book.found(Tables(mutants=Mutants(caught=caught, mutants=tuple(tried))))
    for one in tried:
        book.trial("mutants", id=one.id, file=one.file, caught=one.caught, detail=one.detail)
        if not one.caught:
            book.note("mutants", f"{one.id} in {one.file}: {one.detail}")
    book.promise("mutants: each is caught", caught, 100.0)
    book.control("mutants: there are at least 21", fired=len(tried) >= _LEAST)
