"""What an evaluation found, as `--json` writes it and as the report reads it: every key is here.

A key whose experiment was not made is left out. Where keys are open (systems, attacks, corpora,
rates) they are those of a mapping, in the order in which a table shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.evaluate.figures import Figure

Figures: TypeAlias = Mapping[str, "Figure"]


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence that has to be true of this system, and whether it was."""

    name: str
    held: bool
    detail: str = ""


class NoiseRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Table 5 at one rate: three figures, no two of which are added up.

    `landed_below` is what landed as less than it was for. `fpr` where honest writes were sent too.
    """

    refused: Figure
    landed_below: Figure
    landed_as_named: Figure
    fpr: Figure | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One violation of Table 6: the level before it, and what was decided."""

    attempt: int
    level: str
    decision: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Table 6: trust over repeated violations."""

    timeline: tuple[Attempt, ...]
    same_in_every_run: Figure
    never_rises: Figure
    refused: Figure


class RefusedText(msgspec.Struct, frozen=True, kw_only=True):
    """An honest text of somebody else that did not land; `how`: held or refused."""

    set: str
    how: str
    reason: str
    text: str


class Curve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A ROC curve as shares of 1; without an area where there was nothing to draw."""

    found_at_1_percent: Figure
    area: float | None = None
    points: tuple[tuple[float, float], ...]


class Beyond(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the paper did not measure. Corpora that nobody named are one figure, skipped."""

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

    def figures(self) -> Iterator[tuple[str, str, Figure]]:
        """Each figure by its key, and by its key below that; "" where there is none below."""
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
        )
        for name, value in found:
            if isinstance(value, Mapping):
                for part, figure in value.items():
                    yield name, part, figure
            elif value is not None:
                yield name, "", value


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """How a scenario ended: `pass`, `fail` with what was wrong, `n/a` with why.

    `control`: what has to land did not, so nothing that was stopped means anything.
    """

    id: str
    invariant: str
    result: str
    detail: str = ""


class Conformance(msgspec.Struct, frozen=True, kw_only=True):
    """The suite against what `run` serves."""

    passed: Figure
    scenarios: tuple[Played, ...]


class TriedMutant(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one mutant: caught, or why not."""

    id: str
    invariant: str
    file: str
    caught: bool
    detail: str


class Mutants(msgspec.Struct, frozen=True, kw_only=True):
    """The suite against faults of ours."""

    caught: Figure
    mutants: tuple[TriedMutant, ...]


class Tables(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tables of every experiment that was made; one experiment gives those that it made."""

    table2: Mapping[str, Figures] | None = None
    table3: Figures | None = None
    beyond: Beyond | None = None
    table4: Figures | None = None
    fpr: Figures | None = None
    # Whose words a memory is: of a person's own, and of what was pasted.
    labels: Figures | None = None
    semantic_limit: Figure | None = None
    table6: Timeline | None = None
    honest: Figures | None = None
    # Who caused a wrong answer: cases whose culprits are known.
    blame: Figures | None = None
    # Whom outcomes latch: sleepers, on-off attackers, honest agents.
    trust: Figures | None = None
    # Payloads that add up, and honest texts beside them.
    drift: Figures | None = None
    appendix_a: Figures | None = None
    table5: Mapping[str, Mapping[str, NoiseRow]] | None = None
    conformance: Conformance | None = None
    mutants: Mutants | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What was run, how often, and on what."""

    mnemogate: str
    trials: int
    seed: int
    python: str
    machine: str
    # When it ended (RFC 3339, UTC), on which host, and from which commit where that is known.
    at: str = ""
    host: str = ""
    commit: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What held and what did not, and what a reader has to be told, by table."""

    notes: Mapping[str, tuple[str, ...]]
    promises: tuple[Promise, ...]
    controls: tuple[Promise, ...]
    sound: bool


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. On disk the three are one object, in this order."""

    run: Run
    tables: Tables
    verdict: Verdict


def joined(one: Tables, more: Tables) -> Tables:
    """Both; of what is in both, what `more` has."""
    beyond = one.beyond
    if beyond is not None and more.beyond is not None:
        beyond = msgspec.structs.replace(beyond, **_given(more.beyond))
    else:
        beyond = more.beyond or beyond
    labels = {**(one.labels or {}), **(more.labels or {})} or None
    found = msgspec.structs.replace(one, **_given(more))
    return msgspec.structs.replace(found, beyond=beyond, labels=labels)


def _given(found: msgspec.Struct) -> dict[str, object]:
    """The fields that were filled."""
    fields = msgspec.structs.asdict(found)
    return {name: value for name, value in fields.items() if value is not None}


def as_json(found: Document) -> bytes:
    """The document, indented, as it stands on disk."""
    parts = (found.run, found.tables, found.verdict)
    whole = {name: value for part in parts for name, value in _given(part).items()}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
