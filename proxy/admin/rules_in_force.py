"""Shows the ruleset in force, tries it on hypothetical writes, and reloads it from its file.

If the file cannot be used, the last good rules stay in force, and the caller gets the reason.
SIGHUP or a call of the operator API requests a reload.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from policy.canonical import canonical_bytes, digest_of
from policy.checks import STEPS
from policy.facts import AnchorProbe, BudgetState, Facts, InterceptRecord, NonceState, TokenState
from policy.gate import Gate
from policy.labels.derive import Seen, derive_provenance, is_lowered, named_class, read_text
from policy.model import (
    Candidate,
    CandidateId,
    ChangeKind,
    MemoryClass,
    Principal,
    PrincipalId,
    SourceKind,
    Tenant,
)
from policy.ruleset import Ruleset, RulesetError, parse_ruleset
from policy.text.language import words_that_fired
from policy.trust.score import TrustLevel, TrustState
from policy.verdict import Admit, Hold, Reason, Reject, Verdict
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.wire.dry_run import EXPLAIN, ExplainRequest, ExplainStep, ExplainView
from proxy.admin.wire.route import NoQuery
from proxy.admin.wire.store import (
    POLICY,
    PolicyView,
)
from proxy.admin.wire.upkeep import RELOAD, PolicyReloadRequest, PolicyReloadView
from proxy.seams.faults import RulesetRefused
from proxy.seams.observations import observation_for
from proxy.settings.table import SettingsError
from proxy.settings.wider import wider_rules
from storage.ground.errors import StorageError

if TYPE_CHECKING:
    from storage.interfaces import MemoryWriter

_LOG: Final = logging.getLogger("mnemogate.rules")
BY_SIGNAL: Final = PrincipalId("mnemogate:sighup")
MEM0: Final = "mem0"
# Seconds between two reads of the file, which must give equal texts, because a file that is still
# being written may be cut off where it is valid TOML.
SETTLE_S: Final = 0.05


def parse_rules(text: str) -> Ruleset:
    """Parse a ruleset, and check that it contains the class map that the Mem0 dialect needs.

    Raises:
        RulesetError: Anything is missing, unknown or out of range.
    """
    ruleset = parse_ruleset(text)
    if MEM0 not in ruleset.classes:
        raise RulesetError(f"classes.{MEM0}: missing; the dialect needs a class map")
    return ruleset


class Rules:
    """Holds the text of the ruleset in force, and reloads it from its file. Event loop only."""

    def __init__(
        self,
        text: str,
        *,
        read: Callable[[], str],
        writer: MemoryWriter,
        in_force: Callable[[], Ruleset],
        settle_s: float = SETTLE_S,
    ) -> None:
        """`text` is the source of the ruleset in force; `read` returns the file's text."""
        self.text = text
        self.in_force = in_force
        self._read = read
        self._writer = writer
        self._settle_s = settle_s
        self._one_at_a_time = asyncio.Lock()

    async def reload(self, by: PrincipalId, digest: str | None = None) -> PolicyReloadView:
        """Read the file again and put its rules in force; a given `digest` has to be their digest.

        A candidate that waits for the writer is judged by the rules that are in force when its turn
        comes; a decision that has begun keeps the epoch with which it began.

        Raises:
            RulesetRefused: The file cannot be used.
            StorageError: The store did not take the new epoch.
        """
        async with self._one_at_a_time:
            before = self.in_force()
            try:
                text, ruleset = await self._candidate(digest)
            except (RulesetError, SettingsError) as error:
                _LOG.error(
                    "ruleset refused; the rules before stay in force",
                    extra={"fields": {"why": str(error), "epoch": before.epoch}},
                )
                raise RulesetRefused(f"{error}; epoch {before.epoch} stays in force") from error
            adopted = await self._writer.adopt_ruleset(ruleset, by)
            self.text = text
        for one in wider_rules(ruleset):
            _LOG.warning("wider than as shipped", extra={"fields": {"what": one}})
        _LOG.info(
            "ruleset in force",
            extra={"fields": {"digest": adopted.digest, "epoch": adopted.epoch}},
        )
        return PolicyReloadView(
            digest=adopted.digest,
            epoch=adopted.epoch,
            changed=adopted.digest != before.digest,
        )

    @route(POLICY)
    async def shown(self, _call: OperatorCall[NoQuery]) -> PolicyView:
        """The ruleset in force."""
        rules = self.in_force()
        return PolicyView(digest=rules.digest, epoch=rules.epoch, text=self.text)

    @route(RELOAD)
    async def reload_asked(self, call: OperatorCall[PolicyReloadRequest]) -> PolicyReloadView:
        """Read the ruleset's file and put it in force at an operator's request; see `reload`."""
        return await self.reload(call.operator, call.asked.digest)

    async def reload_by_signal(self) -> None:
        """Reload at SIGHUP; an error is logged, because no caller waits for an answer."""
        try:
            await self.reload(BY_SIGNAL)
        except RulesetRefused:
            return
        except StorageError as error:
            _LOG.error(
                "ruleset not adopted; the rules before stay in force",
                extra={"error_type": type(error).__name__},
            )

    async def _candidate(self, digest: str | None) -> tuple[str, Ruleset]:
        first = await asyncio.to_thread(self._read)
        await asyncio.sleep(self._settle_s)
        text = await asyncio.to_thread(self._read)
        if text != first:
            raise RulesetError("the file changed while it was read; put it in place by renaming")
        ruleset = parse_rules(text)
        if digest is not None and ruleset.digest != digest:
            raise RulesetError(f"its digest is {ruleset.digest}, not the one that was asked for")
        return text, ruleset


