"""The document of an evaluation: its keys on disk, and how the parts of it come together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_type_hints

import msgspec

from tests.benchmarks.guards.table import Measured, NotMeasured, told
from tests.evaluate import tables
from tests.evaluate.figures import Figure, share, skipped
from tests.evaluate.tables import (
    Beyond,
    Curve,
    Document,
    Figures,
    NoiseRow,
    Run,
    Tables,
    Verdict,
    as_json,
    joined,
)

FIGURE = share(3, 4)
KEYS = {"value": 75.0, "n": 4, "low": 30.064, "high": 95.441}
COLUMN = Measured(
    configuration="c",
    a1=FIGURE,
    a2=FIGURE,
    a3=FIGURE,
    a4=FIGURE,
    a5=FIGURE,
    honest=FIGURE,
    leaning=FIGURE,
    corpora=FIGURE,
    suite={"tool-policy": "pass"},
    suite_passed=FIGURE,
    suite_not_applicable=0,
)


def document(found: Tables) -> Document:
    return Document(
        run=Run(mnemogate="0.1.0", trials=1, seed=2, python="3.11", machine="x86_64"),
        tables=found,
        verdict=Verdict(notes={}, promises=(), controls=(), sound=False),
    )


def test_the_document_is_one_object_and_has_no_key_of_what_was_not_made() -> None:
    found = Tables(
        fpr={"S4": FIGURE},
        table5={
            "claims_source": {
                "5": NoiseRow(refused=FIGURE, landed_below=FIGURE, landed_as_named=FIGURE)
            }
        },
    )
    assert msgspec.json.decode(as_json(document(found))) == {
        "mnemogate": "0.1.0",
        "trials": 1,
        "seed": 2,
        "python": "3.11",
        "machine": "x86_64",
        "at": "",
        "host": "",
        "commit": "",
        "fpr": {"S4": KEYS},
        "table5": {
            "claims_source": {"5": {"refused": KEYS, "landed_below": KEYS, "landed_as_named": KEYS}}
        },
        "notes": {},
        "promises": [],
        "controls": [],
        "sound": False,
    }


def test_what_one_experiment_found_stands_beside_what_another_did() -> None:
    one = Tables(table3={"rejected": FIGURE}, beyond=Beyond(byte_level_nfr={"S4": FIGURE}))
    more = Tables(beyond=Beyond(crash_nfr=FIGURE))
    assert joined(joined(Tables(), one), more) == Tables(
        table3={"rejected": FIGURE},
        beyond=Beyond(byte_level_nfr={"S4": FIGURE}, crash_nfr=FIGURE),
    )


def test_the_rows_of_a_column_are_its_figures_under_the_names_that_they_have_on_disk() -> None:
    on_disk = msgspec.json.decode(msgspec.json.encode(COLUMN))
    rows = {name: msgspec.to_builtins(figure) for name, figure in COLUMN.figures().items()}
    assert rows == {name: one for name, one in on_disk.items() if one == KEYS}
    assert len(rows) == 9


def test_the_table_of_the_guards_says_what_was_not_measured_and_why() -> None:
    other = NotMeasured(configuration="strict", not_measured="the registry cannot be reached")
    lines = told({"mnemogate": COLUMN, "third": COLUMN, "other": other})
    assert lines[0].split() == ["%", "|", "mnemogate", "|", "third"]
    assert lines[1].split() == ["core_nfr", "A1", "|", "75", "|", "75"]
    assert len(lines) == 1 + 9 + 1 + 3 + 1
    assert lines[-2:] == ["other: strict", "other: not measured: the registry cannot be reached"]
    assert "nothing to hold this system against" in told({"mnemogate": COLUMN, "o": other})[-1]


def test_no_figure_beyond_the_paper_is_left_out() -> None:
    curve = Curve(found_at_1_percent=FIGURE, points=())
    hints = get_type_hints(
        Beyond, {**vars(tables), "Figure": Figure, "Figures": Mapping[str, Figure]}
    )
    filled: dict[str, Figure | Figures | Curve] = {"containment_roc": curve}
    for name, hint in hints.items():
        if "Figure" in str(hint):
            filled[name] = FIGURE if hint == Figure | None else {"part": FIGURE}
    found = msgspec.structs.replace(Beyond(), **filled)
    assert {name for name, _, _ in found.figures()} == set(filled)
    assert len(filled) == 15


def test_a_figure_that_stands_alone_has_no_name_below_its_key() -> None:
    why = skipped("nobody named corpora")
    assert list(Beyond(corpora_fpr=why).figures()) == [("corpora_fpr", "", why)]
