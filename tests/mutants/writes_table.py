"""Faults in what a decision rests on: classes, readings of a text, trust, shares, anchors."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at, dropped, one_test, replaced, returned

_CHECKS: Final = "tests/unit/policy/test_checks.py"
_DERIVE: Final = "tests/unit/policy/labels/test_derive.py"
_INTERCEPTOR: Final = "tests/unit/proxy/intercept/test_interceptor.py"
_LANGUAGE: Final = "tests/unit/policy/text/test_language.py"
_SCREENING: Final = "tests/unit/proxy/aftermath/test_reply_checks.py"

WRITES: Final = (
    Mutant(
        row="more-trusted",
        name="a weaker source changes what a stronger one wrote",
        invariant="update and delete need a source at least as trusted as the stored label",
        where="policy.checks:_below_stored",
        fault=returned("None"),
        tests=(
            at(_CHECKS, "test_an_agent_waits_for_a_person_to_change_what_is_above_it"),
            at(
                "tests/integration/test_http_standing.py",
                "test_an_agent_changes_no_memory_of_who_is_more_trusted_by_any_route",
            ),
        ),
    ),
    Mutant(
        row="edit-removes",
        name="a policy is judged by the class its new text names",
        invariant="what is replaced counts as much as what replaces it",
        where="policy.checks:aim_of",
        fault=replaced("landing if stored is None else more_powerful(landing, stored)", "landing"),
        tests=("tests/property/test_gate_reference.py",),
    ),
    Mutant(
        row="summary",
        name="lineage is ignored",
        invariant="a derived memory takes the minimum of what it derives from",
        where="policy.labels.derive:with_lineage",
        fault=replaced(
            "lowered(provenance, SourceKind.UNKNOWN if lineage is None else lineage)", "provenance"
        ),
        tests=one_test(_DERIVE, "test_lineage_only_lowers"),
    ),
    Mutant(
        row="vouched",
        name="a person vouches for what was not shown",
        invariant="a label is raised for the version that a person read",
        where="storage.features.confirm_memory:ConfirmMemory.carry_out",
        fault=replaced("row.version != self.version", "row.version < self.version"),
        tests=one_test(
            "tests/unit/storage/features/test_vouching.py",
            "test_nobody_vouches_for_what_was_not_shown",
        ),
    ),
    Mutant(
        row="disguised",
        name="a client names a server behind as its target",
        invariant="a person is shown all that would be stored",
        where="proxy.intercept.interceptor:Interceptor._prepared",
        fault=replaced("one.guarded_key is None", "False"),
        tests=one_test(_INTERCEPTOR, "test_only_a_relays_call_names_a_server_behind"),
    ),
    Mutant(
        row="built-order",
        name="what is appended to is not read",
        invariant="pieces that are no order do not add up to one",
        where="storage.write.fact_gatherer:_with_the_rest",
        fault=replaced("read_beside(reading, after)", "reading"),
        tests=one_test("tests/unit/proxy/guard/test_local_edits.py", "test_nor_appended_ones"),
    ),
    Mutant(
        row="poisoned-key",
        name="what is put under the key of a hidden item stays hidden",
        invariant="one lie makes no key useless to others",
        where="storage.read.reader:EmbeddedReader.id_of",
        fault=replaced(
            "self._names.own(tenant, own_key, life + 1) if hidden else memory_id", "memory_id"
        ),
        tests=one_test(
            "tests/integration/test_langgraph_store.py",
            "test_what_is_put_under_the_key_of_a_hidden_item_is_shown",
        ),
    ),
    Mutant(
        row="spent-cases",
        name="a rule opens cases without an end",
        invariant="one rule sets off so many searches in a day, and no more",
        where="proxy.aftermath.rule_signals:RuleSignals.may_open",
        fault=replaced("len(day) >= most", "len(day) > 10 * most"),
        tests=one_test(
            "tests/unit/proxy/aftermath/test_rule_watch.py",
            "test_a_rule_opens_so_many_cases_a_day_and_no_more",
        ),
    ),
    Mutant(
        row="screened-beside",
        name="a lie in a memory's names is held against no anchor",
        invariant="no read shows a lie beside a text",
        where="proxy.withhold.judged_texts:judged_text",
        fault=replaced("names", "names[:0]"),
        tests=one_test(_SCREENING, "test_a_lie_beside_the_text_is_left_out_as_well"),
    ),
    Mutant(
        row="look-alikes",
        name="tag characters spell nothing",
        invariant="letters that only a model sees are read as what they say",
        where="policy.text.skeleton:_fold_run",
        fault=replaced("shown.translate(_BEFORE)", "shown"),
        tests=one_test(
            "tests/unit/policy/text/test_skeleton.py", "test_tag_characters_say_what_they_spell"
        ),
    ),
    Mutant(
        row="metadata",
        name="metadata is not read",
        invariant="words hidden in metadata are read like the text",
        where="policy.labels.derive:read_text",
        fault=replaced(
            "metadata_json is not None", "metadata_json is not None and (not metadata_json)"
        ),
        tests=(_LANGUAGE,),
    ),
    Mutant(
        row="set-apart",
        name="words with marks between them are no sentence",
        invariant="an order is an order however its words are set apart",
        where="policy.text.language:_spoken",
        fault=replaced("set_together(shape)", "shape"),
        tests=one_test(_LANGUAGE, "test_words_set_apart_by_marks_are_one_sentence"),
    ),
    Mutant(
        row="names",
        name="names are not read",
        invariant="words hidden in a name are read like the text",
        where="policy.labels.derive:read_candidate",
        fault=replaced("_language_of_name(name)", "Language.PLAIN"),
        tests=one_test(_DERIVE, "test_a_directive_in_a_name_is_read_like_one_in_the_text"),
    ),
    Mutant(
        row="anchors",
        name="metadata is not asked about anchors",
        invariant="what a recall shows is what step 8 asks about",
        where="proxy.intercept.shadow:Shadow.probe",
        fault=dropped("said.append(skeleton(lines_of(shown.metadata_json)))"),
        tests=one_test(
            "tests/integration/test_withheld_changes.py",
            "test_a_contradiction_carried_in_metadata_is_held",
        ),
    ),
    Mutant(
        row="heal",
        name="a search shows what it may not",
        invariant="what contradicts an anchor is in no search",
        where="storage.read.reader:EmbeddedReader._placing",
        fault=replaced("shows(memory)", "True"),
        tests=one_test(
            _SCREENING, "test_the_places_of_what_is_left_out_are_filled_by_the_next_ones"
        ),
    ),
    Mutant(
        row="locked-out",
        name="a class that a model names costs trust",
        invariant="no page can switch a principal's memory off through its model",
        where="policy.checks:_matrix_finding",
        fault=replaced(
            "StepObjection(Reason.SOURCE_CLASS_FORBIDDEN, structural=done)",
            "StepObjection(Reason.SOURCE_CLASS_FORBIDDEN, structural=True)",
        ),
        tests=one_test(
            "tests/unit/policy/test_checks.py",
            "test_a_forbidden_pair_moves_the_ladder_only_where_the_label_is_vouched_for",
        ),
    ),
    Mutant(
        row="sleeper",
        name="no forgetting",
        invariant="what a sleeper banked is forgotten",
        where="policy.trust.score:after_outcome",
        fault=replaced("scoring.forgetting", "1.0"),
        tests=one_test(
            "tests/unit/policy/trust/test_score.py",
            "test_a_sleeper_falls_below_a_threshold_within_as_many_bad_outcomes",
        ),
    ),
    Mutant(
        row="feedback",
        name="an agent's word opens a case",
        invariant="a steered agent convicts no honest memory",
        where="policy.after.matchers:",
        fault=replaced("frozenset(SignalKind) - {SignalKind.AGENT}", "frozenset(SignalKind)"),
        tests=one_test(
            "tests/unit/policy/after/test_attribution.py",
            "test_an_agents_word_opens_nothing_and_only_wrong_opens",
        ),
    ),
    Mutant(
        row="model-asked-again",
        name="a replay leaves nothing out",
        invariant="what was hidden since is never sent to a model again",
        where="proxy.model.model_replays:_once_more",
        fault=replaced("out", "()"),
        tests=one_test(
            "tests/integration/test_replayed_model.py",
            "test_what_a_model_was_asked_is_in_no_file_and_what_was_hidden_is_not_sent_again",
        ),
    ),
    Mutant(
        row="hostile-judges",
        name="a judge sees the gate's environment",
        invariant="a judge gets no credential",
        where="proxy.aftermath.judges:_run",
        fault=replaced("{}", "None"),
        tests=one_test(
            "tests/unit/proxy/aftermath/test_judges.py",
            "test_a_program_is_asked_on_its_input_and_told_nothing_else",
        ),
    ),
    Mutant(
        row="trust-lock",
        name="one bad outcome stops a newcomer",
        invariant="one outcome is no rate",
        where="policy.trust.score:known_score",
        fault=replaced("state.good + bad_count >= RATE_OUTCOMES_MIN", "bad_count"),
        tests=one_test(_CHECKS, "test_a_bad_soft_score_holds_and_a_good_one_opens_nothing"),
    ),
    Mutant(
        row="held-flood",
        name="the oldest hold makes room, whoever caused it",
        invariant="one origin cannot push out what another one waits for",
        where="storage.write.held_queue:HeldQueue.crowding",
        fault=replaced("(-counts[held[one].origin], held[one].leaf_index)", "held[one].leaf_index"),
        tests=one_test(
            "tests/unit/storage/write/test_held.py",
            "test_one_origin_cannot_keep_others_from_being_held",
        ),
    ),
    Mutant(
        row="flood",
        name="a write is one write, however long it is",
        invariant="bytes count in the window of their principal",
        where="proxy.intercept.budgets:sizes_of",
        fault=replaced("size // BYTES_PER_WRITE", "0 * size"),
        tests=(
            at("tests/unit/proxy/intercept/test_budgets.py", "test_bytes_count_in_the_window"),
            at(_INTERCEPTOR, "test_bytes_that_a_change_leaves_as_they_are_count_in_the_window"),
        ),
    ),
    Mutant(
        row="flood",
        name="size is believed, not measured",
        invariant="sizes are measured on the candidate itself",
        where="policy.checks:_is_over",
        fault=replaced("told > limit or text is None", "True"),
        tests=one_test(_CHECKS, "test_size_is_measured_in_bytes_on_the_candidate_itself"),
    ),
    Mutant(
        row="delete-flood",
        name="refusals of a full tenant go on for ever",
        invariant="refusals end where their leaves would be the flood",
        where="storage.tables.usage:Usage.no_room",
        fault=replaced("QuotaReached('the tenant has used up its share of the store')", "None"),
        tests=one_test(
            "tests/unit/storage/tables/test_usage.py",
            "test_one_tenant_fills_its_share_and_another_still_writes",
        ),
    ),
    Mutant(
        row="one-origin",
        name="one origin may fill a search",
        invariant="of five lies of one origin ten results show three",
        where="storage.read.exposure:places",
        fault=replaced("of_ten * -(-limit // 10)", "limit + of_ten"),
        tests=one_test(
            "tests/unit/storage/read/test_exposure.py",
            "test_of_five_lies_of_one_origin_ten_results_show_three_and_stay_ten",
        ),
    ),
    Mutant(
        row="labels",
        name="what a model extracted is its person's word",
        invariant="what a model makes of a conversation is no one's word",
        where="policy.labels.derive:_of_channel",
        fault=replaced("by_model or candidate.role not in _HERS", "candidate.role not in _HERS"),
        tests=one_test(
            "tests/unit/policy/labels/test_derive.py",
            "test_what_a_model_extracted_is_no_ones_word_under_a_persons_key_too",
        ),
    ),
    Mutant(
        row="labels",
        name="every role under a person's key is hers",
        invariant="a person's key vouches for what she says herself",
        where="policy.labels.derive:_of_channel",
        fault=replaced("candidate.role not in _HERS", "False"),
        tests=one_test(
            "tests/unit/policy/labels/test_derive.py",
            "test_a_persons_key_vouches_for_her_own_role_alone",
        ),
    ),
    Mutant(
        row="labels",
        name="what a ledger saw raises a label",
        invariant="nothing but a proof raises a label",
        where="policy.labels.derive:derive_provenance",
        fault=replaced("SourceKind.TOOL_RESULT", "SourceKind.USER_INPUT"),
        tests=one_test(
            "tests/unit/policy/labels/test_derive.py",
            "test_nothing_that_a_ledger_saw_raises_the_rank_of_a_label",
        ),
        quick=True,
    ),
    Mutant(
        row="more-trusted",
        name="a session that read a page removes what was there before",
        invariant="a removal by a session that had read waits",
        where="policy.checks:_removal_after_reading",
        fault=returned("None"),
        tests=one_test(
            "tests/unit/policy/test_checks.py",
            "test_a_removal_after_reading_waits_where_what_it_removes_was_written_without",
        ),
    ),
    Mutant(
        row="memory-files",
        name="an unproven write lands among the instructions",
        invariant="what a host reads as rules is written by a person",
        where="policy.checks:_instruction_place",
        fault=returned("None"),
        tests=one_test(
            "tests/unit/policy/test_checks.py",
            "test_an_unproven_write_into_a_place_of_instructions_waits",
        ),
    ),
)
