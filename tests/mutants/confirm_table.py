"""Faults in asking a person in the conversation: who is asked, and what counts as an answer."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_REFUSED: Final = "tests/integration/test_confirm_refused.py"
_ASKED: Final = "tests/integration/test_confirm_in_conversation.py"
_CODES: Final = "tests/unit/proxy/model/test_codes.py"
_HISTORY: Final = "tests/unit/proxy/dialects/model/confirm/test_history.py"
_BLOCK: Final = "tests/unit/proxy/dialects/model/confirm/test_block.py"
_CANDIDATES: Final = "tests/unit/proxy/dialects/model/confirm/test_candidates.py"
_TERMINAL: Final = "tests/unit/proxy/cli/test_terminal.py"
_CALLED: Final = at(
    _REFUSED, "test_under_a_call_without_a_result_a_code_decides_nothing_and_is_not_used_up"
)
_NEVER: Final = at(_REFUSED, "test_no_answer_but_hers_in_its_place_decides")

CONFIRM: Final = (
    Mutant(
        name="nothing is shown of what nothing is drawn for",
        file="policy/text/visible.py",
        old="    return char in _UNDRAWN or unicodedata.category(char) in _HIDDEN\n",
        new="    return unicodedata.category(char) in _HIDDEN\n",
        invariant="a person sees all that she confirms",
        tests=(at(_BLOCK, "test_a_text_spelled_in_what_nothing_is_drawn_for_is_seen"),),
    ),
    Mutant(
        name="a text with invisible characters is asked about",
        file="proxy/dialects/model/confirm/candidates.py",
        old="        and not any(map(is_hidden, text))\n",
        new="",
        invariant="a person sees all that she confirms",
        tests=(at(_CANDIDATES, "test_everything_else_goes_to_the_page"),),
    ),
    Mutant(
        name="a terminal draws as nothing what is not spelled out",
        file="proxy/cli/terminal.py",
        old='        elif is_hidden(character) or character in "\\n\\t" or marks',
        new='        elif category in {"Cc", "Cf", "Cs", "Zl", "Zp"} or marks',
        invariant="a person sees all that she confirms",
        tests=(at(_TERMINAL, "test_nothing_a_terminal_acts_on_survives"),),
    ),
    Mutant(
        name="the second row of a quoted text has no margin",
        file="proxy/cli/terminal.py",
        old="        if cells + wide > room:\n",
        new="        if False:\n",
        invariant="a quoted text cannot pass for a command's own question",
        tests=(at(_TERMINAL, "test_no_row_of_a_block_begins_without_its_margin"),),
    ),
    Mutant(
        name="the names of a call say nothing",
        file="proxy/dialects/model/confirm/candidates.py",
        old="            pending.extend(part)\n            pending.extend(part.values())\n",
        new="            pending.extend(part.values())\n",
        invariant="a person sees all that she confirms",
        tests=(at(_CANDIDATES, "test_a_name_that_says_something_goes_to_the_page"),),
    ),
    Mutant(
        name="an agent with a shell is asked",
        file="proxy/dialects/model/confirm/may_ask.py",
        old="    if request.searches or not names <= set(tools):\n",
        new="    if request.searches or not tools:\n",
        invariant="no agent that could read a code or type an answer is asked",
        tests=(at(_REFUSED, "test_an_agent_that_ever_offered_another_tool_is_never_asked"),),
    ),
    Mutant(
        name="an agent that had a shell before is asked",
        file="proxy/model/codes.py",
        old="        return self._offered.get(session, False)\n",
        new="        return session in self._offered\n",
        invariant="no agent that could read a code or type an answer is asked",
        tests=(at(_REFUSED, "test_an_agent_that_ever_offered_another_tool_is_never_asked"),),
    ),
    Mutant(
        name="an answer counts in any conversation",
        file="proxy/model/codes.py",
        old="            if one is not None and one.session == session and now_ms < one.until_ms\n",
        new="            if one is not None and now_ms < one.until_ms\n",
        invariant="a code decides in the conversation that was asked",
        tests=(at(_CODES, "test_a_code_is_bound_to_principal_session_and_time"),),
    ),
    Mutant(
        name="a process under a call answers as the person",
        file="proxy/model/questioning.py",
        old="        elif self._sessions.is_under_a_call(principal_id):\n",
        new="        elif False:\n",
        invariant="while a call has no result a code decides nothing",
        tests=(_CALLED,),
    ),
    Mutant(
        name="an answer that came under a call uses up the person's own",
        file="proxy/model/questioning.py",
        old="not in {None, Outcomes.UNDER_A_CALL}:",
        new="is not None:",
        invariant="an answer under a call uses nothing up",
        tests=(_CALLED,),
    ),
    Mutant(
        name="an answer counts behind any turn",
        file="proxy/dialects/model/confirm/history.py",
        old="        before, self._before = self._before, None\n",
        new="        before = self._before\n",
        invariant="a code decides directly behind its question",
        tests=(at(_HISTORY, "test_an_answer_counts_only_directly_behind_the_question_and_alone"),),
    ),
    Mutant(
        name="a code decides again",
        file="proxy/model/codes.py",
        old="        for one in claimed:\n            del kept.open[one.code]\n",
        new="",
        invariant="a code decides once",
        tests=(at(_CODES, "test_a_code_is_good_for_one_decision"),),
    ),
    Mutant(
        name="a code that shows up elsewhere goes on deciding",
        file="proxy/model/codes.py",
        old="any(one.code in made for made in plain)",
        new="one.code in plain",
        invariant="a code that anybody else says is void",
        tests=(at(_CODES, "test_a_code_that_somebody_else_says_ends"), _NEVER),
    ),
    Mutant(
        name="codes are guessed without end",
        file="proxy/model/codes.py",
        old="        if kept.wrong[block] >= WRONG_MAX:\n",
        new="        if kept.wrong[block] < 0:\n",
        invariant="three wrong answers end a question",
        tests=(at(_CODES, "test_three_wrong_answers_end_a_question"),),
    ),
    Mutant(
        name="who mistypes a code is told nothing",
        file="proxy/model/questioning.py",
        old="            return Outcomes.NO_ANSWER\n",
        new="            return None\n",
        invariant="a mistyped answer is told so",
        tests=(at(_ASKED, "test_a_mistyped_answer_is_told_so_and_decides_nothing"),),
    ),
    Mutant(
        name="what became of an answer vanishes behind the gate's name",
        file="proxy/model/questioning.py",
        old="            return self._codes.told(principal_id, turn)\n",
        new=(
            "            told = self._codes.told(principal_id, turn)\n"
            "            return None if resembles(said) else told\n"
        ),
        invariant="a person is told what became of her answer",
        tests=(at(_ASKED, "test_what_became_of_an_answer_is_shown_whatever_the_model_says"),),
    ),
    Mutant(
        name="what the agent has to ask for again is told as stored",
        file="proxy/seams/delivery.py",
        old="    if target.startswith(_ASKED_AGAIN):\n        return Way.AGENT\n",
        new="",
        invariant="what is not written yet is not said to be stored",
        tests=(
            at(_ASKED, "test_she_is_asked_and_her_yes_alone_lets_it_in"),
            at(
                "tests/unit/proxy/seams/test_observations.py",
                "test_a_hold_that_only_the_agent_can_write_tells_it_when_to_ask_again",
            ),
        ),
    ),
    Mutant(
        name="what was told of a mistyped answer reaches the model",
        file="proxy/dialects/model/confirm/history.py",
        old="            self._answered = True\n            self.answer",
        new="            self.answer",
        invariant="the model reads nothing of what a person was told",
        tests=(at(_HISTORY, "test_what_was_told_of_a_mistyped_answer_goes_and_the_turn_stays"),),
    ),
    Mutant(
        name="a copy of a question is taken out wherever it stands",
        file="proxy/dialects/model/confirm/history.py",
        old="        if any(_is_model(object_of(one)) for one in self._turns[at + 1 : at + 2]):\n"
        "            return turn\n",
        new="",
        invariant="what only looks like a question stays",
        tests=(at(_HISTORY, "test_what_only_looks_like_it_stays"),),
    ),
)
