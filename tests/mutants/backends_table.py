"""Faults of guard mode in front of memory servers that speak HTTP."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_BEHIND: Final = "proxy/fronts/backend_behind.py"
_FRONT: Final = "proxy/fronts/backend.py"
_READS: Final = "proxy/fronts/backend_reads.py"
_WRITES: Final = "proxy/fronts/backend_writes.py"
_UPSTREAM: Final = "proxy/transport/upstream.py"
_KEYED: Final = "proxy/guard/keyed.py"
_TEST: Final = "tests/integration/test_backend_store.py"
_PLACES: Final = "tests/integration/test_backend_chroma_places.py"
_TURNS: Final = "tests/integration/test_backend_turns.py"
_PURGE: Final = "tests/integration/test_backend_purge.py"
_CLOSED: Final = "tests/unit/storage/behind/test_closed_keys.py"
_ANSWERS: Final = "tests/integration/test_backend_answers.py"
_AGAIN: Final = at(_ANSWERS, "test_an_answer_is_looked_through_again_once_anything_hides_or_shows")
_SHUT: Final = at(_ANSWERS, "test_an_answer_is_looked_through_again_once_its_key_is_closed")
_LATE: Final = at(
    "tests/unit/proxy/fronts/test_backend_writes.py",
    "test_a_write_that_is_not_there_counts_as_failed_after_some_minutes_and_is_hidden",
)
_CREDENTIAL: Final = at(_TEST, "test_an_admitted_write_goes_on_with_the_sidecars_credential_alone")
_SHOWN: Final = at(
    _TEST, "test_what_is_held_or_another_tenants_is_in_no_read_and_the_answer_is_refilled"
)
_LOST: Final = at(_TEST, "test_a_lost_answer_is_looked_up_and_the_write_is_never_sent_again")
_UNKNOWN: Final = at(
    _TEST, "test_what_the_table_does_not_have_or_cannot_read_is_refused_and_not_sent"
)

_HEADERS: Final = at(
    "tests/unit/proxy/fronts/test_backend_behind.py", "test_no_other_header_goes_on"
)

BACKENDS: Final = (
    Mutant(
        name="names behind the gate are judged in another order than they are shown in",
        file="proxy/backends/kept_request.py",
        old="pieces.extend(orders_in_names(",
        new="pieces.extend(() and orders_in_names(",
        invariant="names of an object are read in their order",
        tests=(
            at(
                "tests/unit/proxy/backends/test_kept_request.py",
                "test_names_that_spell_an_order_are_a_text_in_their_own_order",
            ),
        ),
    ),
    Mutant(
        name="a header of the client reaches the memory server",
        file=_BEHIND,
        old="if name in _SENT}",
        new="if name not in _SHOWN}",
        invariant="nothing goes on but what the adapter made of a request",
        tests=(_HEADERS,),
    ),
    Mutant(
        name="what a read of a memory server brings back is not sifted",
        file=_READS,
        old="        dropped = _dropped(page, shown, hidden)\n",
        new="        dropped = _dropped(page, shown, tuple(False for _ in hidden))\n",
        invariant="what must not be shown is left out of a read",
        tests=(_SHOWN,),
    ),
    Mutant(
        name="an answer is not looked through again after a memory was hidden",
        file="proxy/fronts/answers_before.py",
        old="        if standing != self._standing:\n            self._standing",
        new="        if self._standing is None:\n            self._standing",
        invariant="what hides memories holds for an answer that is the same as before",
        tests=(_AGAIN,),
    ),
    Mutant(
        name="what is known of other tenants' memories is no reason to look again",
        file="proxy/guard/sieve.py",
        old="        return self._begun, self._moves[target]\n",
        new="        return self._begun, 0\n",
        invariant="an answer is looked through again once somebody else has a memory in it",
        tests=(_AGAIN,),
    ),
    Mutant(
        name="a key that is closed is no reason to look again",
        file="proxy/guard/keyed.py",
        old="        closings = self._forwards.closings\n",
        new="        closings = 0\n",
        invariant="an answer is looked through again once a key in it was closed",
        tests=(_SHUT,),
    ),
    Mutant(
        name="an answer to one tenant is what another tenant is shown",
        file="proxy/fronts/answers_before.py",
        old="    return (tenant, request.method,",
        new="    return (request.method,",
        invariant="a finding about an answer is its reader's own",
        tests=(
            at(
                "tests/unit/proxy/fronts/test_answers_before.py",
                "test_a_finding_is_of_this_reader_question_count_and_answer",
            ),
        ),
    ),
    Mutant(
        name="a memory beyond the page is noted as recalled",
        file="proxy/fronts/backend_reads.py",
        old="            texts=tuple(text for one in shown if one.place not in dropped for",
        new="            texts=tuple(text for one in shown for",
        invariant="a recall names what the agent was shown, and nothing else",
        tests=(at(_ANSWERS, "test_a_memory_beyond_the_page_is_no_recall"),),
    ),
    Mutant(
        name="a marked memory that the gate does not know is shown",
        file=_KEYED,
        old="            known_only = hides_unknown or one.is_marked\n",
        new="            known_only = hides_unknown\n",
        invariant="what the gate wrote is shown by its record alone",
        tests=(
            at(
                "tests/unit/proxy/guard/test_keyed.py",
                "test_a_marked_memory_is_shown_only_where_the_gate_knows_it",
            ),
        ),
    ),
    Mutant(
        name="a lost new memory stops every other new one",
        file=_KEYED,
        old="for call in calls if call is not None and call.key)",
        new="for call in calls if call is not None)",
        invariant="a look-up closes the key that it is about, and no other",
        tests=(
            at(
                "tests/unit/proxy/guard/test_keyed.py",
                "test_what_has_no_key_yet_keeps_no_other_from_being_written",
            ),
        ),
    ),
    Mutant(
        name="a deletion concerns what its principal must not see",
        file=_WRITES,
        old="            sendings = await self.places.standing(request, hidden_from=principal)\n",
        new="            sendings = await self.places.standing(request)\n",
        invariant="a filter of a deletion finds nothing hidden",
        tests=(
            _SHOWN,
            at(
                "tests/integration/test_backend_chroma_places.py",
                "test_a_hidden_record_is_deleted_and_changed_as_one_that_is_not_there",
            ),
        ),
    ),
    Mutant(
        name="a key of the sidecar in a body goes on",
        file=_BEHIND,
        old='        self._check_sent_on("body", _words_of(request.body))\n',
        new="",
        invariant="no key of the sidecar reaches a server behind",
        tests=(
            at(
                "tests/unit/proxy/fronts/test_backend_behind.py",
                "test_no_key_of_the_sidecar_is_in_what_goes_on",
            ),
        ),
    ),
    Mutant(
        name="nobody is told why a memory server gives no answer",
        file=_BEHIND,
        old="            self._tell(error.told_operator)\n",
        new="",
        invariant="the operator's log names the server behind that fails, and why",
        tests=(
            at(
                "tests/unit/proxy/fronts/test_backend_behind.py",
                "test_what_a_server_fails_with_is_logged_once_and_not_told_the_agent",
            ),
        ),
    ),
    Mutant(
        name="a server that says no version is sent for approval",
        file=_BEHIND,
        old="            raise MalformedRequest(_UNTOLD, status=403)\n",
        new="            raise MalformedRequest(_STRANGE, status=403)\n",
        invariant="an approval is asked for only where it helps",
        tests=(
            at(
                "tests/unit/proxy/fronts/test_backend_behind.py",
                "test_a_server_that_says_no_version_is_not_one_that_waits_for_approval",
            ),
        ),
    ),
    Mutant(
        name="runs of a server that several tenants share are served",
        file=_FRONT,
        old="        if routed.whole and not behind.settings.shows_whole:\n",
        new="        if routed.whole and not behind.settings.name:\n",
        invariant="an answer of which no part can be left out is one tenant's",
        tests=(at(_TEST, "test_runs_and_threads_of_a_shared_server_are_refused"),),
    ),
    Mutant(
        name="an offset counts memories that the reader is not shown",
        file=_READS,
        old="        seen[one.group] += not hides\n",
        new="        seen[one.group] += 1\n",
        invariant="a page tells nothing of what is hidden",
        tests=(at(_TEST, "test_no_page_tells_whether_a_filter_finds_what_is_hidden"),),
    ),
    Mutant(
        name="a page that nobody can tell is a short one",
        file=_READS,
        old="    if count >= page.most:\n        raise UpstreamError(_TOO_MANY, sent=False)\n",
        new="",
        invariant="a page tells nothing of what is hidden",
        tests=(at(_TEST, "test_a_page_that_nobody_can_tell_is_a_failure_and_never_a_short_one"),),
    ),
    Mutant(
        name="a route that the table does not have passes",
        file=_FRONT,
        old="            raise UnknownWrite\n",
        new="            return await behind.ask(request)\n",
        invariant="an unknown route counts as a write",
        tests=(_UNKNOWN,),
    ),
    Mutant(
        name="a route that administers the memory server passes",
        file=_FRONT,
        old="        if routed.does is Does.ADMIN:\n",
        new="        if routed.does is Does.ADMIN and not request:\n",
        invariant="an agent administers no memory server",
        tests=(_UNKNOWN,),
    ),
    Mutant(
        name="an agent makes a collection with words of its own",
        file="proxy/backends/chroma/collections.py",
        old="        if name not in _INDEX_NAMES or not good:\n",
        new="        if name not in _INDEX_NAMES and not good:\n",
        invariant="a collection has no words that nobody judged",
        tests=(
            at(
                "tests/unit/proxy/backends/chroma/test_collections.py",
                "test_words_that_nobody_judged_make_no_collection",
            ),
        ),
    ),
    Mutant(
        name="a write whose connection broke is sent once more",
        file=_UPSTREAM,
        old="        self._session._retry_connection = False",
        new="        self._session._retry_connection = True",
        invariant="a write is sent once",
        tests=(_LOST,),
    ),
    Mutant(
        name="a released item is sent whatever stands there by then",
        file=_WRITES,
        old="        if [_seen(one.item) for one in found] != [_seen(item)]:\n",
        new="        if [_seen(one.item) for one in found] != [_seen(item)] and not found:\n",
        invariant="what is sent is what a person saw, merged with what stood there then",
        tests=(
            at(_TEST, "test_a_released_item_is_not_sent_where_something_else_stands_meanwhile"),
            at(_PLACES, "test_a_held_change_is_not_merged_into_another_record_than_a_person_saw"),
        ),
    ),
    Mutant(
        name="two writes to one item are judged at the same time",
        file=_WRITES,
        old="        if question is not None:\n            place =",
        new="        if question is not None and place:\n            place =",
        invariant="what a write is judged beside is what it is sent to",
        tests=(
            at(_TEST, "test_two_writes_to_one_item_are_judged_one_after_the_other"),
            at(_TURNS, "test_a_put_beside_the_users_first_one_is_judged_as_a_change_of_it"),
            at(_TURNS, "test_a_put_beside_a_deletion_of_its_key_belongs_to_who_put_it"),
        ),
    ),
    Mutant(
        name="a new thread begins with a state that nobody judged",
        file="proxy/backends/langgraph/adapter.py",
        old="            if route is NEW_THREAD:\n",
        new="            if route is None:\n",
        invariant="no state of a thread is written past the gate",
        tests=(
            at(
                "tests/unit/proxy/backends/langgraph/test_langgraph.py",
                "test_a_conversation_begins_and_never_with_a_state_that_nobody_judged",
            ),
        ),
    ),
    Mutant(
        name="a lost answer of a memory server counts as a failure",
        file=_WRITES,
        old="            state = Forwarded.UNKNOWN if error.sent else Forwarded.FAILED\n",
        new="            state = Forwarded.FAILED\n",
        invariant="without an answer nobody knows what became of a write",
        tests=(_LOST,),
    ),
    Mutant(
        name="another tenant's memory is shown",
        file=_KEYED,
        old="            gone = whose in {Owned.HIDDEN, Owned.OTHERS}\n",
        new="            gone = whose is Owned.HIDDEN\n",
        invariant="no tenant reads what another one wrote",
        tests=(_SHOWN,),
    ),
    Mutant(
        name="another tenant's memory may be changed",
        file=_KEYED,
        old="        return tuple(one is Owned.OTHERS for one in owned)\n",
        new="        return tuple(one is Owned.OTHERS and not shown for one in owned)\n",
        invariant="no tenant changes what another one wrote",
        tests=(_SHOWN,),
    ),
    Mutant(
        name="a put is a new memory where the server says that nothing stands there",
        file=_WRITES,
        old="    if ours and change is ChangeKind.CREATE:\n",
        new="    if ours and change is ChangeKind.DELETE:\n",
        invariant="what the gate knows under a key is changed, whatever the server says",
        tests=(
            at(
                _TURNS,
                "test_a_put_over_words_that_the_server_does_not_show_is_a_change_of_them",
            ),
        ),
    ),
    Mutant(
        name="a key takes further writes while a lost one is looked up",
        file=_WRITES,
        old="        if any(one.item.key in unsettled for one in sendings):\n",
        new="        if any(one.item.key == unsettled for one in sendings):\n",
        invariant="a change is judged beside what is known to stand there",
        tests=(at(_TURNS, "test_while_a_lost_write_is_looked_up_its_key_takes_no_other"),),
    ),
    Mutant(
        name="a status that says nothing of a write counts as a refusal",
        file="proxy/backends/http_outcome.py",
        old=" and status not in _SAYS_NOTHING:\n",
        new=":\n",
        invariant="without the server's word nobody knows what became of a write",
        tests=(
            at(
                "tests/unit/proxy/backends/langgraph/test_langgraph.py",
                "test_the_status_says_what_became_of_a_write",
            ),
        ),
    ),
    Mutant(
        name="a release is sent over another tenant's memory",
        file=_WRITES,
        old="        if any(theirs):\n            raise MalformedRequest(_TAKEN)\n",
        new="        if any(theirs) and not adapter:\n            raise MalformedRequest(_TAKEN)\n",
        invariant="whose a key is, is asked when a change is sent",
        tests=(at(_TURNS, "test_a_release_over_what_another_tenant_has_by_now_is_not_sent"),),
    ),
    Mutant(
        name="a released change makes its key its tenant's before it is sent",
        file=_KEYED,
        old="shown, counts_sent=False)",
        new="shown, counts_sent=True)",
        invariant="whose a key is, is asked when a change is sent",
        tests=(at(_TURNS, "test_a_release_over_what_another_tenant_has_by_now_is_not_sent"),),
    ),
    Mutant(
        name="a deletion ends what was written after it",
        file="storage/behind/intents.py",
        old="            if one.ordinal > record.ordinal:\n",
        new="            if one.ordinal > record.ordinal and not record:\n",
        invariant="a deletion ends what was there before it",
        tests=(
            at(
                "tests/unit/proxy/guard/test_keyed.py",
                "test_a_deletion_that_is_settled_late_ends_nothing_that_came_after_it",
            ),
        ),
    ),
    Mutant(
        name="a memory server of an unknown version gets writes",
        file=_BEHIND,
        old="        if version in self.adapter.versions:\n",
        new="        if version is not None:\n",
        invariant="a table of routes holds for the versions that it was made with",
        tests=(
            at(_TEST, "test_a_server_of_an_unknown_version_gets_no_write_until_it_is_approved"),
        ),
    ),
    Mutant(
        name="a memory keeps no key that its server gave it",
        file="storage/behind/intents.py",
        old="            if key and result is Forwarded.DONE:\n",
        new="            if key and result is Forwarded.FAILED:\n",
        invariant="a memory is filed under the key that its server gave it",
        tests=(
            at(
                "tests/unit/proxy/guard/test_keyed.py",
                "test_a_memory_is_filed_under_the_key_that_its_server_gave_it",
            ),
        ),
    ),
    Mutant(
        name="a blob goes on although it is not the one that was judged",
        file="proxy/guard/local.py",
        old='if _digest(one.blob) == call.blob else b""',
        new='if one.blob else b""',
        invariant="what a release sends is what was held",
        tests=(
            at(
                "tests/unit/proxy/guard/test_keyed.py",
                "test_a_blob_that_is_not_the_judged_one_does_not_go_on",
            ),
        ),
    ),
    Mutant(
        name="a purged key is nobody's",
        file="storage/write/commit.py",
        old="            self._hide_what_stays(ordinal)\n        if kind",
        new="            pass\n        if kind",
        invariant="what was erased here and stands on its server is shown to nobody",
        tests=(
            at(_CLOSED, "test_a_memory_that_ends_here_and_not_on_its_server_closes_its_key"),
            at(_CLOSED, "test_the_purge_of_the_latest_memory_closes_the_key_of_an_earlier_one"),
        ),
    ),
    Mutant(
        name="a closed key is shown to its own tenant",
        file=_KEYED,
        old="    if closed.mine:\n",
        new="    if closed.mine and by_rows is Owned.OTHERS:\n",
        invariant="what was erased here and stands on its server is shown to nobody",
        tests=(at(_PURGE, "test_a_purged_memory_is_shown_to_nobody_again"),),
    ),
    Mutant(
        name="a closed key is free for other tenants",
        file=_KEYED,
        old="    return Owned.OTHERS if closed.others and",
        new="    return Owned.OTHERS if closed.mine and",
        invariant="what was erased here and stands on its server is shown to nobody",
        tests=(at(_PURGE, "test_a_purged_memory_is_shown_to_nobody_again"),),
    ),
    Mutant(
        name="the purge of an old memory closes the key of what stands there now",
        file="storage/tables/closed_keys.py",
        old="        later = one.ordinal > unless_after and",
        new="        later = unless_after < 0 and",
        invariant="a key is closed by the end of its newest memory",
        tests=(
            at(
                _CLOSED,
                "test_the_purge_of_an_earlier_memory_leaves_the_key_of_a_later_one_open",
            ),
        ),
    ),
    Mutant(
        name="a purged memory's words are shown where an update left them standing",
        file="storage/tables/closed_keys.py",
        old="    if newest is None or (hidden and _has_words_of(newest, row)):\n",
        new="    if newest is None:\n",
        invariant="what a person hid and purged is shown to nobody again",
        tests=(
            at(
                _CLOSED,
                "test_the_purge_of_a_hidden_memory_whose_words_an_update_left_standing_closes_"
                "the_key",
            ),
        ),
    ),
    Mutant(
        name="a key stays closed after its server has a later write",
        file="storage/behind/intents.py",
        old="        if shown and place is not None:\n",
        new="        if shown and place is None:\n",
        invariant="a key is open where the gate knows what its server has",
        tests=(at(_CLOSED, "test_a_later_write_that_is_done_and_a_deletion_of_the_key_open_it"),),
    ),
    Mutant(
        name="a deletion of one piece opens a closed key",
        file="storage/behind/intents.py",
        old="        whole = all(piece == key for piece in deletion.pieces)\n",
        new="        whole = bool(deletion.pieces)\n",
        invariant="a key is open where the gate knows what its server has",
        tests=(at(_CLOSED, "test_a_later_write_that_is_done_and_a_deletion_of_the_key_open_it"),),
    ),
    Mutant(
        name="a write that its server refused closes the key",
        file="storage/behind/intents.py",
        old="        elif record.unknown:\n",
        new="        elif not shown:\n",
        invariant="a key is closed where the server may have what the gate gave up",
        tests=(at(_CLOSED, "test_a_write_that_failed_closes_its_key_only_if_its_answer_was_lost"),),
    ),
    Mutant(
        name="a write that a crash left counts as one that was never lost",
        file=_WRITES,
        old="                lost = ((item.candidate_id, Forwarded.UNKNOWN),)\n",
        new="                lost = ()\n",
        invariant="a key is closed where the server may have what the gate gave up",
        tests=(_LATE,),
    ),
    Mutant(
        name="a write that is not there yet counts as failed at once",
        file=_WRITES,
        old="                if self._may_arrive(item.candidate_id):\n",
        new="                if not self._may_arrive(item.candidate_id):\n",
        invariant="a write that a read does not find may still be on its way",
        tests=(_LATE,),
    ),
    Mutant(
        name="what expired on its server is its tenant's for ever",
        file=_WRITES,
        old="        return tuple(one for one, own in zip(named, ours, strict=True) if own)\n",
        new="        return tuple(one for one, own in zip(named, ours, strict=True) if not ours)\n",
        invariant="the tenant that has a key can free it",
        tests=(
            at(
                _PURGE,
                "test_an_item_that_expired_on_its_server_is_its_tenants_until_that_deletes_it",
            ),
            at(
                _PURGE, "test_the_deletion_of_what_is_hidden_from_its_own_tenant_waits_for_a_person"
            ),
        ),
    ),
    Mutant(
        name="a deletion frees another tenant's key",
        file=_WRITES,
        old="        ours = await self._keys.belongs_to(principal, name, asked, forgotten=True)\n",
        new="        ours = tuple(bool(name) for _ in asked)\n",
        invariant="to another tenant a key is as one that nobody has",
        tests=(
            at(
                _PURGE,
                "test_an_item_that_expired_on_its_server_is_its_tenants_until_that_deletes_it",
            ),
        ),
    ),
    Mutant(
        name="a verdict is given on a merge with hidden words",
        file=_WRITES,
        old="            other or one.item.key in unjudged for",
        new="            other for",
        invariant="no verdict tells hidden words",
        tests=(
            at(
                _PLACES, "test_the_answer_to_a_write_over_a_hidden_record_says_nothing_of_its_words"
            ),
        ),
    ),
    Mutant(
        name="a read of an item files the words of its namespace on the server",
        file="proxy/backends/langgraph/store_items.py",
        old="    return tells(namespace)\n",
        new="    return len(namespace) > 32\n",
        invariant="no read leaves words of a client on the server",
        tests=(
            at(
                "tests/unit/proxy/backends/langgraph/test_langgraph.py",
                "test_an_item_of_a_namespace_that_could_be_a_sentence_is_found_by_a_search",
            ),
        ),
    ),
    Mutant(
        name="the text of a memory server's failure goes on",
        file=_WRITES,
        old="        shown = tuple(self._behind.shown(request, one) for one in replies)\n",
        new="        shown = replies\n",
        invariant="of a failure only the status is the server's",
        tests=(at(_TEST, "test_of_a_failure_only_the_status_is_the_servers"),),
    ),
    Mutant(
        name="what stands beside the list of an answer goes on unread",
        file="proxy/backends/langgraph/adapter.py",
        old=" and len(value) == 1 else None\n",
        new=" else None\n",
        invariant="nothing of an answer goes on unread",
        tests=(
            at(
                "tests/unit/proxy/backends/langgraph/test_langgraph.py",
                "test_an_answer_of_another_form_is_not_shown",
            ),
        ),
    ),
    Mutant(
        name="a read of one item prolongs its life",
        file="proxy/backends/langgraph/store_items.py",
        old=' if pair[0] != REFRESH or pair[1] == "false")',
        new=" if pair[0])",
        invariant="a read changes nothing",
        tests=(at(_TEST, "test_a_read_prolongs_no_items_life"),),
    ),
    Mutant(
        name="a search prolongs the life of what it finds",
        file="proxy/backends/langgraph/store_items.py",
        old="    if value.get(REFRESH) is True:\n",
        new="    if value.get(REFRESH) is False:\n",
        invariant="a read changes nothing",
        tests=(at(_TEST, "test_a_read_prolongs_no_items_life"),),
    ),
)
