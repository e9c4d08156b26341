"""The gate, without I/O: it runs the numbered steps, gives one verdict, and alone makes permits.

The steps follow "MWP", Mediated Write-Path: Jungsoo Baek, *Structural Write-Path Control for
Non-Formation in Agent Persistent Memory*, https://certumsystems.com/mwp/ (docs/glossary.md).
"""

from __future__ import annotations

from typing import Final

from policy.checks import (
    STEPS,
    UNAVAILABLE,
    Aim,
    Step,
    StepObjection,
    aim_of,
)
from policy.facts import Facts
from policy.labels.derive import confirmed_by_a_person, lowered
from policy.labels.forwarded_call import call_of
from policy.model import Candidate, ChangeKind, Provenance, SourceKind
from policy.ruleset import Ruleset
from policy.verdict import (
    _SEAL,  # pyright: ignore[reportPrivateUsage] - the one key to the one lock
    Admit,
    Hold,
    Permit,
    Reason,
    Reject,
    Verdict,
)

# The step (source and class) that a verdict names if only a person's denial refuses a candidate.
_NO_ASKING: Final = 1


class Gate:
    """Runs its steps in order and returns a verdict.

    Immutable; any number of threads may use it.
    """

    __slots__ = ("_required", "_steps")

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps
        self._required = frozenset(step.number for step in steps)

    @property
    def observing(self) -> bool:
        """Whether this gate admits candidates that it objects to."""
        return False

    @property
    def required(self) -> frozenset[int]:
        """The steps that every permit of this gate has passed."""
        return self._required

    def decide(self, candidate: Candidate, facts: Facts, ruleset: Ruleset) -> Verdict:
        """Judge one candidate; return the verdict.

        The first `Reject` decides, also after a step that would hold; else the first `Hold`; else
        the candidate is admitted. A person's confirmation of these very bytes turns a hold into an
        admit, and never a reject. No steps, an empty matrix and a step that raises all reject.
        """
        aim = aim_of(candidate, facts, ruleset)
        landing = aim.landing
        if not self._steps or not ruleset.matrix:
            return Reject(reason=Reason.GATE_UNAVAILABLE, step=0, memory_class=landing)
        # A model request that waited for this candidate was forwarded without its text. To admit
        # the candidate now would make a memory of a text that was treated as refused.
        if facts.overdue:
            return Reject(reason=Reason.GATE_UNAVAILABLE, step=0, memory_class=landing)
        # In the order of the steps; each of them ran here.
        passed: dict[int, bool] = {}
        held: tuple[int, StepObjection] | None = None
        for step in self._steps:
            try:
                found = step.check(candidate, facts, aim)
                finding = None if found is None else _understood(found)
            except Exception:  # noqa: BLE001 - a check that raises is a check that refused
                finding = UNAVAILABLE
            if finding is None or (finding.holds and aim.confirmed):
                passed[step.number] = True
            elif not finding.holds:
                return Reject(
                    reason=finding.reason,
                    step=step.number,
                    memory_class=landing,
                    structural=finding.structural,
                    passed=tuple(passed),
                )
            elif held is None:
                held = (step.number, finding)
        denied = (facts.denied or facts.denied_today) and not aim.confirmed
        refused = _said_no(facts, aim, waits=held is not None) if denied else None
        if refused is not None:
            step_number = _NO_ASKING if held is None else held[0]
            return Reject(
                reason=refused, step=step_number, memory_class=landing, passed=tuple(passed)
            )
        if held is not None:
            step_number, objection = held
            return Hold(
                reason=objection.reason,
                step=step_number,
                memory_class=landing,
                passed=tuple(passed),
            )
        return _admit(candidate, facts, aim, frozenset(passed))


