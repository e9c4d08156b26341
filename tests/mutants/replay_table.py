"""Faults where a model is asked again: what is kept for that, what is sent, what follows."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_REPLAYS: Final = "proxy/model/replaying.py"
_BLAMING: Final = "proxy/aftermath/blaming.py"
_KEPT: Final = "tests/unit/proxy/model/test_replaying.py"
_REPLAYED: Final = "tests/integration/test_replayed_model.py"
_UNASKED: Final = at(_REPLAYED, "test_a_model_that_cannot_be_asked_blames_nobody")
_TOKENS: Final = at(
    _REPLAYED, "test_what_a_model_is_asked_about_one_reply_costs_a_bounded_number_of_tokens"
)
_MISLED: Final = at(
    _REPLAYED, "test_who_misled_a_model_is_proposed_where_no_memory_says_what_is_wrong"
)
_HIDDEN: Final = at(
    _REPLAYED, "test_what_a_model_was_asked_is_in_no_file_and_what_was_hidden_is_not_sent_again"
)

REPLAY: Final = (
    Mutant(
        name="what a model says again hides memories",
        file=_BLAMING,
        old="            CaseMode.MODEL: True,\n",
        new="            CaseMode.MODEL: acts.rules_propose,\n",
        invariant="a model is evidence for a person, and convicts nobody",
        tests=(_MISLED,),
    ),
    Mutant(
        name="a model that is away counts as right",
        file=_REPLAYS,
        old="                if reply.status != _OK:\n                    return None\n",
        new='                if reply.status != _OK:\n                    return ("",)\n',
        invariant="what is not known blames nobody, and clears nobody",
        tests=(_UNASKED,),
    ),
    Mutant(
        name="a day of replays has no end",
        file=_REPLAYS,
        old="self._settings.day_asks_max - len(day))",
        new="self._settings.day_asks_max + len(day))",
        invariant="what replays spend in a day is bounded",
        more=(
            (
                "return min(self._settings.asks_max, self._settings.day_asks_max",
                "return max(self._settings.asks_max, self._settings.day_asks_max",
            ),
        ),
        tests=(_UNASKED,),
    ),
    Mutant(
        name="what a provider reports is no cost of a replay",
        file=_REPLAYS,
        old="cost = _tokens_of(answer) or ",
        new="cost = ",
        invariant="what replays about a reply cost is bounded",
        tests=(_TOKENS,),
    ),
    Mutant(
        name="a replay is begun that costs more than is left",
        file=_BLAMING,
        old='            elif self._models.affords(signal.tenant, signal.reply_id or ""):\n',
        new="            elif judge is not None:\n",
        invariant="what replays about a reply cost is bounded",
        tests=(_TOKENS,),
    ),
    Mutant(
        name="a replay leaves nothing out",
        file=_REPLAYS,
        old="leave, out=out, present=present)",
        new="leave, out=(), present=present)",
        invariant="what was hidden since is never sent to a model again",
        tests=(_HIDDEN,),
    ),
    Mutant(
        name="a text that two memories share goes with one of them",
        file="proxy/withhold/left_out.py",
        old="    for one in present:\n",
        new="    for one in present[:0]:\n",
        invariant="what a memory says that stays in stays in",
        tests=(
            at(
                "tests/unit/proxy/withhold/test_left_out.py",
                "test_what_a_memory_that_stays_says_too_stays",
            ),
        ),
    ),
    Mutant(
        name="a request waits in memory as it came",
        file=_REPLAYS,
        old="AESGCM(key).encrypt(nonce, _ENCODER.encode(request), None)",
        new="_ENCODER.encode(request)",
        invariant="what the interpreter leaves in freed memory cannot be read",
        tests=(at(_KEPT, "test_a_kept_request_is_encrypted_and_another_model_or_tenant_has_none"),),
    ),
    Mutant(
        name="a request is kept for ever",
        file=_REPLAYS,
        old="call_later(KEPT_S, self._forget, name)",
        new="call_later(KEPT_S + 3_600, self._forget, name)",
        invariant="what a model was asked is gone after an hour",
        tests=(at(_KEPT, "test_a_request_is_gone_when_its_time_is_over"),),
    ),
    Mutant(
        name="a tool that the provider runs is run again by a replay",
        file=_REPLAYS,
        old=' or any(map(_is_hosted, list_of(body.get("tools"))))\n',
        new="\n",
        invariant="a replay makes a model speak, and nothing else happen",
        tests=(at(_KEPT, "test_a_request_with_a_tool_that_the_provider_runs_is_not_kept"),),
    ),
    Mutant(
        name="the provider stores what a replay asks",
        file=_REPLAYS,
        old='        made["store"] = False\n',
        new="        pass\n",
        invariant="a replay leaves nothing behind",
        tests=(_MISLED,),
    ),
    Mutant(
        name="an ended incident leaves its request behind",
        file=_BLAMING,
        old='            self._models.forget(signal.tenant, signal.reply_id or "")\n',
        new="            pass\n",
        invariant="what a model was asked is gone with its incident",
        tests=(_MISLED,),
    ),
    Mutant(
        name="a memory that a model named is tried by rules alone",
        file="proxy/aftermath/trial.py",
        old="            gone = case.mode is CaseMode.MODEL\n",
        new="            gone = False\n",
        invariant="a failure whose material is gone counts as failed",
        tests=(_MISLED,),
    ),
)
