"""Faults of the watch for drift: names that add up, and what of one origin a read shows."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_CELLS: Final = "storage/write/cells.py"
_EXPOSED: Final = "tests/unit/storage/read/test_exposure.py"
_EXPOSURE: Final = "storage/read/exposure.py"
_COUNTED: Final = "tests/unit/storage/write/test_cells.py"

DRIFT: Final = (
    Mutant(
        name="an address shows that a name is none",
        file="policy/text/names.py",
        old="known = outside is None or word in outside",
        new="known = True",
        invariant="a link in lower case frees no name from its cell",
        tests=(at(_COUNTED, "test_an_address_in_lower_case_frees_no_name"),),
    ),
    Mutant(
        name="a name's count never falls",
        file=_CELLS,
        old="count=max(0, cell.count - 1)",
        new="count=max(0, cell.count)",
        invariant="quarantine, deletion, purge, update and a person's word count a name down",
        tests=(at(_COUNTED, "test_what_ends_counts_down"),),
    ),
    Mutant(
        name="a memory's own end counts no name down",
        file=_CELLS,
        old="sum(end_ms <= now_ms for end_ms in self.ends_ms)",
        new="sum(end_ms <= 0 for end_ms in self.ends_ms)",
        invariant="a memory that ended by itself is counted no longer",
        tests=(at(_COUNTED, "test_what_ends_counts_down"),),
    ),
    Mutant(
        name="a confirmed text says its names",
        file=_CELLS,
        old="    return not is_low(row) and row.basis is not Basis.CONFIRMATION\n",
        new="    return not is_low(row)\n",
        invariant="only a person's own word exempts a name",
        tests=(at(_COUNTED, "test_only_a_persons_own_word_exempts_a_name"),),
    ),
    Mutant(
        name="anybody's word exempts a name",
        file=_CELLS,
        old="    return not is_low(row) and row.basis is not Basis.CONFIRMATION\n",
        new="    return row.basis is not Basis.CONFIRMATION\n",
        invariant="only a person's own word exempts a name",
        tests=(at(_COUNTED, "test_the_third_mention_raises_the_alarm_and_the_fourth_waits"),),
    ),
    Mutant(
        name="an evicted name begins at nothing",
        file=_CELLS,
        old="floor=max(tally.floor, cell.count)",
        new="floor=0",
        invariant="a flood of made-up names hides none",
        tests=(at(_COUNTED, "test_a_flood_of_made_up_names_hides_none"),),
    ),
    Mutant(
        name="a word that made room is still known",
        file=_CELLS,
        old="                known.discard(key[-_WORD_LEN:])\n",
        new="",
        invariant="what is remembered of words in lower case is in the table",
        tests=(
            at(
                _COUNTED,
                "test_of_words_in_lower_case_no_more_are_remembered_than_the_table_has",
            ),
        ),
    ),
    Mutant(
        name="a word is known before it is durable",
        file=_CELLS,
        old="        seen |= hashed\n",
        new="        known |= hashed\n",
        invariant="what is remembered of words in lower case is in the table",
        tests=(
            at(
                _COUNTED,
                "test_of_words_in_lower_case_no_more_are_remembered_than_the_table_has",
            ),
        ),
    ),
    Mutant(
        name="rows of before count names down",
        file=_CELLS,
        old="            if ordinal >= since:\n                self._lower(",
        new="            if ordinal >= 0:\n                self._lower(",
        invariant="what was never counted is not taken off",
        tests=(at(_COUNTED, "test_rows_of_before_there_were_cells_count_neither_up_nor_down"),),
    ),
    Mutant(
        name="a batch is counted at its end",
        file="storage/write/judging.py",
        old="        alarms = self.cells.settle(change)\n",
        new="        alarms: tuple[str, ...] = ()\n",
        invariant="each candidate is judged by the counts of those before it in its batch",
        tests=(at(_COUNTED, "test_one_batch_is_counted_candidate_by_candidate"),),
    ),
    Mutant(
        name="one origin may fill a search",
        file=_EXPOSURE,
        old="    return of_ten * -(-limit // 10)\n",
        new="    return limit + of_ten\n",
        invariant="of five lies of one origin ten results show three",
        tests=(
            at(_EXPOSED, "test_of_five_lies_of_one_origin_ten_results_show_three_and_stay_ten"),
        ),
    ),
    Mutant(
        name="what is over the cap is hidden",
        file="storage/read/reader.py",
        old="                self._fill(placed, view, tenant, where, left)\n",
        new="",
        invariant="the cap reorders, and hides nothing",
        tests=(at(_EXPOSED, "test_the_cap_reorders_and_hides_nothing"),),
    ),
    Mutant(
        name="near copies of two origins are two",
        file=_EXPOSURE,
        old="            for vector, copied in self._copies:\n",
        new="            for vector, copied in self._copies[:0]:\n",
        invariant="near copies count as one origin, whoever brought them",
        tests=(at(_EXPOSED, "test_near_copies_count_as_one_origin_whoever_brought_them"),),
    ),
    Mutant(
        name="accepting a name lifts its cap",
        file="storage/read/origins.py",
        old="cells.hashed(tenant, text) & alarmed.keys()",
        new="cells.hashed(tenant, text) & {one for one, known in alarmed.items() if not known}",
        invariant="accepting a name exempts it from holds, and from nothing else",
        tests=(
            at(
                _EXPOSED,
                "test_a_name_under_alarm_is_capped_whoever_brings_it_and_accepting_lifts_nothing",
            ),
        ),
    ),
    Mutant(
        name="a raised label is capped like before",
        file="storage/write/engine.py",
        old="        self.labels_raised += change.relabelled\n",
        new="",
        invariant="a label that a person raised is capped no longer",
        tests=(at(_EXPOSED, "test_a_label_that_a_person_raised_is_capped_no_longer"),),
    ),
    Mutant(
        name="a latched origin fills a search",
        file="storage/read/origins.py",
        old="            return trust is not None and trust.latched\n",
        new="            return False\n",
        invariant="of a latched origin each ten results show one",
        tests=(at(_EXPOSED, "test_a_latched_principal_or_tool_shows_one_and_no_more"),),
    ),
    Mutant(
        name="everybody waits where names are held",
        file="policy/checks.py",
        old="    held = facts.drift_alarms and ruleset.drift.names is Watch.HOLD\n",
        new="    held = ruleset.drift.names is Watch.HOLD\n",
        invariant="only a text that mentions a name under alarm waits for a drift alarm",
        tests=(
            at(
                "tests/unit/policy/test_gate_steps.py",
                "test_a_name_under_alarm_is_held_by_step_10_only_where_the_ruleset_holds",
            ),
        ),
    ),
)
