"""The report: self-contained, and inert whatever was written into memory."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import msgspec

from proxy.evaluate.figures import share, skipped
from proxy.evaluate.report import report

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\u202e'
FIGURE = msgspec.to_builtins(share(3, 4))


def found(**more: object) -> dict[str, Any]:
    return {
        "mnemogate": "0.1.0",
        "trials": 1,
        "seed": 1,
        "python": "3.11",
        "machine": "x86_64",
        "promises": [{"name": HOSTILE, "held": True, "detail": HOSTILE}],
        "controls": [{"name": "fires", "held": False, "detail": ""}],
        "notes": {"fpr": [HOSTILE]},
        "sound": False,
        **more,
    }


WHOLE = found(
    table2={
        "S4": dict.fromkeys(("A1", "A2", "A3", "A4", "A5", "all"), FIGURE),
    },
    table3={"rejected": FIGURE},
    table4={"S4": FIGURE},
    table5={"claims_source": {"5": {"nfr": FIGURE, "landed_below": FIGURE, "fpr": FIGURE}}},
    fpr={"S4": FIGURE},
    semantic_limit=FIGURE,
    table6={
        "timeline": [{"attempt": n, "level": "trusted", "decision": "reject"} for n in range(5)]
    },
    appendix_a={"trust_reaches_untrusted": FIGURE},
    beyond={
        "crash_nfr": FIGURE,
        "corpora_fpr": msgspec.to_builtins(skipped(HOSTILE)),
        "latency_ms": {"gated": [1.0, 2.0, 3.0]},
        "containment_roc": {"points": [[0.0, 0.0], [1.0, 1.0]], "area": 0.5},
        "corpora_refused": [{"set": "x", "how": "held", "reason": "y", "text": HOSTILE}],
    },
    conformance={"scenarios": [{"id": "a", "invariant": HOSTILE, "result": "pass"}]},
    mutants={"mutants": [{"id": "a", "caught": True}]},
    neighbours={
        "mnemogate": {"configuration": "c", "suite": {}, "x": FIGURE, "suite_not_applicable": 0},
        "other": {"configuration": HOSTILE, "not_measured": HOSTILE},
    },
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


def test_a_page_of_one_experiment_has_no_empty_tables() -> None:
    assert "<tbody></tbody>" not in report(found())
