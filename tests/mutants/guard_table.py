"""Faults in guard mode: intents, results, pins, and what is withheld from answers."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_FORWARDING: Final = "tests/unit/storage/behind/test_intents.py"
_TOGETHER: Final = at(
    _FORWARDING,
    "test_outcomes_that_wait_together_are_one_commit_and_a_wrong_one_stops_no_other",
)
_GUARDING: Final = "tests/unit/proxy/guard/test_local.py"
_PROTOCOLS: Final = "tests/unit/proxy/guard/test_local_protocols.py"
_SIFTING: Final = "tests/unit/proxy/guard/test_sieve.py"
_CONFIRM: Final = "tests/integration/test_confirm_page.py"
_DIRECT: Final = "tests/integration/test_guard_direct.py"
_ASKED: Final = "tests/unit/proxy/guard/test_direct.py"
_FORGOTTEN: Final = "tests/unit/proxy/guard/test_forgotten.py"
_ENDED: Final = at(_FORGOTTEN, "test_what_ends_here_and_not_on_its_server_is_in_no_answer_again")
_CRASHES: Final = "tests/fault/test_forwarding_crashes.py"
_SETTLED: Final = at(_GUARDING, "test_what_the_server_said_decides_whether_a_memory_is_shown")
_ONCE: Final = at(_GUARDING, "test_a_released_item_is_given_to_one_relay_once")

GUARD: Final = (
    Mutant(
        name="a protocol that the policy does not know is guarded",
        file="proxy/guard/local.py",
        old="        if target_prefix not in PREFIXES:\n",
        new="        if not target_prefix:\n",
        invariant="what goes to a server behind is judged as that",
        tests=(at(_PROTOCOLS, "test_a_protocol_that_the_policy_does_not_know_gets_no_guard"),),
    ),
    Mutant(
        name="two tenants adopt under one nonce",
        file="proxy/guard/local.py",
        old='            said = f"{tenant}\\0{server}',
        new='            said = f"{server}',
        invariant="what one tenant took in keeps no other from it",
        tests=(
            at(
                "tests/unit/proxy/admin/test_adopting.py",
                "test_each_tenant_takes_in_what_a_shared_server_keeps",
            ),
        ),
    ),
    Mutant(
        name="servers of one name are one",
        file="proxy/guard/local.py",
        old="        return target_of(self._target_prefix, server)\n",
        new="        return target_of(PREFIXES[0], server)\n",
        invariant="only relays of its own server and tenant settle an item",
        tests=(at(_PROTOCOLS, "test_servers_of_one_name_and_two_protocols_are_two"),),
    ),
    Mutant(
        name="every relay gets a link that decides",
        file="proxy/admin/confirm_links.py",
        old="        return None if page is None or self._held(candidate_id) is None else page\n",
        new="        return self.link_of(candidate_id)\n",
        invariant="what the agent's key opens decides nothing in a person's place",
        tests=(
            at(
                "tests/integration/test_mcp_composed.py",
                "test_the_agent_s_key_cannot_confirm_what_it_wrote",
            ),
        ),
    ),
    Mutant(
        name="an intent is noted nowhere",
        file="storage/write/commit.py",
        old="        draft.put(FORWARDS, bytes.fromhex(row.candidate_id), encode(record))\n",
        new="        encode(record)\n",
        invariant="the intent is durable before anybody may send",
        tests=(at(_FORWARDING, "test_an_intent_without_a_result_is_still_one_after_a_restart"),),
    ),
    Mutant(
        name="an intent is shown",
        file="storage/write/commit.py",
        old="        if self.keyed and not self.judged.is_there:\n"
        "            return MemoryStatus.FORWARDING\n",
        new="",
        invariant="what another server does not have for sure is in no read",
        tests=(at(_GUARDING, "test_an_admitted_item_is_an_intent_that_no_read_shows"),),
    ),
    Mutant(
        name="what a server kept before counts as a call to send",
        file="storage/write/judging.py",
        old="            is_there=submission.candidate.principal_id == ADOPTS,\n",
        new="            is_there=False,\n",
        invariant="what a server kept before the gate is never sent to it",
        tests=("tests/unit/proxy/admin/test_adopting.py",),
    ),
    Mutant(
        name="a person vouches for a list",
        file="proxy/admin/adopting.py",
        old="        if asked.lift or len(asked.items) != 1:\n",
        new="        if asked.lift:\n",
        invariant="a person vouches for one item, after all of it was shown",
        tests=("tests/unit/proxy/admin/test_adopting.py",),
    ),
    Mutant(
        name="what the server exchanged before the yes is taken in",
        file="proxy/cli/adopt.py",
        old="        name, tool_map, listed = await _listed(context, asked)\n"
        "        item = _one_of(listed.items, digest_of_item(item), asked, name)\n",
        new="",
        invariant="the server still keeps what the person was shown",
        tests=(
            at(
                "tests/integration/test_cli_adopt.py",
                "test_what_the_server_exchanges_before_the_yes_is_noticed",
            ),
        ),
    ),
    Mutant(
        name="one odd item hides all that a server kept",
        file="proxy/dialects/mcp/kept_before.py",
        old="            unreadable += 1\n            continue\n",
        new="            raise\n",
        invariant="an item that cannot be a memory does not keep the others unlabelled",
        tests=("tests/unit/proxy/dialects/mcp/test_kept_before.py",),
    ),
    Mutant(
        name="an intent is in the catalogue",
        file="storage/derived/keeper.py",
        old="            if added.shown:\n",
        new="            if added:\n",
        invariant="what another server does not have for sure is in no count",
        tests=(at(_GUARDING, "test_an_admitted_item_is_an_intent_that_no_read_shows"),),
    ),
    Mutant(
        name="a settled item can be settled again",
        file="storage/behind/intents.py",
        old="            change.draft.delete(FORWARDS, place)\n",
        new="",
        invariant="the same answer twice is one leaf",
        tests=(_SETTLED,),
    ),
    Mutant(
        name="a lost answer is logged each time",
        file="storage/behind/intents.py",
        old="            if record.unknown:\n                return False\n",
        new="",
        invariant="the same answer twice is one leaf",
        tests=(_SETTLED,),
    ),
    Mutant(
        name="one outcome that nobody can record stops those beside it",
        file="storage/behind/intents.py",
        old="            if len(waiting) == 1:\n                return [error]\n",
        new="            if waiting:\n                return [error for _ in waiting]\n",
        invariant="an outcome is recorded whoever reports beside it",
        tests=(_TOGETHER,),
    ),
    Mutant(
        name="each outcome waits for a commit of its own",
        file="storage/write/writer.py",
        old="            self._run_parts([job for job in parts if job.together == work])\n",
        new="            for job in parts:\n                self._run_parts([job])\n",
        invariant="outcomes that wait together are one commit",
        tests=(_TOGETHER,),
    ),
    Mutant(
        name="a failed item becomes a memory",
        file="storage/behind/intents.py",
        old="        shown = done and not removal\n",
        new="        shown = not removal\n",
        invariant="what the server refused is no memory",
        tests=(_SETTLED,),
    ),
    Mutant(
        name="anybody settles",
        file="storage/behind/intents.py",
        old="(record.tenant, record.target) != (behind.tenant, behind.target)",
        new="not record.tenant",
        invariant="only relays of its own server and tenant settle an item",
        tests=(at(_GUARDING, "test_another_tenant_neither_settles_nor_learns"),),
    ),
    Mutant(
        name="a released item is given to everybody",
        file="storage/behind/intents.py",
        old="                if record is not None and not record.sent:\n",
        new="                if record is not None:\n",
        invariant="a released item is sent by one relay, once",
        tests=(_CRASHES,),
    ),
    Mutant(
        name="a claim is not written down",
        file="storage/behind/intents.py",
        old="                    change.draft.put(FORWARDS, key, encode(sent))\n",
        new="                    encode(sent)\n",
        invariant="what may have been sent is never sent again",
        tests=(_ONCE,),
    ),
    Mutant(
        name="what a person released counts as sent",
        file="storage/write/judging.py",
        old="            sent=docket.case.held is None,\n",
        new="            sent=True,\n",
        invariant="a released item reaches the server",
        tests=(_ONCE,),
    ),
    Mutant(
        name="a changed tool is approved",
        file="storage/values.py",
        old="set(self.approved) ^ set(self.seen)",
        new="set(self.approved) - set(self.approved)",
        invariant="tools that are not those approved are noticed",
        tests=(at(_GUARDING, "test_the_first_tools_are_approved_and_others_wait"),),
    ),
    Mutant(
        name="what is held is not withheld",
        file="proxy/guard/sieve.py",
        old="_WITHHELD: Final = frozenset({Stands.HELD, Stands.DENIED,",
        new="_WITHHELD: Final = frozenset({Stands.DENIED,",
        invariant="what waits for a person does not exist for the agent",
        tests=(at(_SIFTING, "test_only_what_stands_for_everybody_is_shown"),),
    ),
    Mutant(
        name="a held candidate is not followed",
        file="storage/behind/followed.py",
        old="                yield from self._held(view, leaf.candidate_id)\n",
        new="                return\n",
        invariant="what waits for a person does not exist for the agent",
        tests=(at(_GUARDING, "test_another_guard_of_the_store_learns_from_the_log"),),
    ),
    Mutant(
        name="a proposal hides a memory",
        file="proxy/guard/sieve.py",
        old="        acting = [one for one in self.withheld if one not in self.shown]\n",
        new="        acting = list(self.withheld)\n",
        invariant="a steered agent cannot hide a memory by proposing it again",
        tests=(at(_GUARDING, "test_proposing_a_shown_memory_again_does_not_hide_it"),),
    ),
    Mutant(
        name="the unseen is changed by anybody",
        file="policy/checks.py",
        old="    return Objection(Reason.PERSON_REQUIRED, holds=True)\n",
        new="    return None\n",
        invariant="what nobody saw being written is changed by a person only",
        tests=(at(_GUARDING, "test_what_nobody_saw_being_written_is_changed_by_a_person_only"),),
    ),
    Mutant(
        name="a containment lowers nothing",
        file="policy/labels/derive.py",
        old="        if origin.kind.trust < source.trust:\n",
        new="        if origin.kind.trust > 9:\n",
        invariant="a text is labelled no better than where it was seen",
        tests=(at(_GUARDING, "test_a_person_s_own_words_are_lowered_to_where_they_were_found"),),
    ),
    Mutant(
        name="a link is for any candidate",
        file="proxy/admin/confirm_links.py",
        old="        if bound != (held.candidate_id, held.memory_class):\n",
        new="        if bound == ():\n",
        invariant="a link decides the candidate that it was made for",
        tests=(at(_CONFIRM, "test_a_link_is_for_one_candidate_and_for_a_time"),),
    ),
    Mutant(
        name="a link is for ever",
        file="proxy/admin/confirm_links.py",
        old="        if confirmation.expires_at_ms <= self._out.now_ms():\n",
        new="        if confirmation.expires_at_ms <= 0:\n",
        invariant="a link is good for a quarter of an hour",
        tests=(at(_CONFIRM, "test_a_link_is_for_one_candidate_and_for_a_time"),),
    ),
    Mutant(
        name="a key decides without the code of a form",
        file="proxy/fronts/confirm_page.py",
        old='        self.confirming.check(form.get("code", ""), self._held(candidate_id))\n',
        new="        self._held(candidate_id)\n",
        invariant="what a foreign page makes a browser send decides nothing",
        tests=(at(_CONFIRM, "test_a_key_alone_decides_nothing"),),
    ),
    Mutant(
        name="an agent's key opens the page",
        file="proxy/fronts/confirm_page.py",
        old="operator_of(self.authenticator.require(key, incoming)).principal_id",
        new="self.authenticator.require(key, incoming).principal_id",
        invariant="what the agent's key opens, the agent could open",
        tests=(at(_CONFIRM, "test_a_key_that_is_no_operators_is_asked_for_again"),),
    ),
    Mutant(
        name="the page of one conversation shows every other",
        file="proxy/ledger/views.py",
        old="    kin = (one for one in sessions if state.root(one.session) == root)\n",
        new="    kin = sessions\n",
        invariant="a person decides on one conversation where she was told of one",
        tests=(at(_CONFIRM, "test_all_that_a_conversation_wrote_is_shown_and_nothing_of_others"),),
    ),
    Mutant(
        name="metadata that looks like a call is one",
        file="policy/labels/forwarded_call.py",
        old=" or not is_forwarded(candidate):\n",
        new=":\n",
        invariant="a person is shown all that would be stored",
        tests=(
            at(
                "tests/unit/policy/labels/test_forwarded_call.py",
                "test_metadata_that_looks_like_a_call_is_none_where_no_server_is_behind",
            ),
        ),
    ),
    Mutant(
        name="a client names a server behind as its target",
        file="proxy/intercept/interceptor.py",
        old="        if any(one.guarded_key is None and one.target",
        new="        if any(False and one.target",
        invariant="a person is shown all that would be stored",
        tests=(
            at(
                "tests/unit/proxy/intercept/test_interceptor.py",
                "test_only_a_relays_call_names_a_server_behind",
            ),
        ),
    ),
    Mutant(
        name="a candidate is shown as markup",
        file="proxy/fronts/confirm_page.py",
        old='    if char in "\\n\\t" or char.isascii():\n        return escape(char)\n',
        new='    if char in "\\n\\t" or char.isascii():\n        return char\n',
        invariant="nothing of a candidate acts on the page where a person reads it",
        tests=(at(_CONFIRM, "test_the_candidate_is_shown_as_text_and_nothing_in_it_acts"),),
    ),
    Mutant(
        name="who has a link for one is shown the way to all",
        file="proxy/fronts/confirm_page.py",
        old='            back = "" if by is None or incoming.head.path == CONFIRM else _BACK\n',
        new="            back = _BACK\n",
        invariant="a link is for one candidate",
        tests=(at(_CONFIRM, "test_who_has_the_link_remembers_it_once_and_the_relay_gets_it"),),
    ),
    Mutant(
        name="the gate's own relay is somebody else",
        file="proxy/compose/listening.py",
        old='            Peer(address=f"uid:{uid}", uid=uid),\n',
        new='            Peer(address=f"uid:{uid}", uid=uid + 1),\n',
        invariant="a relay is the same principal by whichever way it asks",
        tests=(at(_DIRECT, "test_both_ways_give_the_same_answers_to_the_same_principal"),),
    ),
    Mutant(
        name="the gate's own relay asks over the socket",
        file="proxy/cli/mcp.py",
        old="GuardClient(settings.state / SOCKET, direct=lambda: election.own)\n",
        new="GuardClient(settings.state / SOCKET)\n",
        invariant="what the gate's own process asks crosses no socket",
        tests=(at(_DIRECT, "test_a_wrapper_that_is_the_gate_asks_itself"),),
    ),
    Mutant(
        name="nobody hears that the gate's own relay stopped waiting",
        file="proxy/guard/direct.py",
        old="            departure.happen()\n",
        new="",
        invariant="what is admitted for nobody is not sent",
        tests=(
            at(_DIRECT, "test_what_is_admitted_for_a_relay_that_stopped_waiting_is_not_sent"),
            at(_ASKED, "test_whoever_stops_waiting_is_known_to_be_gone_and_the_work_goes_on"),
        ),
    ),
    Mutant(
        name="the gate's own relay asks without a bound",
        file="proxy/guard/direct.py",
        old="            if len(body) > bytes_max:\n",
        new="            if not body:\n",
        invariant="a question has the same bounds by whichever way it comes",
        tests=(at(_ASKED, "test_a_question_is_bounded_as_at_the_socket"),),
    ),
    Mutant(
        name="a gate that ends cuts off what it is asked",
        file="proxy/guard/direct.py",
        old="                    await asyncio.wait(self._running, timeout=self._drain_s)\n",
        new="                    pass\n",
        invariant="a gate that ends answers what runs",
        tests=(at(_ASKED, "test_a_gate_that_ends_answers_what_runs_and_takes_nothing_new"),),
    ),
    Mutant(
        name="an answer of the sieve outlives what took it back",
        file="proxy/guard/sieve.py",
        old="        self._generation = self._sifted.generation()\n\n    def holds_back",
        new="\n    def holds_back",
        invariant="what is refused, denied or quarantined is withheld from the next read on",
        tests=(
            at(_SIFTING, "test_no_answer_outlives_what_took_it_back"),
            at(_SIFTING, "test_what_remembers_answers_as_what_does_not"),
        ),
    ),
    Mutant(
        name="the sieve remembers without end",
        file="proxy/guard/sieve.py",
        old="        if len(self._answers) > SIFTED_MAX:\n",
        new="        if False:\n",
        invariant="what is remembered is bounded",
        tests=(at(_SIFTING, "test_what_remembers_answers_as_what_does_not"),),
    ),
    Mutant(
        name="the sieve judges unchanged items anew",
        file="proxy/guard/sieve.py",
        old="        if answer is None:\n",
        new="        if answer is None or digest:\n",
        invariant="a read of the same items is not judged again item by item",
        tests=(at(_SIFTING, "test_items_that_are_read_again_unchanged_are_not_judged_again"),),
    ),
    Mutant(
        name="an answer passes when one string of it may",
        file="proxy/dialects/mcp/results.py",
        old="            if not any(known.values()):\n",
        new="            if not all(known.values()):\n",
        invariant="all of an answer is asked for, and what is withheld is taken out",
        tests=("tests/unit/proxy/dialects/mcp/test_results.py",),
    ),
    Mutant(
        name="each question of a relay opens a connection",
        file="proxy/guard/client.py",
        old="keepalive_timeout=KEPT_S),\n",
        new="force_close=True),\n",
        invariant="questions of a relay share a connection",
        tests=(
            at(
                "tests/integration/test_guard_socket.py",
                "test_questions_of_a_relay_share_a_connection_and_find_the_next_gate",
            ),
        ),
    ),
    Mutant(
        name="whoever may ask the gate may ask for its place",
        file="proxy/fronts/guard_socket.py",
        old="                if self._hand_over is None or not self._is_own(incoming):\n",
        new="                if self._hand_over is None:\n",
        invariant="only a process of the gate's own uid takes its place",
        tests=(
            at(
                "tests/integration/test_guard_socket.py",
                "test_a_wrapper_gives_its_place_to_a_process_of_its_own_uid_alone",
            ),
        ),
    ),
    Mutant(
        name="a wrapper that handed its place over takes it again at once",
        file="proxy/guard/election.py",
        old=" and asyncio.get_running_loop().time() >= self._back_until_s:\n",
        new=":\n",
        invariant="a place that was asked for is left to whoever asked",
        tests=(
            at(
                "tests/unit/proxy/guard/test_election.py",
                "test_a_place_that_was_asked_for_is_left_to_whoever_asked",
            ),
        ),
    ),
    Mutant(
        name="a purge leaves no print of what an MCP server keeps",
        file="storage/write/commit.py",
        old="            forget_text(change, self.names, step, ordinal, row, hidden=hidden)\n",
        new="",
        invariant="what was purged is in no answer of its server again",
        tests=(_ENDED,),
    ),
    Mutant(
        name="a gate that starts knows no purged text",
        file="storage/behind/followed.py",
        old="            forgotten=tuple(forgotten_texts(view, self._names)),\n",
        new="",
        invariant="what was purged stays hidden after a restart",
        tests=(_ENDED,),
    ),
    Mutant(
        name="a gate that runs hears of no purged text",
        file="storage/behind/followed.py",
        old="                forgotten.extend(found)\n",
        new="",
        invariant="what was purged is in no answer of its server again",
        tests=(_ENDED,),
    ),
    Mutant(
        name="a gate that runs hears of the last of two endings alone",
        file="storage/behind/followed.py",
        old="            if row.leaf_index == index:\n",
        new="            if row.leaf_index >= index:\n",
        invariant="what was purged is in no answer of its server again",
        tests=(
            at(
                _FORGOTTEN,
                "test_what_is_deleted_and_purged_before_anybody_reads_is_in_no_answer_again",
            ),
        ),
    ),
    Mutant(
        name="an agent that says a hidden lie again opens its old copy",
        file="proxy/guard/forgotten_texts.py",
        old="                if by_person or entry.step is None or ordinal < entry.step:\n",
        new="                if by_person or entry.step is None or ordinal >= 0:\n",
        invariant="what was under quarantine is opened by a person alone",
        tests=(at(_FORGOTTEN, "test_what_was_hidden_is_opened_by_a_person_alone"),),
    ),
    Mutant(
        name="prints of purged texts lie open in the database",
        file="storage/tables/forgotten_texts.py",
        old='    sealed = nonce + AESGCM(names.seal("forgotten")).encrypt(nonce, record, key)\n',
        new="    sealed = nonce + record\n",
        invariant="who has the database file alone can test no guess of a purged text",
        more=(
            (
                "found = _DECODE(cipher.decrypt(sealed[:_NONCE_LEN], sealed[_NONCE_LEN:], key))",
                'found = _DECODE(sealed[_NONCE_LEN:] if cipher else b"")',
            ),
        ),
        tests=(at(_FORGOTTEN, "test_a_record_tells_nothing_without_the_stores_secret"),),
    ),
)
