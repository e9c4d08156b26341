"""Faults in how texts are read that are to be withheld, and how replies are read by anybody."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_WORDS: Final = "policy/text/readings.py"
_DISGUISES: Final = at(
    "tests/unit/policy/withheld/test_matching.py", "test_what_somebody_reads_or_decodes_is_found"
)
_SPELLINGS: Final = at(
    "tests/unit/policy/withheld/test_matching.py",
    "test_eight_words_in_a_row_are_found_however_they_are_written",
)
_FILTER: Final = "proxy/dialects/model/replies_withheld.py"
_PLACES: Final = "tests/unit/proxy/dialects/model/test_replies_withheld_between.py"
_BETWEEN: Final = at(_PLACES, "test_what_comes_between_the_words_of_a_text_ends_nothing")
_BESIDE: Final = at(_PLACES, "test_nothing_stands_beside_a_call_or_under_a_seal")
_SWEPT: Final = "tests/unit/proxy/withhold/test_withholding_swept.py"
_BETWEEN_WORDS: Final = "a reply's text is read as its agent puts it together"
_ONE_READING: Final = "tests/unit/proxy/dialects/model/test_one_reading.py"
_FRAMES: Final = at(_ONE_READING, "test_no_frame_hides_a_call")
_ONE: Final = "whoever reads a reply finds the calls that were judged"
_READ: Final = "whatever somebody reads or decodes is read"
_LINEAR: Final = "twice the text takes twice the time"

REPLIES: Final = (
    Mutant(
        name="what is spelled out has no marks",
        file=_WORDS,
        old="    found = [text, unmarked(spelled)]\n",
        new="    found = [text, unmarked(text)]\n",
        invariant=_READ,
        tests=(_DISGUISES,),
    ),
    Mutant(
        name="a stray backslash takes a letter",
        file=_WORDS,
        old="        found += [stray, unmarked(stray)]\n",
        new="        found += []\n",
        invariant=_READ,
        tests=(_DISGUISES,),
    ),
    Mutant(
        name="halves of a letter are none",
        file=_WORDS,
        old="            text = _PAIR.sub(_paired, _ESCAPE.sub(_unescaped, text))\n",
        new="            text = _ESCAPE.sub(_unescaped, text)\n",
        invariant=_READ,
        tests=(_DISGUISES,),
    ),
    Mutant(
        name="base64 begins where its letters do",
        file=_WORDS,
        old="    for start in range(_QUANTUM):\n",
        new="    for start in range(1):\n",
        invariant=_READ,
        tests=(_DISGUISES,),
    ),
    Mutant(
        name="bytes that are no text have none in them",
        file=_WORDS,
        old="    if marked:\n",
        new="    if not data:\n",
        invariant=_READ,
        tests=(_DISGUISES,),
    ),
    Mutant(
        name="a number of any length is read",
        file=_WORDS,
        old='html.unescape(_BEYOND.sub("&#0", _ZEROS.sub("&#", text)))',
        new="html.unescape(text)",
        invariant="no text makes a check fail",
        tests=(_SPELLINGS,),
    ),
    Mutant(
        name="a word that a line end divides is two",
        file=_WORDS,
        old='        found.append(_DIVIDED.sub("", found[1]))\n',
        new="        found.append(found[1])\n",
        invariant=_READ,
        tests=(at("tests/unit/policy/text/test_readings.py", "test_what_a_text_is_to_its_reader"),),
    ),
    Mutant(
        name="cells that only count hide words",
        file="policy/text/repeating.py",
        old=" for cell, mark in fields if not _NUMBER.fullmatch(cell)])",
        new=" for cell, mark in fields])",
        invariant=_READ,
        tests=(_DISGUISES,),
    ),
    Mutant(
        name="what was decoded loses its commas",
        file="policy/text/repeating.py",
        old='f"{cell}{mark}" for cell, mark in fields',
        new='f"{cell} " for cell, mark in fields',
        invariant="what is said behind a mark is known again in every spelling",
        tests=(
            at(
                "tests/unit/policy/text/test_readings.py",
                "test_a_decoded_text_keeps_the_marks_behind_which_something_may_be_said_alone",
            ),
        ),
    ),
    Mutant(
        name="bytes of a mail are read in the plain text alone",
        file=_WORDS,
        old="    for source in dict.fromkeys((text, spelled)):\n        if _QUOTED",
        new="    for source in dict.fromkeys((text,)):\n        if _QUOTED",
        invariant=_READ,
        tests=(at("tests/unit/policy/text/test_readings.py", "test_what_a_text_is_to_its_reader"),),
    ),
    Mutant(
        name="an escape in letters that do not show is none",
        file=_WORDS,
        old="    if not text.isascii():\n        text = _TAGGED",
        new="    if text.isascii():\n        text = _TAGGED",
        invariant=_READ,
        tests=(at("tests/unit/policy/text/test_readings.py", "test_what_a_text_is_to_its_reader"),),
    ),
    Mutant(
        name="white space is looked at one by one",
        file="policy/withheld/flow.py",
        old='        return "" if waits and not atom.numbers else self._settle(over=False)\n',
        new="        return self._settle(over=False and waits)\n",
        invariant=_LINEAR,
        tests=(
            at(
                "tests/unit/policy/withheld/test_flow.py",
                "test_what_is_no_word_is_not_looked_at_behind_a_word_that_waits",
            ),
        ),
    ),
    Mutant(
        name="a pile of marks is put in order",
        file="policy/text/skeleton.py",
        old="        if height <= _PILE_MAX:\n",
        new="        if height <= len(text):\n",
        invariant=_LINEAR,
        tests=(
            at(
                "tests/unit/policy/text/test_skeleton.py",
                "test_a_pile_of_marks_takes_no_longer_than_as_many_letters",
            ),
        ),
    ),
    Mutant(
        name="a comment ends the text around it",
        file=_FILTER,
        old="            return [*(self._flush(()) if event.data == _DONE else ()), ",
        new="            return [*self._flush(()), ",
        invariant=_BETWEEN_WORDS,
        tests=(at(_PLACES, "test_what_comes_between_the_letters_of_a_word_ends_no_word"),),
    ),
    Mutant(
        name="a text that ended is forgotten",
        file="policy/withheld/flow.py",
        old="(number,)) for number in self._shown]\n",
        new="(number,)) for number in self._shown[:0]]\n",
        invariant=_BETWEEN_WORDS,
        tests=(_BETWEEN,),
    ),
    Mutant(
        name="what is named like a call is left to nobody",
        file=_FILTER,
        old='        called = text_of(value.get("type")) in _CALLS and self._decides(at)\n',
        new='        called = text_of(value.get("type")) in _CALLS and bool(at)\n',
        invariant="what nobody decides about is cut",
        tests=(_BESIDE,),
    ),
    Mutant(
        name="fields beside a chat's call pass",
        file=_FILTER,
        old='                    said[field] = self._called(given, (at, "delta", field))\n',
        new="                    said[field] = given\n",
        invariant="what nobody decides about is cut",
        tests=(_BESIDE,),
    ),
    Mutant(
        name="any text under a seal passes",
        file="proxy/dialects/model/withheld.py",
        old="        and _ADDRESS not in value\n        and _SPACE.search(value) is None\n",
        new="",
        invariant="a seal is no place for a text",
        tests=(
            _BESIDE,
            at(_SWEPT, "test_a_whole_reply_has_no_text_where_a_seal_should_be"),
        ),
    ),
    Mutant(
        name="arguments that are no object are not looked at",
        file="proxy/withhold/withholding.py",
        old="        given = call.unread if call.arguments is None else written(call.arguments)\n",
        new="        given = written(call.arguments)\n",
        invariant="no call brings what was refused",
        tests=(at(_SWEPT, "test_a_call_is_refused_for_what_its_agent_may_read"),),
    ),
    Mutant(
        name="a key that comes twice goes on",
        file="proxy/dialects/model/one_reading.py",
        old="    if made is body and not repeats(event.data, body):\n",
        new="    if made is body:\n",
        invariant=_ONE,
        tests=(_FRAMES,),
    ),
    Mutant(
        name="a key in capitals goes on",
        file="proxy/dialects/model/one_reading.py",
        old="        elif key in _KEYS or key.casefold() not in _KEYS:\n",
        new="        else:\n",
        invariant=_ONE,
        tests=(_FRAMES,),
    ),
    Mutant(
        name="each line of an event goes on",
        file="proxy/dialects/sse.py",
        old="    if odd or len(data) > 1:\n",
        new="    if odd:\n",
        invariant=_ONE,
        tests=(_FRAMES,),
    ),
    Mutant(
        name="a line's end of others goes on",
        file="proxy/dialects/sse.py",
        old="raw=_one_line(raw.translate(_BREAKS))",
        new="raw=_one_line(raw)",
        invariant=_ONE,
        tests=(_FRAMES,),
    ),
    Mutant(
        name="an event that only others read goes on",
        file="proxy/dialects/model/stream.py",
        old='        if "{" in event.data:\n',
        new='        if event.data.lstrip().startswith("{"):\n',
        invariant=_ONE,
        tests=(_FRAMES,),
    ),
    Mutant(
        name="pieces behind the end of a call go on",
        file="proxy/dialects/model/anthropic/stream.py",
        old='(b"" if _JSON_PIECE in object_of(body.get("delta")) else event.raw), ()\n',
        new="event.raw, ()\n",
        invariant=_ONE,
        tests=(_FRAMES,),
    ),
    Mutant(
        name="the end of a response may name another call",
        file="proxy/dialects/model/openai/responses_stream.py",
        old="        return any(call not in seen for call in read_reply(response).calls)\n",
        new="        return not seen and bool(read_reply(response).calls)\n",
        invariant=_ONE,
        tests=(_FRAMES,),
    ),
    Mutant(
        name="the events of a call may tell another one",
        file="proxy/dialects/model/openai/responses_stream.py",
        old="            if not _tell(events, item):\n",
        new="            if not events:\n",
        invariant=_ONE,
        tests=(_FRAMES,),
    ),
    Mutant(
        name="pieces of a call go on as they came",
        file="proxy/dialects/model/openai/chat_stream.py",
        old="        if choice.told_twice() and kept:\n",
        new="        if choice.refused and choice.told_twice() and kept:\n",
        invariant=_ONE,
        tests=(at(_ONE_READING, "test_what_goes_on_is_the_call_that_was_judged"),),
    ),
    Mutant(
        name="a reply fetched is JSON to us alone",
        file="proxy/model/stored_replies.py",
        old="            if _others_read(raw):\n",
        new="            if not raw:\n",
        invariant=_ONE,
        tests=("tests/unit/proxy/model/test_stored_replies.py",),
    ),
    Mutant(
        name="a whole reply with a key twice passes as it came",
        file="proxy/model/turn.py",
        old=' and body is came and not repeats(raw.decode("utf-8"), came)\n',
        new="\n",
        invariant="no call reaches the agent unjudged",
        tests=(
            at(
                "tests/integration/test_model_veto.py",
                "test_a_whole_reply_with_a_key_twice_brings_no_call_that_was_not_judged",
            ),
        ),
    ),
)