def _said_no(facts: Facts, aim: Aim, *, waits: bool) -> Reason | None:
    """The reason to refuse a candidate because of a person's denials; None for no refusal."""
    provenance = aim.provenance
    if provenance is None:
        return None
    # A text of a proven source that no step holds is no proposal by the agent, so it is admitted.
    if facts.denied and (waits or provenance.source.trust < SourceKind.USER_INPUT.trust):
        return Reason.DENIED_BY_PERSON
    dropped = waits and facts.denied_today and provenance.after_reading
    return Reason.DENIED_TODAY if dropped else None


def _understood(finding: object) -> StepObjection:
    # The type checker cannot enforce what a check returns. A check that returns anything else is
    # broken, and the candidate is refused.
    return finding if isinstance(finding, StepObjection) else UNAVAILABLE


def _admit(candidate: Candidate, facts: Facts, aim: Aim, passed: frozenset[int]) -> Verdict:
    provenance = aim.provenance
    # A gate with all its steps has rejected a candidate for which one of these facts is missing.
    # Only a gate that was built without some steps reaches this line with a fact missing.
    if provenance is None or facts.staged_digest is None or facts.reading is None:
        return Reject(reason=Reason.GATE_UNAVAILABLE, step=0, memory_class=aim.landing)
    label = confirmed_by_a_person(provenance) if aim.confirmed else provenance
    if candidate.change is ChangeKind.UPDATE:
        label = _updated_label(candidate, facts, label)
    permit = Permit(
        _SEAL,
        candidate_id=facts.candidate_id,
        digest=facts.staged_digest,
        epoch=aim.ruleset.epoch,
        memory_class=aim.landing,
        source=label.source,
        basis=label.basis,
        passed=passed,
    )
    return Admit(permit=permit)


def _updated_label(candidate: Candidate, facts: Facts, label: Provenance) -> Provenance:
    stored = facts.stored
    if stored is None:
        # The gate does not know the text on the upstream server. Whatever the change does not
        # replace stays there, so the memory is trusted no more than words of an unknown source.
        call = call_of(candidate)
        if call is None or not call.sets_all:
            return lowered(label, SourceKind.UNKNOWN)
        return label
    # An update that leaves a part of a text in place has the lower of both labels, so that neither
    # the remaining nor the new text gets a better label than its own. A person who confirmed the
    # change saw only the new text.
    return label if stored.remains is None else lowered(label, stored.remains)


GATE: Final = Gate(STEPS)


INTEGRITY: Final = frozenset({4, 5, 7})
"""Digest, nonce and audit cross-check: what no gate may leave out, observing or not."""


class UnsafeObservingGate(Gate):
    """Admits what `enforcing` would refuse or hold, and records what its verdict would have been.

    It is for trying Mnemogate on an agent whose behaviour must not change. A text that it admits
    becomes a memory like any other: the promise that a refused text never becomes a memory does not
    hold while this gate runs. Only composition makes one, at start; the gate of a running process
    cannot be exchanged.

    It still refuses a candidate that differs from the intercepted one (steps 4, 5 and 7), one that
    cannot be judged, and a change of a memory that is not there.
    """

    __slots__ = ("_enforcing",)

    def __init__(self, enforcing: Gate) -> None:
        super().__init__(())
        self._enforcing = enforcing
        self._required = INTEGRITY

    @property
    def observing(self) -> bool:
        """Whether this gate admits candidates that it objects to: always true."""
        return True

    def decide(self, candidate: Candidate, facts: Facts, ruleset: Ruleset) -> Verdict:
        """Judge one candidate; admit it if the integrity steps passed and its target exists."""
        verdict = self._enforcing.decide(candidate, facts, ruleset)
        if isinstance(verdict, Admit) or verdict.reason in _NEVER_OBSERVED:
            return verdict
        passed = frozenset(verdict.passed)
        if not passed >= INTEGRITY:
            return verdict
        admitted = _admit(candidate, facts, aim_of(candidate, facts, ruleset), passed)
        if isinstance(admitted, Admit):
            return Admit(permit=admitted.permit, objection=verdict)
        return admitted


_NEVER_OBSERVED: Final = frozenset({Reason.GATE_UNAVAILABLE, Reason.TARGET_MISSING})
