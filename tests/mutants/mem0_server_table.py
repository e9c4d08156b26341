"""Faults in the adapter of Mem0's self-hosted server, and in what the driver does for it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_ADAPTER: Final = "proxy/backends/mem0_server/adapter.py"
_REQUESTS: Final = "proxy/backends/mem0_server/requests.py"
_READS: Final = "proxy/backends/mem0_server/reads.py"
_ROUTES: Final = "proxy/backends/mem0_server/routes.py"
_WRITES: Final = "proxy/backends/mem0_server/writes.py"
_WALK: Final = "proxy/backends/mem0_server/whole_server.py"
_DRIVER: Final = "proxy/fronts/backend_writes.py"
_TESTS: Final = "tests/unit/proxy/backends/mem0_server"
_ROUTE_TESTS: Final = f"{_TESTS}/test_routes.py"
_READ_TESTS: Final = f"{_TESTS}/test_reads.py"
_WRITE_TESTS: Final = f"{_TESTS}/test_writes.py"
_WALK_TESTS: Final = f"{_TESTS}/test_whole_server.py"
_GATE_TESTS: Final = "tests/integration/test_backend_mem0.py"
_LOST: Final = at(
    _GATE_TESTS,
    "test_a_lost_answer_is_looked_up_by_the_mark_and_the_write_is_never_sent_again",
)
_BYTES: Final = at(
    _READ_TESTS, "test_a_read_through_the_gate_has_the_bytes_that_the_server_would_give"
)
_STRINGS: Final = at(
    _READ_TESTS, "test_every_string_of_a_memory_is_shown_and_the_mark_is_none_of_them"
)
_REFUSED_ADDS: Final = (at(_WRITE_TESTS, "test_an_add_that_is_read_in_two_ways_is_refused"),)

MEM0_SERVER: Final = (
    Mutant(
        name="the mark of the gate stays in what a reader is shown",
        file=_READS,
        old="{name: one for name, one in found.items() if name != MARK}",
        new="dict(found)",
        invariant="a read has the bytes that the server would give without the gate",
        tests=(_BYTES,),
    ),
    Mutant(
        name="a memory on Mem0's server is shown before its outcome is recorded",
        file=_READS,
        old="            is_marked=self.mark is not None,\n",
        new="",
        invariant="what the gate wrote is shown by its record alone",
        tests=(_STRINGS,),
    ),
    Mutant(
        name="the history of a deleted memory is shown to everybody",
        file=_READS,
        old="place=place, is_past=True,",
        new="place=place,",
        invariant="a history is shown where the gate knows its memory",
        tests=(at(_READ_TESTS, "test_a_history_is_its_memorys_and_tells_both_texts_of_a_change"),),
    ),
    Mutant(
        name="a history does not tell the text that a change replaced",
        file=_READS,
        old='one for one in (members.get("old_memory"), members.get("new_memory"))',
        new='one for one in (members.get("new_memory"),)',
        invariant="every text of a history is sifted",
        tests=(at(_READ_TESTS, "test_a_history_is_its_memorys_and_tells_both_texts_of_a_change"),),
    ),
    Mutant(
        name="entities are counted with the hidden memories",
        file=_READS,
        old="        return _written(reply, _entities(kept), is_same=False)",
        new="        return _written(reply, _entities(results), is_same=False)",
        invariant="a count tells nothing of what is hidden",
        tests=(at(_READ_TESTS, "test_entities_are_counted_from_what_may_be_shown"),),
    ),
    Mutant(
        name="a client asks for memories by the mark of the gate",
        file=_REQUESTS,
        old='            elif name == MARK or name.startswith("$"):',
        new='            elif name.startswith("$"):',
        invariant="the mark is the gate's own",
        tests=(at(_READ_TESTS, "test_a_filter_that_is_not_known_or_asks_for_the_mark_is_refused"),),
    ),
    Mutant(
        name="a client sets the mark of the gate",
        file=_REQUESTS,
        old="    if MARK in found:\n",
        new="    if MARK in found and False:\n",
        invariant="the mark is the gate's own",
        tests=_REFUSED_ADDS,
    ),
    Mutant(
        name="the server's model writes a procedural memory",
        file=_REQUESTS,
        old="body.infer is not False or body.memory_type is not None or",
        new="body.infer is not False or",
        invariant="nothing is written that nobody judged",
        tests=_REFUSED_ADDS,
    ),
    Mutant(
        name="a conversation goes to the server's own model",
        file=_REQUESTS,
        old="    if body.infer is not False or body.memory_type",
        new="    if body.memory_type",
        invariant="nothing is written that nobody judged",
        tests=(
            *_REFUSED_ADDS,
            at(_GATE_TESTS, "test_a_conversation_for_the_servers_own_model_is_not_sent"),
        ),
    ),
    Mutant(
        name="an update of Mem0's server is judged without what it is merged with",
        file=_WRITES,
        old="    pieces = (*own, *(stays if in_order else shown)) or (there.key,)",
        new="    pieces = own or (there.key,)",
        invariant="what stays of an old memory is judged with the new parts",
        tests=(
            at(_WRITE_TESTS, "test_an_update_is_judged_by_the_memory_that_it_leads_to"),
            at(_GATE_TESTS, "test_an_update_is_judged_with_what_the_server_keeps_beside_it"),
        ),
    ),
    Mutant(
        name="an update of Mem0's server is not judged in the order of a read",
        file=_WRITES,
        old="    in_order = not stays or (*own, *stays) == shown",
        new="    in_order = bool(shown)",
        invariant="an order that begins in what stays is found",
        tests=(
            at(_WRITE_TESTS, "test_an_update_is_judged_by_the_memory_that_it_leads_to"),
            at(_GATE_TESTS, "test_an_update_is_judged_with_what_the_server_keeps_beside_it"),
        ),
    ),
    Mutant(
        name="a memory goes to Mem0's server without a mark",
        file=_WRITES,
        old="        metadata[MARK] = mark\n",
        new="        pass\n",
        invariant="a lost answer is looked up by the mark",
        tests=(
            at(_WRITE_TESTS, "test_each_memory_goes_on_by_itself_with_its_own_mark"),
            _LOST,
        ),
    ),
    Mutant(
        name="any memory that a look-up finds counts as the lost one",
        file=_WRITES,
        old="if one.mark == item.candidate_id]",
        new="if one.key]",
        invariant="a lost memory is found by its mark and by nothing else",
        tests=(
            at(_WRITE_TESTS, "test_a_lost_new_memory_is_found_by_its_mark_and_by_nothing_else"),
        ),
    ),
    Mutant(
        name="a new memory is not filed under the id that the server gave it",
        file=_WRITES,
        old="    return Outcome(state=state, key=_id_in(reply))",
        new="    return Outcome(state=state)",
        invariant="a memory is its tenant's under the server's id",
        tests=(
            at(_WRITE_TESTS, "test_a_new_memory_has_the_id_that_the_server_gave_it"),
            at(_GATE_TESTS, "test_a_memory_is_its_tenants_under_the_id_that_the_server_gave_it"),
        ),
    ),
    Mutant(
        name="a deletion of more than can be listed deletes the rest by chance",
        file=_WRITES,
        old="    if len(found) >= LISTED_MAX:",
        new="    if len(found) > LISTED_MAX:",
        invariant="a deletion is whole, or refused",
        tests=(at(_WRITE_TESTS, "test_a_deletion_of_more_than_can_be_listed_is_refused_whole"),),
    ),
    Mutant(
        name="one memory of Mem0's server has several names",
        file=_ROUTES,
        old="    return _ID.fullmatch(memory_id) is not None\n",
        new="    return bool(memory_id)\n",
        invariant="a memory has one key",
        tests=(at(_READ_TESTS, "test_a_read_that_is_read_in_two_ways_is_refused"),),
    ),
    Mutant(
        name="what everybody has is listed to one tenant of several",
        file=_ROUTES,
        old="            return LIST_ALL if routed is LIST and not names_one else routed",
        new="            return routed",
        invariant="a list of everything is served where one tenant has the server",
        tests=(
            at(_ROUTE_TESTS, "test_a_list_without_an_id_is_of_what_everybody_has"),
            at(_GATE_TESTS, "test_an_operators_routes_and_what_a_newer_server_has_are_refused"),
        ),
    ),
    Mutant(
        name="a refusal of Mem0's server says nothing in its first line",
        file=_ADAPTER,
        old="    return msgspec.structs.replace(answer, phrase=",
        new="    return msgspec.structs.replace(answer, phrase=None and ",
        invariant="a client that shows the status alone shows the reason",
        tests=(at(_WRITE_TESTS, "test_a_refused_write_is_a_422_that_says_why_in_its_first_line"),),
    ),
    Mutant(
        name="what stands behind a lost memory is left as an intent",
        file=_DRIVER,
        old="            await forwarding.settle(_ids_of(waiting), Forwarded.FAILED)\n",
        new="            pass\n",
        invariant="what was not sent is recorded as failed",
        tests=(_LOST,),
    ),
    Mutant(
        name="a released memory goes on without a mark",
        file=_DRIVER,
        old="= self._behind.adapter.forward(request, found, {0: item.candidate_id})\n",
        new="= request if found else None\n",
        invariant="what a person releases goes the way of every other write",
        tests=(at(_GATE_TESTS, "test_a_released_message_is_sent_once_with_its_mark"),),
    ),
    Mutant(
        name="a walk over Mem0's server passes over what expired",
        file=_WALK,
        old='    query = (("top_k", str(LISTED_MAX)), ("show_expired", "true"))\n    return',
        new='    query = (("top_k", str(LISTED_MAX)),)\n    return',
        invariant="a check lists all that a reader may be shown",
        tests=(at(_WALK_TESTS, "test_a_walk_begins_with_the_list_of_everything"),),
    ),
    Mutant(
        name="a text that Mem0's server has beside what was judged is the same",
        file=_WALK,
        old="        and {*found.pieces} <= {*kept.pieces, kept.key}\n",
        new="",
        invariant="a check sees every text that was changed past the gate",
        tests=(at(_WALK_TESTS, "test_an_update_is_there_where_each_of_its_parts_is"),),
    ),
)
