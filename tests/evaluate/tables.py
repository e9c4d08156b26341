"""The results of an evaluation, as `--json` writes and the report reads them, with every key.

A key whose experiment was not run is left out. Keys that are not fixed (systems, attacks, corpora,
rates) are those of a mapping, in the order in which a table shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from tests.evaluate.figures import Figure

Figures: TypeAlias = Mapping[str, "Figure"]


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence that has to be true of this system, and whether it was true."""

    name: str
    held: bool
    detail: str = ""


class NoiseRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row of Table 5 of the paper, for one rate of noise.

    `landed_below` is the share that landed in a class below the one aimed at. `fpr` is there if
    honest writes were sent too.
    """

    refused: Figure
    landed_below: Figure
    landed_as_named: Figure
    fpr: Figure | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One violation in Table 6 of the paper: the trust level before it, and the decision."""

    attempt: int
    level: str
    decision: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Table 6: the trust of a principal over repeated violations."""

    timeline: tuple[Attempt, ...]
    same_in_every_run: Figure
    never_rises: Figure
    refused: Figure


class RefusedText(msgspec.Struct, frozen=True, kw_only=True):
    """Another person's honest text that did not land.

    `how` tells whether it was held or refused.
    """

    set: str
    how: str
    reason: str
    text: str


class Curve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A ROC curve as shares of 1; without an area if there was nothing to draw."""

    found_at_1_percent: Figure
    area: float | None = None
    points: tuple[tuple[float, float], ...]


class Beyond(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures that the paper did not measure.

    If no corpora were named, they are one skipped figure.
    """

    byte_level_nfr: Figures | None = None
    forged_label_nfr: Figures | None = None
    concurrent_nfr: Figure | None = None
    slow_disk_nfr: Figure | None = None
    failing_disk_nfr: Figure | None = None
    late_and_duplicate_nfr: Figure | None = None
    crash_nfr: Figure | None = None
    corpora_fpr: Figures | Figure | None = None
    corpora_refused: tuple[RefusedText, ...] | None = None
    # Shares of attack texts that are stopped as an agent's notes, bare and in a quotation.
    corpora_framed: Figures | None = None
    corpora_attack_nfr: Figure | None = None
    corpora_attack_stopped: Figures | None = None
    containment_roc: Curve | None = None
    latency: Figures | None = None
    latency_ms: Mapping[str, tuple[float, ...]] | None = None
    throughput: Figures | None = None
    # What a search finds, here and in other memories.
    search: Figures | None = None

    def figures(self) -> Iterator[tuple[str, str, Figure]]:
        """Each figure with its key in the document, and its key inside that entry.

        The second key is "" where the entry is a single figure.
        """
        curve = self.containment_roc
        roc = None if curve is None else {"found_at_1_percent": curve.found_at_1_percent}
        found: tuple[tuple[str, Figures | Figure | None], ...] = (
            ("byte_level_nfr", self.byte_level_nfr),
            ("forged_label_nfr", self.forged_label_nfr),
            ("concurrent_nfr", self.concurrent_nfr),
            ("slow_disk_nfr", self.slow_disk_nfr),
            ("failing_disk_nfr", self.failing_disk_nfr),
            ("late_and_duplicate_nfr", self.late_and_duplicate_nfr),
            ("crash_nfr", self.crash_nfr),
            ("corpora_fpr", self.corpora_fpr),
            ("corpora_framed", self.corpora_framed),
            ("corpora_attack_nfr", self.corpora_attack_nfr),
            ("corpora_attack_stopped", self.corpora_attack_stopped),
            ("containment_roc", roc),
            ("latency", self.latency),
            ("throughput", self.throughput),
            ("search", self.search),
        )
        for name, value in found:
            if isinstance(value, Mapping):
                for part, figure in value.items():
                    yield name, part, figure
            elif value is not None:
                yield name, "", value


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """How a scenario ended: `pass`, `fail` with what was wrong, or `n/a` with the reason.

    A result `control` means that a write which has to land did not, so that stopping others proves
    nothing.
    """

    id: str
    invariant: str
    result: str
    detail: str = ""


class Conformance(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the conformance suite against what `run` serves."""

    passed: Figure
    scenarios: tuple[Played, ...]


class TriedMutant(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one mutant: whether a scenario caught it, or why none did."""

    id: str
    invariant: str
    file: str
    caught: bool
    detail: str


class Mutants(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the conformance suite against copies of this program with a fault."""

    caught: Figure
    mutants: tuple[TriedMutant, ...]


class Tables(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tables of every experiment that was run; one experiment fills in its own."""

    table2: Mapping[str, Figures] | None = None
    table3: Figures | None = None
    beyond: Beyond | None = None
    table4: Figures | None = None
    fpr: Figures | None = None
    # Whether labels tell a person's own words from pasted ones.
    labels: Figures | None = None
    semantic_limit: Figure | None = None
    table6: Timeline | None = None
    honest: Figures | None = None
    # How well the cause of a wrong answer is found, in cases with known culprits.
    blame: Figures | None = None
    # Whether a lie against a registered truth reaches an agent, and the answers after it.
    heal: Figures | None = None
    # Whether a trial gives back what was true once, and no lie.
    parole: Figures | None = None
    # Which agents are latched: sleepers, on-off attackers, honest agents.
    trust: Figures | None = None
    # A leaked key: what it wrote is hidden in one act, and given back exactly.
    isolate: Figures | None = None
    appendix_a: Figures | None = None
    table5: Mapping[str, Mapping[str, NoiseRow]] | None = None
    conformance: Conformance | None = None
    mutants: Mutants | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """How an evaluation was run: version, trials, seed, and machine."""

    mnemogate: str
    trials: int
    seed: int
    python: str
    machine: str
    # When it ended (RFC 3339, UTC), on which host, and from which commit, if that is known.
    at: str = ""
    host: str = ""
    commit: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Which promises and controls held, and notes for a reader, by table."""

    notes: Mapping[str, tuple[str, ...]]
    promises: tuple[Promise, ...]
    controls: tuple[Promise, ...]
    sound: bool


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document. On disk its three parts are one object, in this order."""

    run: Run
    tables: Tables
    verdict: Verdict


def joined(one: Tables, more: Tables) -> Tables:
    """Both tables as one; a table that is in both is taken from `more`."""
    beyond = one.beyond
    if beyond is not None and more.beyond is not None:
        beyond = msgspec.structs.replace(beyond, **_given(more.beyond))
    else:
        beyond = more.beyond or beyond
    labels = {**(one.labels or {}), **(more.labels or {})} or None
    found = msgspec.structs.replace(one, **_given(more))
    return msgspec.structs.replace(found, beyond=beyond, labels=labels)


def _given(found: msgspec.Struct) -> dict[str, object]:
    """The fields of a struct that are not None."""
    fields = msgspec.structs.asdict(found)
    return {name: value for name, value in fields.items() if value is not None}


def as_json(found: Document) -> bytes:
    """The document, indented, as it stands on disk."""
    parts = (found.run, found.tables, found.verdict)
    whole = {name: value for part in parts for name, value in _given(part).items()}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
