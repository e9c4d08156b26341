"""The tables of an evaluation for a terminal: our figures, with the paper's beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proxy.cli.terminal import Terminal
from tests.evaluate import paper
from tests.evaluate.book import Book
from tests.evaluate.figures import text_of
from tests.evaluate.meanings import MEANINGS
from tests.evaluate.sleepers import PRINTED
from tests.evaluate.tables import Beyond, Figures, NoiseRow, Promise, Tables


def show(terminal: Terminal, book: Book) -> None:
    """Print every table, and then each promise and control that did not hold."""
    tables = book.tables
    if tables.table2 is not None:
        _by_system(terminal, "Table 2: Core NFR, %", tables.table2, paper.TABLE2)
    for figures, title, printed in (
        (tables.table3, "Table 3: LateGate on rejected trials, %", paper.TABLE3),
        (tables.table4, "Table 4: PRLR, %", paper.TABLE4),
        (tables.fpr, "False positives on normal writes, %", paper.FPR),
        (tables.appendix_a, "Appendix A, %", paper.APPENDIX_A),
        (tables.labels, "Whose words a memory is, %", {}),
        (tables.blame, "Who caused a wrong answer, %", {}),
        (tables.heal, "What a lie reaches, and the answers after it, %", {}),
        (tables.parole, "What a trial gives back, %", {}),
        (tables.trust, "Whom outcomes latch", PRINTED),
        (tables.isolate, "A leaked key, isolated and given back, %", {}),
    ):
        if figures is not None:
            _list(terminal, title, figures, printed)
    if tables.table5 is not None:
        _noise(terminal, tables.table5)
    _boundaries(terminal, tables)
    if tables.beyond is not None:
        _beyond(terminal, tables.beyond)
    _suite(terminal, tables)
    for table, notes in book.notes.items():
        for note in notes:
            terminal.say(f"note on {table}: {note}")
    _verdicts(terminal, book)


def _boundaries(terminal: Terminal, tables: Tables) -> None:
    if tables.semantic_limit is not None:
        _list(
            terminal,
            "5.6: admissible payloads that land, %",
            {"committed": tables.semantic_limit},
            {"committed": paper.SEMANTIC_LIMIT},
        )
    if tables.table6 is not None:
        terminal.say("\nTable 6: trust over repeated violations, labels vouched for")
        terminal.table(
            ("attempt", "level before", "decision", "paper"),
            [
                (str(row.attempt), row.level, row.decision, printed)
                for row, printed in zip(tables.table6.timeline, paper.TABLE6, strict=True)
            ],
        )


def _suite(terminal: Terminal, tables: Tables) -> None:
    if tables.conformance is not None:
        passed = tables.conformance.passed
        terminal.say(f"\nConformance: {text_of(passed)} % of {passed.n} scenarios pass")
    if tables.mutants is not None:
        caught = tables.mutants.caught
        terminal.say(f"\nMutants: {text_of(caught)} % of {caught.n} are caught")


def _by_system(
    terminal: Terminal,
    title: str,
    cells: Mapping[str, Figures],
    printed: Mapping[str, Mapping[str, float]],
) -> None:
    attacks = [name for name in next(iter(cells.values())) if name != "all"]
    terminal.say(f"\n{title} (ours / paper)")
    terminal.table(
        ("system", *attacks, "all [95 %]"),
        [
            (
                system,
                *(f"{text_of(row[name])} / {printed[system][name]:.0f}" for name in attacks),
                text_of(row["all"], interval=True),
            )
            for system, row in cells.items()
        ],
    )


def _list(terminal: Terminal, title: str, rows: Figures, printed: Mapping[str, float]) -> None:
    terminal.say(f"\n{title}")
    explained = not rows.keys().isdisjoint(MEANINGS)
    terminal.table(
        ("", "ours [95 %]", "n", "what" if explained else "paper"),
        [
            (
                name,
                text_of(figure, interval=True),
                str(figure.n),
                f"{printed[name]:g}" if name in printed else MEANINGS.get(name, ""),
            )
            for name, figure in rows.items()
        ],
    )


def _noise(terminal: Terminal, modes: Mapping[str, Mapping[str, NoiseRow]]) -> None:
    terminal.say("\nTable 5: attacks under label noise, %")
    printed: Mapping[str, Mapping[str, float]] = paper.TABLE5
    rows: list[tuple[str, ...]] = []
    for mode, rates in modes.items():
        for rate, row in rates.items():
            said = printed.get(mode, {}).get(rate)
            rows.append(
                (
                    mode,
                    f"{rate} %",
                    text_of(row.refused, interval=True),
                    str(row.refused.n),
                    "" if said is None else f"{said:g}",
                    text_of(row.landed_below),
                    text_of(row.landed_as_named),
                    "" if row.fpr is None else text_of(row.fpr),
                )
            )
    names = ("labels", "rate", "refused [95 %]", "n", "paper", "landed below", "as named", "FPR")
    terminal.table(names, rows)


def _beyond(terminal: Terminal, beyond: Beyond) -> None:
    rows = [
        (
            f"{name} {part}".strip(),
            figure.skipped or text_of(figure, interval=True),
            figure.unit,
            str(figure.n),
        )
        for name, part, figure in beyond.figures()
    ]
    if rows:
        terminal.say("\nBeyond the paper")
        terminal.table(("", "value [95 %]", "unit", "n"), rows)


def _verdicts(terminal: Terminal, book: Book) -> None:
    def held(ones: Sequence[Promise]) -> str:
        return f"{sum(one.held for one in ones)} of {len(ones)}"

    terminal.say(f"\npromises that held:      {held(book.promises)}")
    terminal.say(f"positive controls fired: {held(book.controls)}")
    if not book.promises or not book.controls:
        terminal.say("  no verdict: what was measured has no promise, or no control")
    for one in book.broken:
        terminal.say(f"  NOT: {one.name} ({one.detail})")