# The id of the candidate in a dry run. Real candidates have random ids, so no real candidate has 32
# zeros.
NOBODY: Final = CandidateId("0" * 32)


class Explainer(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the gate for its verdict on a hypothetical write.

    If the gate returns a permit, the permit is discarded; only the writer could use it.
    """

    gate: Gate
    probe: Callable[[Tenant, str, float], tuple[AnchorProbe, ...] | None]

    def explain(self, asked: ExplainRequest, rules: Ruleset, now_ms: int) -> ExplainView:
        """The verdict on a hypothetical write with unused nonce and budget, and its steps."""
        principal = Principal(
            principal_id=PrincipalId("explain"),
            tenant=Tenant(asked.tenant),
            channel=asked.channel,
            claims=asked.claims,
        )
        candidate = Candidate(
            change=ChangeKind.CREATE,
            principal_id=principal.principal_id,
            tenant=principal.tenant,
            nonce="explain",
            text=asked.text,
            memory_class=asked.memory_class,
            class_named=asked.class_named,
            claimed_source=asked.source,
        )
        facts = self._facts(asked, principal, candidate, rules, now_ms)
        verdict = self.gate.decide(candidate, facts, rules)
        return _view(verdict, candidate, facts)

    def _facts(
        self,
        asked: ExplainRequest,
        principal: Principal,
        candidate: Candidate,
        rules: Ruleset,
        now_ms: int,
    ) -> Facts:
        digest = digest_of(canonical_bytes(candidate))
        reading = read_text(asked.text, None)
        margin = rules.anchors.outrank_margin
        return Facts(
            candidate_id=NOBODY,
            now_ms=now_ms,
            staged_digest=digest,
            intercept=InterceptRecord(
                candidate_id=NOBODY,
                digest=digest,
                principal_id=principal.principal_id,
                tenant=principal.tenant,
                target=candidate.target,
            ),
            provenance=derive_provenance(
                principal,
                candidate,
                None,
                Seen(called=True) if asked.called else None,
            ),
            reading=reading,
            trust=TrustState(level=TrustLevel(asked.trust)),
            origin_trust=None,
            nonce=NonceState.FRESH,
            token=TokenState.VALID if asked.token else TokenState.ABSENT,
            shadow=self.probe(principal.tenant, asked.text, margin),
            budget=BudgetState(
                writes_in_window_count=0, text_bytes=len(asked.text.encode()), metadata_bytes=0
            ),
            overdue=False,
            denied=False,
            denied_today=False,
            repeats_hidden=False,
        )


def _view(verdict: Verdict, candidate: Candidate, facts: Facts) -> ExplainView:
    passed = frozenset(verdict.permit.passed if isinstance(verdict, Admit) else verdict.passed)
    failed = None if isinstance(verdict, Admit) else verdict.step
    stopped = isinstance(verdict, Reject)
    steps: list[ExplainStep] = []
    for step in STEPS:
        if step.number == failed:
            outcome = "failed"
        elif step.number in passed:
            outcome = "passed"
        else:
            # After a rejection the gate runs no further step. After a hold it runs the later steps
            # too, so a step that is not among the passed ones would hold the candidate as well.
            outcome = "not_reached" if stopped else "failed"
        steps.append(ExplainStep(step=step.number, name=step.name, outcome=outcome))
    source = facts.provenance.source if facts.provenance else None
    basis = facts.provenance.basis if facts.provenance else None
    decision, reason, memory_class = _said(verdict)
    lowered = is_lowered(candidate.change, named_class(candidate), memory_class)
    return ExplainView(
        remedy=None if reason is None else _remedy(reason, source, memory_class),
        decision=decision,
        reason=reason.value if reason else None,
        step=failed,
        memory_class=memory_class,
        source=source,
        basis=basis,
        steps=tuple(steps),
        observation=observation_for(decision, reason, memory_class, lowered=lowered),
    )


class DryRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Judges hypothetical writes by the ruleset in force. Event loop only."""

    explainer: Explainer
    in_force: Callable[[], Ruleset]
    now_ms: Callable[[], int]

    @route(EXPLAIN)
    async def explain(self, call: OperatorCall[ExplainRequest]) -> ExplainView:
        """Judge a hypothetical write; nothing is staged, logged or stored."""
        view = self.explainer.explain(call.asked, self.in_force(), self.now_ms())
        return await asyncio.to_thread(with_words, view, call.asked)


def with_words(view: ExplainView, asked: ExplainRequest) -> ExplainView:
    """The view, with the words for which a text that was not admitted is flagged, if any.

    Run it in a thread, because the search of a long text takes long.
    """
    fired = None if view.decision == "admit" else words_that_fired(asked.text)
    return msgspec.structs.replace(view, fired=fired)


def fired_in(candidate: Candidate) -> str | None:
    """The words for which a candidate is flagged, from any of its texts and names; else None."""
    scope = candidate.scope
    for text in (
        *(candidate.text, candidate.metadata_json, candidate.target, candidate.role),
        *(candidate.actor, scope.user_id, scope.agent_id, scope.run_id, scope.app_id),
    ):
        fired = None if text is None else words_that_fired(text)
        if fired is not None:
            return fired
    return None


_NO_SETTING: Final = "what counts as an order is no setting: reword it as a fact"
REMEDIES: Final[dict[Reason, str]] = {
    Reason.CLASS_FLOOR: f"{_NO_SETTING}, or let a person release it (`mnemogate review`)",
    Reason.ADDRESS_AT_STAKE: "leave the address out, or let a person release it",
    Reason.DIRECTIVE_LANGUAGE: _NO_SETTING,
    Reason.INJECTION_LANGUAGE: _NO_SETTING,
    Reason.TRUST_INSUFFICIENT: "mend its program, then `mnemogate trust restore PRINCIPAL`",
    Reason.TRUST_SOFT_SCORE: "`[trust.soft_score_min]` of the ruleset, or `trust restore`",
    Reason.TRUST_LATCHED: "`trust show --history` says why; a probation, or `trust restore`",
    Reason.PROMOTION_TOKEN_MISSING: "`mnemogate token mint`, or a person's confirmation",
    Reason.REPEATS_HIDDEN: "`mnemogate memory unhide`, or a person's own word",
    Reason.CONTRADICTS_ANCHOR: "the anchor: `mnemogate anchor list`, `mnemogate anchor put`",
    Reason.OUTRANKS_ANCHOR: "the anchor, or `outrank_margin` of [anchors] of the ruleset",
    Reason.OVERSIZE: "`text_bytes_max` of [budgets] of the ruleset",
}
"""A mapping of a reason to what an operator can do so that a text refused for it is admitted."""


def _remedy(reason: Reason, source: SourceKind | None, memory_class: MemoryClass) -> str:
    if reason is Reason.SOURCE_CLASS_FORBIDDEN and source is not None:
        cell = f"`{source.value}.{memory_class.value}` in [matrix] of the ruleset"
        return f"name no class, or L3; or change {cell}"
    return REMEDIES.get(reason, "docs/reasons.md says what it means")


def _said(verdict: Verdict) -> tuple[str, Reason | None, MemoryClass]:
    match verdict:
        case Admit(permit=permit):
            return "admit", None, permit.memory_class
        case Hold(reason=reason, memory_class=memory_class):
            return "hold", reason, memory_class
        case Reject(reason=reason, memory_class=memory_class):
            return "reject", reason, memory_class
