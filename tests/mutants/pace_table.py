"""Faults by which one agent's body makes everybody else wait."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_INTERCEPTOR: Final = "proxy/intercept/interceptor.py"
_INTERCEPTED: Final = "tests/unit/proxy/intercept/test_interceptor.py"
_ONCE: Final = "tests/unit/proxy/ledger/test_once.py"
_PACE: Final = "tests/unit/proxy/seams/test_pace.py"
_SLICES: Final = "tests/unit/proxy/seams/test_slices.py"
_ENTERING: Final = "tests/unit/proxy/ledger/test_entering_in_slices.py"

PACE: Final = (
    Mutant(
        name="a long text is cut anew by everybody who asks",
        file="proxy/ledger/once.py",
        old="        self._known[call, text] = found\n",
        new="",
        invariant="the work of reading a request does not grow with what is asked of it",
        tests=(at(_ONCE, "test_no_long_text_is_cut_twice_for_one_request"),),
    ),
    Mutant(
        name="the texts of a request outlive it",
        file="proxy/ledger/once.py",
        old="        self._known = None\n\n    def sentences(",
        new="        _ = kind\n\n    def sentences(",
        invariant="no text of a request is kept where nobody asks for it",
        tests=(at(_ONCE, "test_nothing_is_remembered_outside_of_it_and_little_within"),),
    ),
    Mutant(
        name="every mention of a parent reads it again",
        file=_INTERCEPTOR,
        old="            known[memory_id] = ceiling\n",
        new="",
        invariant="no body makes us read one memory a thousand times",
        tests=(at(_INTERCEPTED, "test_a_batch_looks_each_parent_up_once_and_reads_no_text_of_it"),),
    ),
    Mutant(
        name="a batch keeps the loop until it is done",
        file=_INTERCEPTOR,
        old="        if not alone:\n            await self._out.pace.step(owner)\n",
        new="        _ = alone\n",
        invariant="nobody waits for all of another's batch",
        tests=(
            at(_INTERCEPTED, "test_a_batch_gives_way_between_its_items_and_one_alone_does_not"),
        ),
    ),
    Mutant(
        name="a large text is read on the loop",
        file="proxy/seams/pace.py",
        old="        if size <= LARGE:\n",
        new="        if size:\n",
        invariant="what takes long is done where it can be interrupted",
        tests=(at(_PACE, "test_what_is_large_is_done_on_another_thread"),),
    ),
    Mutant(
        name="every waiting request has its slice in each turn",
        file="proxy/seams/pace.py",
        old="                self._begin()\n                return\n",
        new="",
        invariant="all long work together gets one slice of each turn of the loop",
        tests=(at(_PACE, "test_work_of_all_gets_one_slice_of_each_turn_of_the_loop"),),
    ),
    Mutant(
        name="slices go to requests, not to principals",
        file="proxy/seams/pace.py",
        old="self._waiting.setdefault(owner, deque()).append(mine)",
        new="self._waiting.setdefault(str(id(mine)), deque()).append(mine)",
        invariant="a principal is one, however many requests it sends",
        tests=(at(_PACE, "test_who_has_little_to_do_does_not_wait_for_all_of_another"),),
    ),
    Mutant(
        name="a principal has as many threads' turns as requests",
        file="proxy/seams/pace.py",
        old="        async with lock:\n            return",
        new="        if lock:\n            return",
        invariant="a principal is one, however many requests it sends",
        tests=(at(_PACE, "test_a_principal_has_one_thing_on_the_thread_at_a_time"),),
    ),
    Mutant(
        name="a slice has no end",
        file="proxy/seams/pace.py",
        old="        return self._clock() - (self._began or 0.0) >= SLICE_S\n",
        new="        return self._clock() < 0 * SLICE_S\n",
        invariant="nobody of another tenant waits for more than slices",
        tests=(
            at(_SLICES, "test_others_go_on_after_each_slice_of_a_long_piece_of_work"),
            at(_ENTERING, "test_nobody_of_another_tenant_waits_for_more_than_slices"),
        ),
    ),
    Mutant(
        name="the sentences of a text are read without a rest",
        file="proxy/ledger/printing.py",
        old="        for sentence in resting(sentences):\n            if is_nobodys",
        new="        for sentence in sentences:\n            if is_nobodys",
        invariant="nobody of another tenant waits for more than slices",
        tests=(at(_ENTERING, "test_nobody_of_another_tenant_waits_for_more_than_slices"),),
    ),
    Mutant(
        name="in a tenant there is no order",
        file="proxy/ledger/sessions.py",
        old='in_turn(f"ledger:{tenant}", size, entering)',
        new='in_turn(f"ledger:{tenant}{id(entering)}", size, entering)',
        invariant="what came first in a tenant counts first",
        tests=(at(_ENTERING, "test_what_came_first_in_a_tenant_counts_first_however_long_it_is"),),
    ),
    Mutant(
        name="all tenants wait in one line",
        file="proxy/ledger/sessions.py",
        old='in_turn(f"ledger:{tenant}", size, entering)',
        new='in_turn(f"ledger:{tenant[:0]}", size, entering)',
        invariant="nobody of another tenant waits for more than slices",
        tests=(at(_ENTERING, "test_nobody_of_another_tenant_waits_for_more_than_slices"),),
    ),
    Mutant(
        name="who leaves takes a part of an entry with him",
        file="proxy/seams/pace.py",
        old="        if not work.begun and self._lines",
        new="        if self._lines",
        invariant="what was begun is finished",
        tests=(
            at(_SLICES, "test_what_was_begun_is_finished_and_what_was_not_never_begins"),
            at(_ENTERING, "test_a_client_that_leaves_half_way_leaves_all_of_an_entry"),
        ),
    ),
    Mutant(
        name="a part of an entry is written down",
        file="proxy/ledger/core.py",
        old="        (self._records if under_way is None else under_way).append(record)\n",
        new="        (self._records if under_way != 0 else under_way).append(record)\n",
        invariant="an entry is on the disk whole or not at all",
        tests=(at(_ENTERING, "test_a_client_that_leaves_half_way_leaves_all_of_an_entry"),),
    ),
    Mutant(
        name="records that somebody else writes are not waited for",
        file="proxy/ledger/sessions.py",
        old="        waits = self._taken_count != taken\n",
        new="        waits = self._taken_count < taken\n",
        invariant="a request goes on when what it brought is on the disk",
        tests=(at(_ENTERING, "test_records_that_somebody_else_wrote_meanwhile_are_waited_for"),),
    ),
    Mutant(
        name="what is too large is read all the same",
        file=_INTERCEPTOR,
        old="        if prepared.fits:\n            size",
        new="        if prepared:\n            size",
        invariant="sizes in bytes come before any reading",
        tests=(at(_INTERCEPTED, "test_what_is_too_large_is_refused_without_being_read"),),
    ),
    Mutant(
        name="an unread text is measured as it is",
        file=_INTERCEPTOR,
        old="        if prepared.fits:\n            return budget\n",
        new="        if budget:\n            return budget\n",
        invariant="what nobody read is not admitted, whatever rules come into force meanwhile",
        tests=(at(_INTERCEPTED, "test_an_unread_text_is_refused_under_wider_rules_as_well"),),
    ),
    Mutant(
        name="an answer repeats a text for each change of it",
        file=_INTERCEPTOR,
        old="        full = left < 0 and bool(told) and item.memory is not None\n",
        new="        full = left is None\n",
        invariant="no body of a megabyte asks for an answer of a hundred",
        tests=(at(_INTERCEPTED, "test_an_answer_does_not_repeat_one_text_a_thousand_times"),),
    ),
    Mutant(
        name="a write is one write, however long it is",
        file="proxy/intercept/budgets.py",
        old="    return 1 + size // BYTES_PER_WRITE\n",
        new="    return 1 + 0 * size\n",
        invariant="bytes count in the window of their principal",
        tests=(
            at("tests/unit/proxy/intercept/test_budgets.py", "test_bytes_count_in_the_window"),
            at(
                _INTERCEPTED,
                "test_bytes_that_a_change_leaves_as_they_are_count_in_the_window",
            ),
        ),
    ),
    Mutant(
        name="room in a window is not kept while a request is read",
        file="proxy/intercept/budgets.py",
        old="        self._account(principal_id).kept_count += count\n",
        new="",
        invariant="requests that are read side by side do not each find the room that is left",
        tests=(
            at(
                "tests/unit/proxy/intercept/test_budgets.py",
                "test_requests_that_are_read_side_by_side_do_not_both_find_the_room_that_is_left",
            ),
        ),
    ),
    Mutant(
        name="a long run is cut anywhere",
        file="policy/text/skeleton.py",
        old="        while end < len(run) and not _begins(run[end]):\n            end += 1\n",
        new="",
        invariant="a skeleton does not depend on where a run is cut",
        tests=(
            at(
                "tests/unit/policy/text/test_skeleton.py",
                "test_a_long_run_is_folded_in_pieces_as_it_is_in_one",
            ),
        ),
    ),
    Mutant(
        name="one sign unfolds into eighteen letters",
        file="policy/text/skeleton.py",
        old="_BEFORE = _TAGS | _SENTENCES\n",
        new="_BEFORE = _TAGS | {0: str(len(_SENTENCES))}\n",
        invariant="a skeleton is not many times as long as its text",
        tests=(
            at("tests/unit/policy/text/test_skeleton.py", "test_no_sign_unfolds_into_a_sentence"),
        ),
    ),
)
