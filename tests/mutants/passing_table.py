"""Faults in what passes the model front beside conversations."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_VECTORS: Final = "tests/unit/proxy/dialects/model/test_vectors.py"
_PASSING: Final = "tests/integration/test_model_passing.py"
_BODY: Final = at(
    _PASSING, "test_no_body_brings_a_refused_text_and_before_the_refusal_all_of_them_pass"
)
_ANSWER: Final = at(
    _PASSING, "test_no_answer_brings_a_refused_text_and_before_the_refusal_all_of_them_do"
)
_HEAD: Final = at(_PASSING, "test_no_path_query_or_header_brings_a_refused_text")

PASSING: Final = (
    Mutant(
        name="JSON of other routes goes on as it came",
        file="proxy/dialects/model/bodies.py",
        old="return write_body(vectors_back(sieve.sieved(bare_of_tokens(lean)), vectors))\n",
        new="return raw\n",
        invariant="a key sent twice hides nothing",
        tests=(_BODY,),
    ),
    Mutant(
        name="what is no text passes unread",
        file="proxy/dialects/model/bodies.py",
        old='        return raw.removeprefix(_BOM).decode("utf-8")\n',
        new='        return raw.decode("utf-8", "ignore")\n',
        invariant="what cannot be searched does not go on",
        tests=(_BODY,),
    ),
    Mutant(
        name="parts of a form may be coded",
        file="proxy/dialects/model/bodies.py",
        old="        if coding is not None and coding[1].strip().lower() not in _PLAIN_CODINGS:\n",
        new="        if coding is not None and not coding[1]:\n",
        invariant="what cannot be searched does not go on",
        tests=(_BODY,),
    ),
    Mutant(
        name="fields of a form are searched one by one",
        file="proxy/dialects/model/bodies.py",
        old='    yield "\\n".join(value for _, value in pairs)\n',
        new="    yield from (value for _, value in pairs)\n",
        invariant="no body of a request brings what was refused",
        tests=(_BODY,),
    ),
    Mutant(
        name="lines are searched one by one",
        file="proxy/dialects/model/bodies.py",
        old="    made = sieve.sieved(bare_of_tokens(values))\n",
        new="    made: Json = [sieve.sieved(one) for one in values]\n",
        invariant="a text does not run on from one line into the next",
        tests=(at(_PASSING, "test_lines_are_searched_together"),),
    ),
    Mutant(
        name="headers go upstream as they came",
        file="proxy/model/clearing.py",
        old="        return kept_headers(headers, self) if self.active else headers\n",
        new="        return headers\n",
        invariant="no header brings what was refused",
        tests=(_HEAD,),
    ),
    Mutant(
        name="a path or query is not looked at",
        file="proxy/model/clearing.py",
        old="        if self.active and target_carries(path, head.query, self):\n",
        new="        if self.active and target_carries(path, (), self):\n",
        invariant="no query brings what was refused",
        tests=(_HEAD,),
    ),
    Mutant(
        name="an answer goes back as it came",
        file="proxy/model/clearing.py",
        old="        return self._body(raw, content_type, _ANSWER)\n",
        new="        return raw\n",
        invariant="no answer brings what was refused",
        tests=(_ANSWER,),
    ),
    Mutant(
        name="a header of an answer goes back as it came",
        file="proxy/model/clearing.py",
        old="        return tuple(self.headers(dict(shown_headers(reply))).items())\n",
        new="        return shown_headers(reply)\n",
        invariant="no answer brings what was refused",
        tests=(_ANSWER,),
    ),
    Mutant(
        name="a completed text is no turn",
        file="proxy/model/routes.py",
        old='    ("completions",): COMPLETIONS,\n',
        new="",
        invariant="a route that asks a model is withheld both ways and labelled",
        tests=(
            at(
                _PASSING,
                "test_a_text_that_is_completed_is_withheld_both_ways_and_labelled_as_nobodys",
            ),
        ),
    ),
    Mutant(
        name="replies of a batch pass unjudged",
        file="proxy/model/stored_replies.py",
        old="        if not waiting:\n",
        new="        if reply:\n",
        invariant="no call reaches the agent unjudged",
        tests=(at(_PASSING, "test_a_call_that_comes_back_with_a_batch_is_judged"),),
    ),
    Mutant(
        name="what only names is blanked",
        file="proxy/dialects/model/withheld.py",
        old="        return value if named else spoken(value, where, leave, asks)\n",
        new="        return spoken(value, where, leave, asks)\n",
        invariant="who proposes a model's name cannot take it away",
        tests=(
            at(_PASSING, "test_a_version_or_a_model_is_not_taken_away_by_proposing_to_remember_it"),
        ),
    ),
    Mutant(
        name="other routes overtake a candidate in flight",
        file="proxy/fronts/model.py",
        old="                await clearing.settled()\n",
        new="",
        invariant="nothing goes on while a candidate of its principal is undecided",
        tests=(at(_PASSING, "test_no_route_overtakes_a_candidate_in_flight"),),
    ),
    Mutant(
        name="any string under the name is a vector",
        file="proxy/dialects/model/vectors.py",
        old="    if len(data) < 4 * _LEN_MIN or len(data) % 4:\n        return False\n",
        new="    return True\n",
        invariant="nothing that was refused passes beside a conversation",
        tests=(at(_VECTORS, "test_what_may_spell_a_text_is_no_vector"),),
    ),
    Mutant(
        name="a model's own numbers are a vector",
        file="proxy/dialects/model/vectors.py",
        old="({float}, {float, int})\n",
        new="({float}, {float, int}, {int})\n",
        invariant="nothing that was refused passes beside a conversation",
        tests=(at(_VECTORS, "test_what_may_spell_a_text_is_no_vector"),),
    ),
    Mutant(
        name="a reply that only others can read passes",
        file="proxy/model/stored_replies.py",
        old="            if begins and any(mark in line for mark in _MARKS):\n",
        new="            if not line:\n",
        invariant="no call reaches the agent unjudged",
        tests=("tests/unit/proxy/model/test_stored_replies.py",),
    ),
    Mutant(
        name="a body that nobody can walk is read",
        file="proxy/dialects/strict_json/tolerant.py",
        old="    check_depth(value, raw)\n    return value\n",
        new="    return value\n",
        invariant="what cannot be checked does not pass",
        tests=(
            at(
                "tests/unit/proxy/dialects/strict_json/test_tolerant.py",
                "test_what_is_nested_too_deeply_to_be_walked_is_not_read",
            ),
        ),
    ),
)
