"""Faults in how wrong replies are looked at, and healed."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_CHECKED: Final = "tests/unit/proxy/aftermath/test_reply_checks.py"
_HEALING: Final = "tests/unit/proxy/model/test_healing.py"
_SCREENED: Final = "tests/unit/proxy/aftermath/test_screening.py"
_RECALL: Final = "tests/integration/test_heal_recall.py"
_PAROLED: Final = "tests/unit/proxy/aftermath/test_paroling.py"
_BLAMED: Final = "tests/unit/proxy/aftermath/test_blaming.py"
_BESIDE: Final = "test_no_answer_of_mem0s_tells_a_lie_beside_a_text_or_after_a_change"

HEAL: Final = (
    Mutant(
        name="a wrong reply opens a case without a memory that says the same",
        file="proxy/aftermath/reply_checks.py",
        old="        held = self._suspects(rules, reply.tenant, reply.memory_ids)\n",
        new="        held: dict[str, list[Memory]] = {one: [] for one in said}\n",
        invariant="what a model says of its own is looked for in no memory",
        tests=(at(_CHECKED, "test_a_wrong_reply_hides_the_memory_that_says_so"),),
    ),
    Mutant(
        name="the next request does not wait for the end of the case",
        file="proxy/aftermath/reply_checks.py",
        old="            await self._cases.over(case_id)\n        self._looked(reply, unsettled)\n",
        new="            del case_id\n        self._looked(reply, unsettled)\n",
        invariant="the request after a wrong reply is without the memory behind it",
        tests=(at(_CHECKED, "test_a_wrong_reply_hides_the_memory_that_says_so"),),
    ),
    Mutant(
        name="a wrong reply goes on before what made it wrong is hidden",
        file="proxy/aftermath/reply_checks.py",
        old="                    await self._cases.over(case_id)\n        except TimeoutError:\n",
        new="                    del case_id\n        except TimeoutError:\n",
        invariant="the model is asked again without the lie",
        tests=(at(_CHECKED, "test_what_made_a_reply_wrong_is_hidden_before_it_is_shown"),),
    ),
    Mutant(
        name="a reply whose memory is still shown counts as mended",
        file="proxy/aftermath/reply_checks.py",
        old="        if left:\n",
        new="        if not by_rule:\n",
        invariant="a model is asked again only where the lie is out of its request",
        tests=(at(_CHECKED, "test_a_reply_is_not_mended_while_its_memory_waits_for_a_person"),),
    ),
    Mutant(
        name="one principal fills the queue of replies",
        file="proxy/aftermath/reply_checks.py",
        old=" or unsettled.left_count >= REPLIES_OF_ONE_MAX:",
        new=":",
        invariant="one principal's replies leave room for those of others",
        tests=(at(_CHECKED, "test_one_principal_has_a_share_of_the_queue_and_drops_are_counted"),),
    ),
    Mutant(
        name="a slow search holds up each request after it",
        file="proxy/aftermath/reply_checks.py",
        old="                del self._unsettled[principal.principal_id]\n",
        new="                pass\n",
        invariant="a slow search holds up one request",
        tests=(at(_CHECKED, "test_a_slow_search_holds_up_one_request_and_no_other_principal"),),
    ),
    Mutant(
        name="a streamed reply behind a suspect passes as it comes",
        file="proxy/model/healing.py",
        old="        return isinstance(done, Failure) or done\n",
        new="        return isinstance(done, Failure)\n",
        invariant="a lie is in no byte of a stream that is healed",
        tests=(
            at(
                "tests/integration/test_heal_answer.py",
                "test_the_agent_gets_the_reply_without_the_lie",
            ),
        ),
    ),
    Mutant(
        name="a model that lies by itself is asked for ever",
        file="proxy/model/healing.py",
        old="        elif self.rounds >= ROUNDS_MAX:\n",
        new="        elif self.rounds < 0:\n",
        invariant="healing never loops",
        tests=(
            at(_HEALING, "test_after_five_rounds_the_last_reply_goes_on_and_a_person_is_asked"),
        ),
    ),
    Mutant(
        name="a reply that could not be looked at counts as right",
        file="proxy/model/healing.py",
        old='            await self.gives_up("unchecked")\n',
        new="            pass\n",
        invariant="a check that cannot run is a check that failed",
        tests=(at(_HEALING, "test_a_reply_that_nobody_could_look_at_is_marked"),),
    ),
    Mutant(
        name="a healed case stays healed although the reply is wrong",
        file="storage/cases.py",
        old="    CaseStep.HEALED: frozenset({CaseStep.NEEDS_PERSON, CaseStep.CLOSED}),\n",
        new="",
        invariant="what hiding did not put right is left to a person",
        tests=(at(_CHECKED, "test_a_case_whose_reply_stays_wrong_waits_for_a_person"),),
    ),
    Mutant(
        name="a reply that came too late stops the search for its cause",
        file="proxy/aftermath/blaming.py",
        old="        if case.step is CaseStep.HEALED:\n",
        new="        if case.under_way or case.step is CaseStep.HEALED:\n",
        invariant="a search that takes long is seen through",
        tests=(at(_CHECKED, "test_a_search_that_goes_on_is_not_left_to_a_person"),),
    ),
    Mutant(
        name="a tool that the provider runs is run again for a second reply",
        file="proxy/model/healing.py",
        old="    if reply.ran_tools or prepared.request.searches:\n",
        new="    if prepared.request.searches:\n",
        invariant="healing makes nothing happen twice",
        tests=(
            at(
                _HEALING,
                "test_a_reply_for_which_the_provider_ran_a_tool_is_not_asked_for_again",
            ),
        ),
    ),
    Mutant(
        name="each repeated request opens a case of its own",
        file="proxy/aftermath/reply_checks.py",
        old="            if known:\n",
        new="            if not known and known:\n",
        invariant="a repeated request uses up no more of an anchor's day than the first",
        tests=(at(_CHECKED, "test_a_repeated_request_uses_up_no_more_of_an_anchors_day"),),
    ),
    Mutant(
        name="what is only written uses up the day in which replies are healed",
        file="proxy/aftermath/reply_checks.py",
        old="writer_with_room(reply.tenant, rule_id, memories, of_reply=True)",
        new="writer_with_room(reply.tenant, rule_id, memories)",
        invariant="nobody's writes keep a reply from being healed",
        tests=(at(_CHECKED, "test_lies_that_are_read_use_up_no_day_of_the_replies"),),
    ),
    Mutant(
        name="a reply is known by its id alone",
        file="proxy/aftermath/reply_checks.py",
        old="blake2b(msgspec.msgpack.encode(reply), digest_size=16)",
        new="blake2b(reply.reply_id.encode(), digest_size=16)",
        invariant="a reply with an id that was given before is looked at as well",
        tests=(at(_CHECKED, "test_an_id_that_is_given_twice_covers_no_second_reply"),),
    ),
    Mutant(
        name="a reply whose check failed counts as looked at",
        file="proxy/aftermath/reply_checks.py",
        old="        told = await self._verdict(reply, note)\n",
        new="        self._looked_at[_mark_of(reply)] = None\n"
        "        told = await self._verdict(reply, note)\n",
        invariant="a check that cannot run is a check that failed",
        tests=(at(_CHECKED, "test_a_reply_whose_check_failed_is_looked_at_when_it_was_shown"),),
    ),
    Mutant(
        name="an item that came back is out of reach behind a deleted one",
        file="storage/read/reader.py",
        old="        return shown or newest\n",
        new="        return newest\n",
        invariant="what a key's owner is shown, she can read and delete by the key",
        tests=(
            at(
                "tests/integration/test_langgraph_store.py",
                "test_what_is_put_under_the_key_of_a_hidden_item_is_shown",
            ),
        ),
    ),
    Mutant(
        name="what is put under the key of a hidden item stays hidden",
        file="storage/read/reader.py",
        old="self._names.own(tenant, own_key, life + 1) if hidden else memory_id\n",
        new="memory_id\n",
        invariant="one lie makes no key useless to others",
        tests=(
            at(
                "tests/integration/test_langgraph_store.py",
                "test_what_is_put_under_the_key_of_a_hidden_item_is_shown",
            ),
        ),
    ),
    Mutant(
        name="a lie in a memory's names is held against no anchor",
        file="proxy/aftermath/rule_signals.py",
        old="for one in names if one)))\n",
        new="for one in names[:0] if one)))\n",
        invariant="no read shows a lie beside a text",
        tests=(at(_SCREENED, "test_a_lie_beside_the_text_is_left_out_as_well"),),
    ),
    Mutant(
        name="a deleted step tells a lie in its names",
        file="proxy/aftermath/screening.py",
        old="            and one.version not in beside\n",
        new="",
        invariant="a history tells no lie beside a text",
        tests=(at(_SCREENED, "test_a_deleted_step_does_not_tell_a_lie_in_its_names"),),
    ),
    Mutant(
        name="the answer to a change tells a text that no read shows",
        file="proxy/intercept/operations.py",
        old="            told.append(item if shows else replace(item, memory=None))\n",
        new="            told.append(item)\n",
        invariant="no answer tells a lie, that to a write included",
        tests=(at(_RECALL, _BESIDE),),
    ),
    Mutant(
        name="ids are listed whatever they say",
        file="proxy/intercept/operations.py",
        old="    return tuple(one for one in entities if screen.shows_name(one.name))\n",
        new="    return entities\n",
        invariant="no list of ids tells a lie",
        tests=(at(_RECALL, _BESIDE),),
    ),
    Mutant(
        name="the anchor of one tenant makes the rules of all load anew",
        file="proxy/aftermath/screening.py",
        old="(known.anchors is not anchors and known.anchors != anchors)",
        new="known.anchors is not anchors",
        invariant="the rules of a tenant stay until its own anchors change",
        tests=(
            at(_SCREENED, "test_the_rules_of_many_tenants_stay_until_their_own_anchors_change"),
        ),
    ),
    Mutant(
        name="tenants share verdicts",
        file="proxy/aftermath/screening.py",
        old="        self._mark = object()\n",
        new="        self._mark = None\n",
        invariant="a verdict counts for the anchors that it was found by",
        tests=(at(_SCREENED, "test_two_tenants_share_no_verdict"),),
    ),
    Mutant(
        name="who wrote a memory reads its probation to the end",
        file="proxy/aftermath/paroling.py",
        old="    return recall.principal_id not in one.writers\n",
        new="    return True\n",
        invariant="a probation ends by what others were shown",
        tests=(at(_PAROLED, "test_a_probation_ends_after_thirty_days_or_fifty_recalls"),),
    ),
    Mutant(
        name="the sidecar's own searches end a probation",
        file="proxy/aftermath/paroling.py",
        old="recall.front == CANARY_FRONT or recall.principal_id.startswith(OWN_PRINCIPALS)",
        new="not recall.front",
        invariant="a probation ends by what others were shown",
        tests=(at(_PAROLED, "test_a_probation_ends_after_thirty_days_or_fifty_recalls"),),
    ),
    Mutant(
        name="a trial looks at the newest writer of a memory alone",
        file="proxy/aftermath/trial.py",
        old="for one in hidden.writers}\n",
        new="for one in {hidden.memory.principal_id}}\n",
        invariant="the least trusted writer of a memory counts",
        tests=(at(_PAROLED, "test_the_least_trusted_writer_of_a_memory_counts"),),
    ),
    Mutant(
        name="a step back shows a text that the same words convict",
        file="storage/write/following.py",
        old="    return text != said and (fit is None or text in fit)\n",
        new="    return text != said\n",
        invariant="what comes back was judged by the same rules",
        tests=(at(_BLAMED, "test_a_step_back_shows_no_text_that_the_same_words_convict"),),
    ),
    Mutant(
        name="one writer uses up the day of a rule",
        file="proxy/aftermath/rule_signals.py",
        old="            counts.append(((tenant, rule_id, writer, of_reply), WRITER_DAY_MAX))\n",
        new="            pass\n",
        invariant="a rule's day has room for the lies of others",
        tests=(
            at(
                "tests/unit/proxy/aftermath/test_rule_watch.py",
                "test_one_writer_leaves_room_in_a_rules_day_for_others",
            ),
        ),
    ),
    Mutant(
        name="an event that Sentry took is sent again with a refused one",
        file="proxy/reporting/sentry.py",
        old="            if event.event_id in self._taken:\n                continue\n",
        new="",
        invariant="a refused event repeats no other",
        tests=(
            at(
                "tests/unit/proxy/reporting/test_sentry.py",
                "test_an_event_that_was_taken_is_not_sent_again_because_a_later_one_was_refused",
            ),
        ),
    ),
)
