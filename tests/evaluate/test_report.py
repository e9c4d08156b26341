"""The report: self-contained, and inert whatever was written into memory."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec

from tests.evaluate.figures import share, skipped
from tests.evaluate.report import report
from tests.evaluate.tables import (
    Attempt,
    Beyond,
    Conformance,
    Curve,
    Document,
    Mutants,
    NoiseRow,
    Played,
    Promise,
    RefusedText,
    Run,
    Tables,
    Timeline,
    TriedMutant,
    Verdict,
)

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\u202e'
FIGURE = share(3, 4)


def found(tables: Tables | None = None, *, sound: bool = False) -> Document:
    return Document(
        run=Run(mnemogate="0.1.0", trials=1, seed=1, python="3.11", machine="x86_64"),
        tables=tables or Tables(),
        verdict=Verdict(
            notes={"fpr": (HOSTILE,)},
            promises=(Promise(name=HOSTILE, held=True, detail=HOSTILE),),
            controls=(Promise(name="fires", held=False),),
            sound=sound,
        ),
    )


WHOLE = found(
    Tables(
        table2={"S4": dict.fromkeys(("A1", "A2", "A3", "A4", "A5", "all"), FIGURE)},
        table3={"rejected": FIGURE},
        table4={"S4": FIGURE},
        table5={
            "claims_source": {
                "5": NoiseRow(
                    refused=FIGURE, landed_below=FIGURE, landed_as_named=FIGURE, fpr=FIGURE
                )
            }
        },
        fpr={"S4": FIGURE},
        semantic_limit=FIGURE,
        table6=Timeline(
            timeline=tuple(Attempt(attempt=n, level=HOSTILE, decision=HOSTILE) for n in range(5)),
            same_in_every_run=FIGURE,
            never_rises=FIGURE,
            refused=FIGURE,
        ),
        appendix_a={"trust_reaches_untrusted": FIGURE},
        beyond=Beyond(
            crash_nfr=FIGURE,
            corpora_fpr=skipped(HOSTILE),
            latency_ms={"gated": (1.0, 2.0, 3.0)},
            containment_roc=Curve(
                found_at_1_percent=FIGURE, area=0.5, points=((0.0, 0.0), (1.0, 1.0))
            ),
            corpora_refused=(RefusedText(set="x", how=HOSTILE, reason="y", text=HOSTILE),),
        ),
        conformance=Conformance(
            passed=FIGURE, scenarios=(Played(id="a", invariant=HOSTILE, result="pass"),)
        ),
        mutants=Mutants(
            caught=FIGURE,
            mutants=(TriedMutant(id="a", invariant="i", file="f", caught=True, detail=""),),
        ),
    )
)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in {"meta", "rect", "line", "polyline"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = report(WHOLE)
    tags = Tags()
    tags.feed(page)
    assert tags.seen & {"script", "img", "link", "iframe", "object"} == set()
    assert not any(name.startswith("on") or name in {"src", "href"} for name in tags.attributes)
    assert re.search(r"https?://|url\(|@import", page) is None
    assert "default-src 'none'" in page


def test_every_element_is_closed() -> None:
    tags = Tags()
    tags.feed(report(WHOLE))
    assert tags.open == []


def test_a_run_that_is_not_sound_says_so_and_shows_which() -> None:
    page = report(WHOLE)
    assert "A promise is broken" in page
    assert "Every promise held" in report(found(sound=True))
    assert page.count('<span class="no">NO</span>') == 1


def test_the_page_says_first_what_it_does_not_show_and_explains_its_words() -> None:
    run = Run(
        mnemogate="0.1.0",
        trials=1,
        seed=1,
        python="3.11",
        machine="x86_64",
        at="2030-01-31T12:00:00+00:00",
        host=HOSTILE,
        commit="0123456789ab",
    )
    page = report(msgspec.structs.replace(WHOLE, run=run))
    limits, words, first = (
        page.index(f"<h2>{heading}") for heading in ("What this does not show", "The words", "Prom")
    )
    assert limits < words < first
    for told in ("2030-01-31T12:00:00", "commit 0123456789ab", "Jungsoo Baek", "0 is good"):
        assert told in page
    # The reason behind each n/a is read, not hovered over; and whatever it says is inert.
    assert page.count("n/a</span> <small>") == page.count('<span class="na">')
    assert "<script>" not in page


def test_each_figure_beyond_the_paper_has_a_row() -> None:
    page = report(WHOLE)
    assert "<td>crash nfr</td>" in page
    assert "<td>containment roc found at 1 percent</td>" in page


def test_a_page_of_one_experiment_has_no_empty_tables() -> None:
    assert "<tbody></tbody>" not in report(found())
