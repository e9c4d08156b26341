"""Faults in what counts as a person's own words, and in whose words the ledger takes for hers."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_OWN_WORDS: Final = "policy/text/own_words.py"
_ENDORSEMENT: Final = "policy/labels/endorsement.py"
_PRINTING: Final = "proxy/ledger/printing.py"
_READING: Final = "proxy/ledger/reading.py"
_OWN_WORDS_TESTS: Final = "tests/unit/policy/text/test_own_words.py"
_ENDORSEMENT_TESTS: Final = "tests/unit/policy/labels/test_endorsement.py"
_PASTED: Final = "tests/unit/proxy/ledger/test_pasted.py"
_NAMES: Final = at(
    _ENDORSEMENT_TESTS, "test_the_names_of_a_call_are_words_of_what_it_says_or_say_nothing"
)

ENDORSED: Final = (
    Mutant(
        name="what is pasted is her own",
        file=_OWN_WORDS,
        old="    if _PASTED.search(text) or _HEADED.match(rest):\n",
        new="    if _HEADED.match(rest):\n",
        invariant="what a person pastes she does not say",
        tests=(at(_OWN_WORDS_TESTS, "test_a_turn_with_anything_pasted_in_it_is_nobody_s_own"),),
    ),
    Mutant(
        name="whoever heads a line says it",
        file=_OWN_WORDS,
        old="    if _PASTED.search(text) or _HEADED.match(rest):\n",
        new="    if _PASTED.search(text):\n",
        invariant="what stands under somebody's name is not hers",
        tests=(at(_OWN_WORDS_TESTS, "test_a_turn_with_anything_pasted_in_it_is_nobody_s_own"),),
    ),
    Mutant(
        name="what is not seen is typed as well",
        file=_OWN_WORDS,
        old=" or _invisible(turn):\n",
        new=":\n",
        invariant="what is not seen was pasted",
        tests=(at(_OWN_WORDS_TESTS, "test_a_turn_with_anything_pasted_in_it_is_nobody_s_own"),),
    ),
    Mutant(
        name="an answer that points is a statement",
        file=_OWN_WORDS,
        old=" or _points(rest):\n",
        new=":\n",
        invariant='"Yes, always do that" says nothing that a person could have meant',
        tests=(at(_OWN_WORDS_TESTS, "test_an_answer_that_only_points_is_nobody_s_own"),),
    ),
    Mutant(
        name="a request may stand anywhere",
        file=_OWN_WORDS,
        old="        found = request.match(text)\n",
        new="        found = request.search(text)\n",
        invariant="only an explicit request at the beginning of a turn is one",
        tests=(at(_OWN_WORDS_TESTS, "test_only_an_explicit_request_at_the_beginning_is_one"),),
    ),
    Mutant(
        name="what is told of the user need not be told back",
        file=_OWN_WORDS,
        old="        return told if again == text and language.user not in text else None\n",
        new="        return told\n",
        invariant="what is told of the user says what she said, and nothing else",
        tests=(at(_OWN_WORDS_TESTS, "test_what_could_not_be_told_back_is_not_rewritten"),),
    ),
    Mutant(
        name="texts are compared as skeletons",
        file="policy/text/sentences.py",
        old='    return _SPACE.sub(" ", text.translate(_MARKS).lower())\n',
        new="    return skeleton(text)\n",
        invariant="a sign, a digit or a look-alike more makes another text",
        tests=(
            at(
                "tests/unit/policy/text/test_sentences.py",
                "test_a_sign_a_digit_or_an_invisible_letter_makes_another_text",
            ),
        ),
    ),
    Mutant(
        name="any three words are nobody's",
        file="policy/text/stems.py",
        old="    return len(words) <= NOBODYS_WORDS_MAX and are_common(words)\n",
        new="    return len(words) <= NOBODYS_WORDS_MAX\n",
        invariant="only words of every text are nobody's",
        tests=(
            at(
                "tests/unit/policy/text/test_stems.py",
                "test_three_words_of_every_text_are_nobody_s",
            ),
        ),
    ),
    Mutant(
        name="any turn is a person's until an operator says otherwise",
        file=_ENDORSEMENT,
        old="    return forms.asked if user_turns is None else (*forms.said, *forms.asked)\n",
        new="    return (*forms.said, *forms.asked)\n",
        invariant="until an operator says who types, only a request to remember counts",
        tests=(at(_ENDORSEMENT_TESTS, "test_who_types_decides_what_a_turn_endorses"),),
    ),
    Mutant(
        name="a program's turns are a person's",
        file=_ENDORSEMENT,
        old="    if user_turns is UserTurns.PROGRAM:\n        return ()\n",
        new="",
        invariant="what a program writes nobody said",
        tests=(at(_ENDORSEMENT_TESTS, "test_who_types_decides_what_a_turn_endorses"),),
    ),
    Mutant(
        name="one endorsed text endorses all",
        file="proxy/ledger/evidence.py",
        old="if wanted <= typed.whole]",
        new="if wanted & typed.whole]",
        invariant="every text of a candidate must be a whole turn of hers",
        tests=(at(_PASTED, "test_every_text_of_a_call_is_the_whole_turn"),),
    ),
    Mutant(
        name="what somebody else said first is hers",
        file=_READING,
        old="            if one in here or source(one) is not None:\n                return []\n",
        new="            if one in here:\n                return []\n",
        invariant="what a tool said first is no person's",
        tests=(at(_PASTED, "test_beside_a_quotation_nothing_of_a_turn_is_hers"),),
        more=(
            (
                "            else:\n                found.mixed = True\n",
                "",
            ),
        ),
    ),
    Mutant(
        name="what stands beside her words in one turn may say them first",
        file=_READING,
        old="            if one in here or source(one) is not None:\n                return []\n",
        new="            if source(one) is not None:\n                return []\n",
        invariant="what a host splices in beside her words is not hers",
        tests=(at(_PASTED, "test_a_reminder_beside_her_words_is_no_part_of_them"),),
    ),
    Mutant(
        name="behind a lead-in of hers what a tool said is hers",
        file=_PRINTING,
        old="            for one in (sentence, *tails):\n",
        new="            for one in (sentence,):\n",
        invariant="what a tool said first is no person's, whatever stands before it",
        tests=(at(_PASTED, "test_what_a_tool_said_first_is_not_hers"),),
    ),
    Mutant(
        name="what a model asked it did not say",
        file=_PRINTING,
        old='map(self.print, (plain, f"{plain}?")):',
        new="map(self.print, (one,)):",
        invariant="what a model has a person type is not hers",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_orders.py",
                "test_what_a_model_has_a_person_type_is_not_hers",
            ),
        ),
    ),
    Mutant(
        name="what is nearly a copy is hers",
        file=_READING,
        old="            else:\n                found.mixed = True\n",
        new="",
        invariant="what is nearly a copy is no person's",
        tests=(at(_PASTED, "test_what_is_nearly_a_copy_endorses_nothing"),),
    ),
    Mutant(
        name="a part of a turn is a turn",
        file=_READING,
        old="        if found.mixed or len(found.typed) > 1:\n",
        new="        if not found.typed:\n",
        invariant="a turn of several texts, or with a splice in it, endorses nothing",
        tests=(
            at(_PASTED, "test_a_turn_of_several_texts_or_with_a_splice_in_it_endorses_nothing"),
        ),
    ),
    Mutant(
        name="of several who speak the first is the person",
        file="proxy/ledger/evidence.py",
        old=" or len({typed.record.speaker for typed in session.typed}) > 1:\n",
        new=":\n",
        invariant="where several speak nobody can say whose words they are",
        tests=(at(_PASTED, "test_where_several_speak_nobody_s_words_are_taken"),),
    ),
    Mutant(
        name="a program's turn counts as vouched for",
        file=_READING,
        old="                    by_person=ground.user_turns is UserTurns.PERSON,\n",
        new="                    by_person=True,\n",
        invariant="only an operator vouches for a person",
        tests=(
            at(_PASTED, "test_an_operator_says_who_types_and_until_then_only_a_request_counts"),
        ),
    ),
    Mutant(
        name="names need not be said",
        file=_ENDORSEMENT,
        old='    if not wanted or "" in wanted or not _all_named(asked.names, wanted):\n',
        new='    if not wanted or "" in wanted:\n',
        invariant="a name is words of the sentences that it names",
        tests=(_NAMES,),
    ),
    Mutant(
        name="metadata is no part of what must be said",
        file=_ENDORSEMENT,
        old="        inside = _names_in(candidate.metadata_json)\n",
        new="        inside = []\n",
        invariant="metadata comes back with the text, and says something as well",
        tests=(at(_ENDORSEMENT_TESTS, "test_metadata_says_something_as_well"),),
    ),
    Mutant(
        name="whatever looks like a call is one",
        file=_ENDORSEMENT,
        old="    if labels is not None:\n",
        new="    labels = labels or ()\n    if call_of(candidate) is not None:\n",
        invariant="only what the guard has read is a call; metadata must be said otherwise",
        tests=(
            at(_ENDORSEMENT_TESTS, "test_what_only_looks_like_a_call_is_metadata_like_any_other"),
        ),
    ),
    Mutant(
        name="half of a denial is a name",
        file=_ENDORSEMENT,
        old="        most = NEGATED_RUN_MAX if NEGATING.search(sentence) else RUN_MAX\n",
        new="        most = RUN_MAX\n",
        invariant="of a sentence that negates no half is a name",
        tests=(at(_ENDORSEMENT_TESTS, "test_of_a_sentence_that_negates_no_half_is_a_name"),),
    ),
    Mutant(
        name="a pronoun only files",
        file=_ENDORSEMENT,
        old="[one and word not in PRONOUNS for one, word in zip(files, words, strict=True)]",
        new="files",
        invariant='"I hate" is no field of a memory',
        tests=(at(_ENDORSEMENT_TESTS, "test_metadata_says_something_as_well"),),
    ),
    Mutant(
        name="a number says nothing",
        file=_ENDORSEMENT,
        old="        elif value is not None and not (counted and _NUMBER.fullmatch(str(value))):\n",
        new="        elif value is not None and not _NUMBER.fullmatch(str(value)):\n",
        invariant="a number is a word, but where every store keeps one",
        tests=(at(_ENDORSEMENT_TESTS, "test_metadata_says_something_as_well"),),
    ),
    Mutant(
        name="the name of a field may be any word of hers",
        file=_ENDORSEMENT,
        old="            if not all(map(_says_nothing, fields)):\n                return None\n",
        new="            names += fields\n",
        invariant="a field and what stands in it make no sentence of their own",
        tests=(at(_ENDORSEMENT_TESTS, "test_metadata_says_something_as_well"),),
    ),
    Mutant(
        name="an id has room for a sentence without spaces",
        file=_ENDORSEMENT,
        old="        and SPEAKING.isdisjoint(words)\n",
        new="",
        invariant="where it is filed says nothing",
        tests=(
            at(
                _ENDORSEMENT_TESTS,
                "test_where_it_is_filed_need_not_be_said_but_has_no_room_for_a_sentence",
            ),
        ),
    ),
    Mutant(
        name="a role is nobody's words",
        file=_ENDORSEMENT,
        old="    addresses |= {candidate.actor, candidate.role}\n",
        new="    addresses |= {candidate.actor}\n",
        invariant="every name that a read gives back is asked for",
        tests=(
            at(
                _ENDORSEMENT_TESTS,
                "test_where_it_is_filed_need_not_be_said_but_has_no_room_for_a_sentence",
            ),
        ),
    ),
    Mutant(
        name="a candidate that says nothing is endorsed",
        file=_ENDORSEMENT,
        old='    if not wanted or "" in wanted or not',
        new="    if not",
        invariant="nothing is not something that a person said",
        tests=(_ENDORSEMENT_TESTS,),
    ),
    Mutant(
        name="an edit that takes away is endorsed by what it takes",
        file=_ENDORSEMENT,
        old="    if effect is None or effect.how is How.REPLACE:\n        return False\n",
        new="    if effect is None:\n        return False\n",
        invariant="a change of a part says what is left of the text as well",
        tests=(
            at(_ENDORSEMENT_TESTS, "test_a_change_of_a_part_or_that_takes_away_is_said_by_nobody"),
        ),
    ),
    Mutant(
        name="the system prompt washes what a summary sums up",
        file="proxy/ledger/requests.py",
        old="        if own is not None and own.trust < SourceKind.MODEL_INFERENCE.trust:\n",
        new="        if own is not None:\n",
        invariant="compaction washes no label",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_splices.py",
                "test_a_summary_is_not_washed_by_the_system_prompt_it_comes_with",
            ),
        ),
    ),
    Mutant(
        name="the last of two readings of a turn counts after a merger",
        file="proxy/ledger/state.py",
        old="            into.labels[digest] = (meet(there, label), root)\n",
        new="            into.labels[digest] = (label, root)\n",
        invariant="what joins two sessions raises nothing in either",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_joining.py",
                "test_of_two_readings_of_one_turn_the_lower_outlives_the_merger",
            ),
        ),
    ),
)
