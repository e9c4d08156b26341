"""Faults in what counts as a person's own words, and in whose words the ledger takes for hers."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_SENTENCES: Final = "policy/text/sentences.py"
_WORDS: Final = "policy/text/sentence_words.py"
_ENDORSEMENT: Final = "policy/labels/endorsement.py"
_SENTENCE_TESTS: Final = "tests/unit/policy/text/test_sentences.py"
_ENDORSEMENT_TESTS: Final = "tests/unit/policy/labels/test_endorsement.py"
_NEVER_DROPS: Final = at(
    _SENTENCE_TESTS, "test_a_cut_never_drops_a_negation_a_condition_or_a_quotation"
)
_NAMES: Final = at(
    _ENDORSEMENT_TESTS, "test_the_names_of_a_call_are_words_of_what_it_says_or_say_nothing"
)

ENDORSED: Final = (
    Mutant(
        name="what leads to nothing is no part of a text",
        file=_SENTENCES,
        old="            self._found.append(_Sentence(f\"{over.rstrip(':')}:\", over))\n",
        new="            pass\n",
        invariant="every word of a text is asked for",
        tests=(at(_ENDORSEMENT_TESTS, "test_what_leads_to_nothing_has_to_be_said_as_well"),),
    ),
    Mutant(
        name="a heading over a heading is no part of a text",
        file=_SENTENCES,
        old='        over = f"{self._heading} " if self._unused else ""\n',
        new='        over = ""\n',
        invariant="every word of a text is asked for",
        tests=(at(_ENDORSEMENT_TESTS, "test_what_leads_to_nothing_has_to_be_said_as_well"),),
    ),
    Mutant(
        name="what stands over a heading is no part of a text",
        file=_SENTENCES,
        old="        if not led and not self._unused:\n",
        new="        if not led:\n",
        invariant="every word of a text is asked for",
        tests=(at(_ENDORSEMENT_TESTS, "test_what_leads_to_nothing_has_to_be_said_as_well"),),
    ),
    Mutant(
        name="a heading's quotation is any quotation",
        file=_SENTENCES,
        old="{self._held.restored(title)}",
        new="{title}",
        invariant="every word of a text is asked for",
        tests=(at(_ENDORSEMENT_TESTS, "test_a_quotation_in_a_heading_is_that_quotation"),),
    ),
    Mutant(
        name="what stands over a list is dropped",
        file=_SENTENCES,
        old="                    self._governing.append(bare)\n",
        new="                    pass\n",
        invariant="an item under 'these are false' is no statement by itself",
        tests=(_NEVER_DROPS,),
    ),
    Mutant(
        name="a quotation is cut",
        file="policy/text/quoting.py",
        old="            self._pieces.append(text[opening.start() : end])\n",
        new="            kept[-1] = text[at : opening.end()]\n            at = opening.end()\n"
        "            continue\n",
        invariant="what a person quotes she does not say",
        tests=(_NEVER_DROPS,),
    ),
    Mutant(
        name="what is taken back still endorses",
        file=_SENTENCES,
        old="            spoken.clear()\n",
        new="            pass\n",
        invariant="what a person takes back in the same breath she did not say",
        tests=(_NEVER_DROPS,),
    ),
    Mutant(
        name="any lead-in leaves a statement",
        file=_SENTENCES,
        old="        if NO_STATEMENT.match(sentence):\n            break\n",
        new="",
        invariant="behind a lead-in stands a whole statement, or it is not cut",
        tests=(at(_SENTENCE_TESTS, "test_half_a_sentence_is_no_statement"),),
    ),
    Mutant(
        name="sentences are endorsed as skeletons",
        file=_SENTENCES,
        old='    return _SPACE.sub(" ", text.translate(_MARKS).lower())\n',
        new="    return skeleton(text)\n",
        invariant="a sign, a digit or a look-alike more makes another sentence",
        tests=(
            at(
                _SENTENCE_TESTS,
                "test_a_sign_a_digit_or_an_invisible_letter_makes_another_sentence",
            ),
        ),
    ),
    Mutant(
        name="one endorsed sentence endorses all",
        file=_ENDORSEMENT,
        old="and wanted.sentences <= said.sentences",
        new="and bool(wanted.sentences & said.sentences)",
        invariant="every whole sentence must stand in the segment",
        tests=(_ENDORSEMENT_TESTS,),
    ),
    Mutant(
        name="names need not be said",
        file=_ENDORSEMENT,
        old="    if not stated or not _all_named(asked.names, stated):\n",
        new="    if not stated:\n",
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
        name="a candidate that says nothing is endorsed",
        file=_ENDORSEMENT,
        old="        bool(wanted.sentences) and wanted",
        new="        wanted",
        invariant="nothing is not something that a person said",
        tests=(_ENDORSEMENT_TESTS,),
        more=(
            ("        if not found:\n", "        if found is None:\n"),
            ("    if not stated or not _all", "    if not _all"),
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
        name="what a sentence depends on may be another one",
        file=_ENDORSEMENT,
        old="and wanted.pairs <= said.pairs",
        new="",
        invariant="a sentence that points back points at what it did",
        tests=(at(_ENDORSEMENT_TESTS, "test_a_sentence_that_points_back_points_at_what_it_did"),),
    ),
    Mutant(
        name="an edit that takes away is endorsed by what it takes",
        file=_ENDORSEMENT,
        old="effect.text < len(call.pieces):\n        return False\n",
        new="effect.text < len(call.pieces):\n        return True\n",
        invariant="a removal says nothing, so nobody can have said it",
        tests=(at(_ENDORSEMENT_TESTS, "test_a_change_that_takes_away_is_said_by_nobody"),),
    ),
    Mutant(
        name="what is taken back under a heading still endorses",
        file=_SENTENCES,
        old="        if RETRACTION.match(one.said):\n",
        new="        if RETRACTION.match(one.whole):\n",
        invariant="what a person takes back in the same breath she did not say",
        tests=(_NEVER_DROPS,),
    ),
    Mutant(
        name="a frame is over with its sentence",
        file=_SENTENCES,
        old="    if FRAME.match(said):\n        return True\n",
        new="",
        invariant="what is to be imagined, or translated, nobody states",
        tests=(_NEVER_DROPS,),
    ),
    Mutant(
        name="a list under a sentence with a full stop has nothing over it",
        file=_SENTENCES,
        old="                over.append(said)\n",
        new="                pass\n",
        invariant='an item under "These are false." is no statement by itself',
        tests=(_NEVER_DROPS,),
    ),
    Mutant(
        name="a symbol says nothing",
        file=_SENTENCES,
        old="        found = [one for one in self._found if not _SILENT.fullmatch(one.whole)]\n",
        new="        found = [one for one in self._found if _WORD.search(one.whole)]\n",
        invariant="every sign of a text is asked for",
        tests=(at(_SENTENCE_TESTS, "test_a_symbol_or_a_number_at_the_start_of_a_line_is_said"),),
    ),
    Mutant(
        name="any number at the start of a line only counts",
        file=_SENTENCES,
        old="        if number > 1 and number != self._counted + 1:\n            return False\n",
        new="",
        invariant="every word of a text is asked for",
        tests=(at(_SENTENCE_TESTS, "test_a_symbol_or_a_number_at_the_start_of_a_line_is_said"),),
    ),
    Mutant(
        name="a tag closes at the first of its name",
        file="policy/text/quoting.py",
        old="            depth += -1 if closes else 1\n",
        new="            depth = 0 if closes else 1\n",
        invariant="what a person quotes she does not say",
        tests=(_NEVER_DROPS,),
    ),
    Mutant(
        name="a heading makes a tool's sentence hers",
        file="proxy/ledger/reading.py",
        old="            for version in (said.said, *said.versions)\n",
        new="            for version in said.versions[:1]\n",
        invariant="what a tool said first is no person's, whatever stands over it",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_pasted.py",
                "test_what_a_tool_said_first_is_not_hers_under_a_heading_of_hers",
            ),
        ),
    ),
    Mutant(
        name="the system prompt washes what a summary sums up",
        file="proxy/ledger/requests.py",
        old="        if own is not None and own.trust < SourceKind.MODEL_INFERENCE.trust:\n",
        new="        if own is not None:\n",
        invariant="compaction under a new name washes no label",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_splices.py",
                "test_a_summary_under_another_name_is_not_washed_by_the_system_prompt",
            ),
        ),
    ),
    Mutant(
        name="a turn of a model that nobody saw takes a conversation from under its call",
        file="proxy/ledger/joining.py",
        old="    if known:\n        for _, root in known:",
        new="    if history.models:\n        for _, root in known:",
        invariant="a conversation that begins under a call is that call's",
        tests=(
            at(
                "tests/unit/proxy/ledger/test_joining.py",
                "test_a_turn_of_a_model_that_nobody_saw_makes_no_task_a_person_s_words",
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
