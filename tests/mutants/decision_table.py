"""Faults in the decision: the nine steps, the gate around them, permits, nonces and tokens."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, dropped, one_test, replaced, returned

_COMMIT: Final = "tests/unit/storage/write/test_writes.py"
_GATE: Final = "tests/unit/policy/test_gate.py"
_GATE_REFERENCE: Final = "tests/property/test_gate_reference.py"
_GATE_STEPS: Final = "tests/unit/policy/test_gate.py"
_TOKENS: Final = "tests/unit/policy/test_tokens.py"
_WRITES: Final = "tests/unit/storage/write/test_writes.py"

DECISION: Final = (
    Mutant(
        row="formation",
        name="a permit is not spent",
        invariant="one permit is one commit",
        where="storage.write.commit:Committer.commit",
        fault=dropped("permit.spend()"),
        tests=one_test(_COMMIT, "test_a_permit_is_spent_by_its_commit"),
        quick=True,
    ),
    Mutant(
        row="formation",
        name="required steps are not checked",
        invariant="a permit names every required step",
        where="storage.write.commit:Committer._verify",
        fault=replaced("permit.passed >= self._required", "permit.passed"),
        tests=one_test(_COMMIT, "test_a_permit_that_skipped_a_step_puts_nothing"),
    ),
    Mutant(
        row="formation",
        name="the bytes are not hashed as they are written",
        invariant="the bytes that are stored are those that were judged",
        where="storage.write.commit:Committer._verify",
        fault=replaced(
            "hashlib.sha256(judged.canonical).digest() != permit.digest", "not judged.canonical"
        ),
        tests=one_test(_COMMIT, "test_bytes_that_changed_after_the_verdict_are_not_stored"),
    ),
    Mutant(
        row="formation",
        name="the epoch is not checked",
        invariant="a verdict under rules that were replaced commits nothing",
        where="storage.write.commit:Committer._verify",
        fault=replaced("permit.epoch != epoch", "permit.epoch < 0"),
        tests=one_test(_COMMIT, "test_a_permit_of_another_epoch_puts_nothing"),
    ),
    Mutant(
        row="formation",
        name="an empty ruleset decides",
        invariant="an empty ruleset rejects with the reason that nothing could be decided",
        where="policy.gate:Gate.decide",
        fault=replaced("not ruleset.matrix", "False"),
        tests=one_test(_GATE, "test_an_empty_ruleset_rejects"),
    ),
    Mutant(
        row="formation",
        name="a gate without steps admits",
        invariant="an empty list of checks rejects everything",
        where="policy.gate:Gate.decide",
        fault=replaced("not self._steps", "False"),
        tests=one_test(_GATE, "test_a_gate_without_steps_rejects"),
    ),
    Mutant(
        row="formation",
        name="a crashed check passes",
        invariant="a check that cannot run is a check that failed",
        where="policy.gate:Gate.decide",
        fault=replaced("UNAVAILABLE", "None"),
        tests=one_test(_GATE, "test_a_step_that_raises_is_a_step_that_refused"),
        quick=True,
    ),
    Mutant(
        row="formation",
        name="anybody makes permits",
        invariant="only the gate makes permits",
        where="policy.verdict:Permit.__init__",
        fault=replaced("seal is not _SEAL", "seal is None"),
        tests=("tests/unit/policy/test_gate.py",),
    ),
    Mutant(
        row="formation",
        name="a pair the matrix does not name is open",
        invariant="whatever a ruleset does not open is closed",
        where="policy.ruleset:Ruleset.cell",
        fault=replaced("Cell.REFUSE", "Cell.ADMIT"),
        tests=one_test(_GATE, "test_a_pair_the_ruleset_does_not_name_is_refused"),
    ),
    Mutant(
        row="formation",
        name="the gate takes what is late",
        invariant="what was given up at the deadline is never admitted",
        where="policy.gate:Gate.decide",
        fault=replaced("facts.overdue", "facts.overdue and (not ruleset.matrix)"),
        tests=one_test(
            "tests/unit/proxy/withhold/test_withholding_in_flight.py",
            "test_what_is_undecided_at_the_deadline_is_refused_and_never_written",
        ),
    ),
    Mutant(
        row="formation",
        name="a hold is not outvoted by a later reject",
        invariant="a reject at any step decides, whatever was held before it",
        where="policy.gate:Gate.decide",
        fault=replaced("not finding.holds", "not finding.holds and held is None"),
        tests=one_test(
            _GATE, "test_a_later_reject_wins_over_an_earlier_hold_and_the_first_hold_is_told"
        ),
    ),
    Mutant(
        row="formation",
        name="an approval of other bytes counts",
        invariant="a confirmation is bound to the bytes that a person saw",
        where="policy.checks:_approved",
        fault=replaced("facts.approval.digest == facts.staged_digest", "True"),
        tests=one_test(_GATE, "test_a_confirmation_of_other_bytes_counts_for_nothing"),
    ),
    Mutant(
        row="formation",
        name="an approval passes what is refused",
        invariant="a person passes what was held and nothing that was refused",
        where="policy.gate:Gate.decide",
        fault=replaced("finding.holds and aim.confirmed", "aim.confirmed"),
        tests=one_test(
            _GATE, "test_a_confirmation_passes_what_was_held_and_nothing_that_was_refused"
        ),
    ),
    Mutant(
        row="a1",
        name="step 1 passes everything",
        invariant="a source writes only the classes it may (A1, A2)",
        where="policy.checks:source_class",
        fault=returned("None"),
        tests=one_test(_GATE, "test_each_attack_is_refused_by_its_step_and_lands_without_it"),
    ),
    Mutant(
        row="a2",
        name="step 2 passes everything",
        invariant="a checked pair is free of directive and injection language",
        where="policy.checks:language",
        fault=returned("None"),
        tests=one_test(_GATE, "test_flagged_language_in_a_checked_pair_is_refused_by_step_2"),
    ),
    Mutant(
        row="a2",
        name="the class floor is gone",
        invariant="text that gives directives is policy, whatever it is filed under",
        where="policy.labels.derive:effective_class",
        fault=replaced("more_powerful(asked, order) if reading.flagged else asked", "asked"),
        tests=one_test(
            "tests/unit/policy/labels/test_derive.py",
            "test_a_directive_raises_the_floor_whatever_the_target_and_never_lowers_it",
        ),
    ),
    Mutant(
        row="a2",
        name="a language is left out",
        invariant="orders are found in each language that is promised",
        where="policy.text.languages.__init__:",
        fault=replaced("(ENGLISH, GERMAN, ROMANCE)", "(ENGLISH, ROMANCE)"),
        tests=one_test(
            "tests/unit/policy/text/languages/test_languages.py",
            "test_every_language_of_its_own_has_enough_examples",
        ),
    ),
    Mutant(
        row="flood",
        name="step 9 passes everything",
        invariant="size, rate and quota are bounded",
        where="policy.checks:budgets",
        fault=returned("None"),
        tests=one_test(_GATE_STEPS, "test_a_candidate_over_its_budget_is_refused_by_step_9"),
    ),
    Mutant(
        row="sleeper",
        name="step 3 passes everything",
        invariant="an untrusted principal writes scratch and nothing else",
        where="policy.checks:trust_level",
        fault=returned("None"),
        tests=one_test(
            "tests/unit/policy/test_checks.py",
            "test_an_untrusted_principal_writes_scratch_and_nothing_else",
        ),
    ),
    Mutant(
        row="a3",
        name="step 6 passes everything",
        invariant="a class upgrade carries a token (A3)",
        where="policy.checks:promotion",
        fault=returned("None"),
        tests=one_test(_GATE, "test_each_attack_is_refused_by_its_step_and_lands_without_it"),
    ),
    Mutant(
        row="a3",
        name="a token outlives its time",
        invariant="a promotion token expires",
        where="policy.tokens:token_state",
        fault=replaced("stale or expired", "stale"),
        tests=(_TOKENS,),
    ),
    Mutant(
        row="a3",
        name="a token fits any text",
        invariant="a token is bound to one candidate's digest",
        where="policy.tokens:token_state",
        fault=replaced(
            "token.binding == binding_of(token.serial, context.digest)", "token.binding"
        ),
        tests=(_TOKENS,),
    ),
    Mutant(
        row="a3",
        name="a token is not spent",
        invariant="a promotion token is spent by the commit it admitted",
        where="storage.write.judge:Judge._admit",
        fault=replaced(
            "change.draft.put(TOKENS, self._names.token(submission.token_key), b'')",
            "self._names.token(submission.token_key)",
        ),
        tests=one_test(_WRITES, "test_a_promotion_token_is_spent_by_the_commit_it_admitted"),
    ),
    Mutant(
        row="a4",
        name="step 5 passes everything",
        invariant="a nonce is used once (A4)",
        where="policy.checks:nonce_uniqueness",
        fault=returned("None"),
        tests=one_test(_GATE, "test_each_attack_is_refused_by_its_step_and_lands_without_it"),
    ),
    Mutant(
        row="a4",
        name="a nonce is not recorded",
        invariant="a nonce is single-use, durably",
        where="storage.write.judge:Judge._close",
        fault=replaced("change.draft.write(NONCES, arrived.nonce_key, record)", "None"),
        tests=one_test(
            _WRITES, "test_retry_of_the_same_request_gets_the_first_verdict_and_writes_nothing"
        ),
    ),
    Mutant(
        row="a4",
        name="a replay is taken for a retry",
        invariant="the same nonce with anything changed is a replay",
        where="storage.write.fact_gatherer:FactGatherer.nonce_state",
        fault=replaced("record.binding == case.arrived.binding", "record.binding"),
        tests=one_test(
            _WRITES, "test_a_spent_nonce_with_anything_changed_is_a_replay_and_degrades"
        ),
    ),
    Mutant(
        row="a5",
        name="step 4 passes everything",
        invariant="what is judged is what was sent (A5)",
        where="policy.checks:digest_integrity",
        fault=returned("None"),
        tests=one_test(_GATE, "test_each_attack_is_refused_by_its_step_and_lands_without_it"),
    ),
    Mutant(
        row="a5",
        name="the gate believes the digest it is told",
        invariant="the digest is recomputed over the very candidate that is judged",
        where="policy.checks:digest_integrity",
        fault=replaced(
            "judged == facts.staged_digest == facts.intercept.digest",
            "facts.staged_digest == facts.intercept.digest",
        ),
        tests=one_test(
            _GATE, "test_the_gate_judges_the_bytes_it_was_given_not_those_it_was_told_of"
        ),
    ),
    Mutant(
        row="a5",
        name="what does not open is judged all the same",
        invariant="a value that does not open is decided by nobody",
        where="storage.staging.undecided:Undecided._opened_value",
        fault=replaced(
            "None if data is None else unpacked(data)",
            "None if value is None else unpacked(data or bytes(value))",
        ),
        tests=(
            "tests/fault/test_staging_altered.py",
            "tests/unit/storage/staging/test_staging.py",
        ),
    ),
    Mutant(
        row="a5",
        name="the speaker is not under the digest",
        invariant="every field of a candidate is under its digest",
        where="policy.canonical:canonical_bytes",
        fault=replaced(
            "_ENCODER.encode(candidate)",
            "_ENCODER.encode(msgspec.structs.replace(candidate, actor=None))",
        ),
        tests=one_test(
            "tests/property/test_gate_reference.py", "test_every_field_is_under_the_digest"
        ),
    ),
    Mutant(
        row="staged-row",
        name="step 7 passes everything",
        invariant="what nobody intercepted is not judged",
        where="policy.checks:audit_cross_check",
        fault=returned("None"),
        tests=one_test(
            _GATE_REFERENCE, "test_gate_agrees_with_the_reference_on_a_share_of_the_label_space"
        ),
    ),
    Mutant(
        row="staged-row",
        name="an intercept record of another tenant fits",
        invariant="the interceptor's record names candidate, principal, tenant and target",
        where="policy.checks:audit_cross_check",
        fault=replaced("record.tenant == candidate.tenant", "True"),
        tests=one_test(
            _GATE_STEPS, "test_an_intercept_record_of_anything_else_is_refused_by_step_7"
        ),
    ),
    Mutant(
        row="anchors",
        name="step 8 passes everything",
        invariant="no anchor is contradicted or outranked",
        where="policy.checks:cognitive_staging",
        fault=returned("None"),
        tests=one_test(
            _GATE_REFERENCE, "test_gate_agrees_with_the_reference_on_a_share_of_the_label_space"
        ),
    ),
)
