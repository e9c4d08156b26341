"""Faults in how an edit of a memory behind another server is judged."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_LABELS: Final = "policy/labels/derive.py"
_EDITING: Final = "policy/labels/editing.py"
_STANDING: Final = "storage/write/text_behind.py"
_SESSION: Final = "tests/unit/policy/labels/test_derive_session.py"
_EDITS: Final = "tests/unit/proxy/guard/test_local_edits.py"
_TEXTS: Final = "tests/unit/policy/labels/test_editing.py"
_STANDS: Final = "tests/unit/storage/write/test_text_behind.py"
_MADE: Final = "tests/unit/proxy/dialects/mcp/test_effects.py"
_AGAIN: Final = at(_SESSION, "test_class_and_text_are_read_again_and_the_stricter_rule_counts")
_FOLLOWS: Final = at(_SESSION, "test_an_edit_of_a_text_that_is_known_follows_the_class_that_it_has")
_ORDERS: Final = at(
    _EDITS, "test_what_a_person_made_an_order_stays_strict_whatever_it_is_filed_under"
)

EDITS: Final = (
    Mutant(
        name="an edit of what nobody knows follows containment",
        file=_LABELS,
        old="        known = edit is not None and stored is not None and edit.says_more\n",
        new="        known = stored is not None\n",
        invariant="containment needs a text that we saw being written",
        tests=(_FOLLOWS,),
    ),
    Mutant(
        name="an edit that only takes away is none",
        file=_EDITING,
        old="return not _words(self.after) <= _words(self.before)",
        new="return self.after != self.before",
        invariant="taking a text away is a deletion, whatever it is called",
        tests=(at(_TEXTS, "test_an_edit_after_which_no_word_is_new_is_a_removal"),),
    ),
    Mutant(
        name="the text at the decision is not looked at",
        file=_LABELS,
        old="    same = edit is not None and standing.mine and standing.text == edit.before\n",
        new="    same = edit is not None\n",
        invariant="evidence about one text says nothing of another",
        tests=(_AGAIN,),
    ),
    Mutant(
        name="the class at the decision is not looked at",
        file=_LABELS,
        old="    return provenance if rule is LabelRule.CONTAINMENT else tainted\n",
        new="    return provenance if same or rule is LabelRule.CONTAINMENT else tainted\n",
        invariant="of the rule then and the rule now the stricter counts",
        tests=(_AGAIN,),
    ),
    Mutant(
        name="an edit cleans what it goes into",
        file=_LABELS,
        old="    return lowered(provenance, edit.source, edit.ceiling)\n",
        new="    return provenance\n",
        invariant="a text is labelled no better than what it is made of",
        tests=(at(_SESSION, "test_an_edit_is_labelled_no_better_than_what_it_goes_into"),),
    ),
    Mutant(
        name="what nobody looked for is not brought in",
        file=_LABELS,
        old="    if edit is not None and (seen.brought is None or not seen.whole):\n",
        new="    if edit is not None and not seen.whole:\n",
        invariant="not to be found proves something only where it was looked for",
        tests=(
            at(
                _SESSION,
                "test_what_an_edit_leaves_alone_does_not_lower_it_and_what_it_brings_does",
            ),
        ),
    ),
    Mutant(
        name="the whole text is not read",
        file="proxy/intercept/interceptor.py",
        old="else read_beside(reading, edit.after)\n",
        new="else read_beside(reading, edit.before)\n",
        invariant="pieces that are no order do not add up to one",
        tests=(at(_EDITS, "test_pieces_that_are_no_order_do_not_add_up_to_one"),),
    ),
    Mutant(
        name="what is appended to is not read",
        file="storage/write/gathering.py",
        old="    return read_beside(reading, after)\n",
        new="    return reading\n",
        invariant="pieces that are no order do not add up to one",
        tests=(at(_EDITS, "test_nor_appended_ones"),),
    ),
    Mutant(
        name="a policy is written over by a new file",
        file="storage/write/gathering.py",
        old="    if candidate.change is ChangeKind.CREATE and not raised:\n",
        new="    if candidate.change is ChangeKind.CREATE:\n",
        invariant="what is replaced counts as much as what replaces it",
        tests=(_ORDERS,),
    ),
    Mutant(
        name="a changed word is looked for alone",
        file="proxy/ledger/evidence.py",
        old="        parts = (*(one.text for one in asked), looked.fresh)\n",
        new="        parts = tuple(one.text for one in asked)\n",
        invariant="a line that an edit makes a page's is the page's",
        tests=(at(_EDITS, "test_a_word_that_makes_a_page_s_line_of_a_note_is_the_page_s"),),
    ),
    Mutant(
        name="a common word is not new",
        file="policy/labels/containment.py",
        old="            or not runs.isdisjoint(other.runs)\n",
        new="            or not runs.isdisjoint(other.kept)\n",
        invariant="a line that an edit makes a page's is the page's",
        tests=(at(_EDITS, "test_a_word_that_makes_a_page_s_line_of_a_note_is_the_page_s"),),
    ),
    Mutant(
        name="what the model said again is a source",
        file="proxy/ledger/ring.py",
        old="                again = bool(kept.derived) and len(found) < AGAIN_MAX\n",
        new="                again = False\n",
        invariant="an agent may look at a note before it changes it",
        tests=(at(_EDITS, "test_it_may_look_at_the_note_before_it_changes_it"),),
    ),
    Mutant(
        name="behind what the model said nothing is looked for",
        file="proxy/ledger/ring.py",
        old="                    pending.append(kept.prints)\n",
        new="                    pending += []\n",
        invariant="a page in the model's own words is a page",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_ring_sessions.py",
                "test_behind_what_the_model_said_is_looked_for_what_it_was_made_of",
            ),
        ),
    ),
    Mutant(
        name="what waits for an answer is what is there",
        file=_STANDING,
        old="            mine=not self._waits and self._authors == {by},\n",
        new="            mine=self._authors == {by},\n",
        invariant="while an answer is out, nobody knows what the server has",
        tests=(at(_STANDS, "test_while_an_answer_is_out_the_text_is_nobody_s"),),
    ),
    Mutant(
        name="another agent's text is one's own",
        file=_STANDING,
        old="            mine=not self._waits and self._authors == {by},\n",
        new="            mine=not self._waits and bool(self._authors),\n",
        invariant="containment is for an agent's own memories",
        tests=(at(_STANDS, "test_the_text_of_two_writers_is_neither_s"),),
    ),
    Mutant(
        name="a deletion takes nothing away",
        file=_STANDING,
        old="        if gone or not whole or change is ChangeKind.DELETE",
        new="        if gone or not whole",
        more=(
            (
                "        if gone and whole and change is not ChangeKind.DELETE:\n",
                "        if (gone and whole) or change is ChangeKind.DELETE:\n",
            ),
        ),
        invariant="after a deletion nobody knows what is left",
        tests=(at(_STANDS, "test_after_a_deletion_nothing_is_known"),),
    ),
    Mutant(
        name="another spelling of a path is another file",
        file="proxy/dialects/mcp/calls.py",
        old="    if form is KeyForm.PATH:\n",
        new="    if not form:\n",
        invariant="what one file says is known under one key",
        tests=(at(_EDITS, "test_another_spelling_of_its_path_is_the_same_note"),),
    ),
    Mutant(
        name="two places are one",
        file=_EDITING,
        old=" if old and _places_of(before, old) == 1 else None\n",
        new=" if old and old in before else None\n",
        invariant="a replacement that servers do differently is known to nobody",
        tests=(at(_TEXTS, "test_the_text_after_a_call"),),
    ),
    Mutant(
        name="an argument that nobody knows changes nothing",
        file="proxy/dialects/mcp/calls.py",
        old="        effect=None if taking.strange else _effect(rule, taken),\n",
        new="        effect=_effect(rule, taken),\n",
        invariant="what a map does not say, nobody knows",
        tests=(at(_MADE, "test_what_a_map_does_not_say_nobody_knows"),),
    ),
    Mutant(
        name="a relay asks for whatever a dialect could",
        file="proxy/fronts/guard_socket.py",
        old="        require_store_request(operation)\n",
        new="",
        invariant="what crosses the gate's socket is checked as what a dialect decodes",
        tests=(
            at(
                "tests/integration/test_guard_socket.py",
                "test_nobody_but_the_guard_says_what_is_known_of_a_text",
            ),
        ),
    ),
    Mutant(
        name="a relay brings a person's words",
        file="proxy/guard/local.py",
        old="        if segment.kind.trust > SourceKind.TOOL_RESULT.trust:\n",
        new="        if False:\n",
        invariant="a relay brings what tools and servers say",
        tests=(
            at(
                "tests/integration/test_guard_socket.py", "test_a_relay_brings_no_words_of_a_person"
            ),
        ),
    ),
    Mutant(
        name="a relay names the person who approved",
        file="proxy/guard/store_requests.py",
        old='"target", "memory_class"}',
        new='"target", "memory_class", "approved_by"}',
        invariant="nobody but an operator's own request says that a person approved",
        tests=(
            at(
                "tests/integration/test_guard_socket.py",
                "test_an_operation_on_our_own_store_runs_as_the_peer",
            ),
        ),
    ),
    Mutant(
        name="anybody says what is known",
        file="proxy/guard/store_requests.py",
        old='"target", "memory_class"}',
        new='"target", "memory_class", "edit"}',
        invariant="what is known of a text is our own verdicts, and no client's word",
        tests=(
            at(
                "tests/integration/test_guard_socket.py",
                "test_nobody_but_the_guard_says_what_is_known_of_a_text",
            ),
        ),
    ),
)
