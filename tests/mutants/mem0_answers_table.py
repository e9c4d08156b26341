"""Faults in what counts of the answers of memory servers: ids, old texts, late writes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_READS: Final = "proxy/backends/mem0_server/reads.py"
_DRIVER: Final = "proxy/fronts/backend_writes.py"
_INTENTS: Final = "storage/behind/intents.py"
_COMPARED: Final = "proxy/admin/backends_compared.py"
_KEYED: Final = "proxy/guard/keyed.py"
_GATE_TESTS: Final = "tests/integration/test_backend_mem0_answers.py"
_READ_TESTS: Final = "tests/unit/proxy/backends/mem0_server/test_reads.py"
_WRITE_TESTS: Final = "tests/unit/proxy/backends/mem0_server/test_writes.py"
_INTENT_TESTS: Final = "tests/unit/storage/behind/test_intents.py"
_KEYED_TESTS: Final = "tests/unit/proxy/guard/test_keyed.py"
_CHROMA_TESTS: Final = "tests/unit/proxy/backends/chroma/test_reads.py"
_LANGGRAPH_TESTS: Final = "tests/unit/proxy/backends/langgraph/test_langgraph.py"
_LATE: Final = at(_GATE_TESTS, "test_nobody_adopts_the_late_write_of_another_tenant")
_FORGED: Final = at(
    _GATE_TESTS, "test_an_answer_with_the_id_of_another_memory_files_nothing_under_it"
)
_TAKEN: Final = at(_INTENT_TESTS, "test_a_key_that_stands_here_already_is_given_to_no_other_memory")
_LIVE: Final = at(_INTENT_TESTS, "test_the_strings_under_a_key_are_those_of_its_live_memories")
_PAST: Final = at(_KEYED_TESTS, "test_of_the_past_only_what_is_live_under_the_key_is_shown")
_PURGED: Final = at(_GATE_TESTS, "test_a_history_tells_only_what_is_let_in_and_live")
_CUT: Final = at(
    _GATE_TESTS, "test_a_deletion_by_a_users_id_is_refused_where_the_server_may_have_more"
)

MEM0_ANSWERS: Final = (
    Mutant(
        name="an answer with the id of a known memory files another one under it",
        file=_INTENTS,
        old="if key and result is Forwarded.DONE and self._is_known(change.draft, record, key):",
        new="if key and result is None:",
        invariant="no answer of a server moves a key that the gate knows to another memory",
        tests=(_TAKEN, _FORGED),
    ),
    Mutant(
        name="an answer with the id of a purged memory opens its key",
        file=_INTENTS,
        old="        return any(closed) or any(\n",
        new="        return any(\n",
        invariant="no answer of a server opens a closed key",
        tests=(_TAKEN,),
    ),
    Mutant(
        name="a write whose answer names another memory counts as stored",
        file=_DRIVER,
        old="        return Forwarded.UNKNOWN not in states and all(ours)\n",
        new="        return Forwarded.UNKNOWN not in states or all(ours)\n",
        invariant="a client is not told that something is stored of which nobody knows it",
        tests=(_FORGED,),
    ),
    Mutant(
        name="a history tells every text that a memory ever had",
        file=_KEYED,
        old="whose is not Owned.MINE or not texts[one.key].issuperset(one.strings)",
        new="whose is not Owned.MINE",
        invariant="a purged text is in no history",
        tests=(_PAST, _PURGED),
    ),
    Mutant(
        name="what is under quarantine or purged counts as live in a history",
        file=_INTENTS,
        old="    return one.status is MemoryStatus.LIVE and one.row is one.sent\n",
        new="    return not one.sent.erased or one.row is one.sent\n",
        invariant="a history tells what is live",
        tests=(_LIVE,),
    ),
    Mutant(
        name="a late write is foreign, and anybody's to adopt",
        file=_COMPARED,
        old="mark = adapter.mark_of(item) if kept is None else None\n",
        new="mark = None\n",
        invariant="what a gate sent for one tenant is adopted by none",
        tests=(_LATE,),
    ),
    Mutant(
        name="the operator's API adopts what bears the mark",
        file=_COMPARED,
        old="if any(adapter.mark_of(one) is not None for one in asked.items):",
        new="if any(adapter.mark_of(one) == one.key for one in asked.items):",
        invariant="what a gate sent for one tenant is adopted by none",
        tests=(at(_GATE_TESTS, "test_the_operators_api_takes_in_nothing_that_bears_the_mark"),),
    ),
    Mutant(
        name="a write that is under way counts as late",
        file=_COMPARED,
        old="views.append(_UNSETTLED if mark in on_their_way else _MARKED)",
        new="views.append(_MARKED)",
        invariant="a check tells a write that is under way from one that came late",
        tests=(_LATE,),
    ),
    Mutant(
        name="a deletion of a list that was cut says that all is gone",
        file=_DRIVER,
        old="        sendings = self._behind.adapter.items(request, known)\n"
        "        if question is None or known is None or hidden_from is None:\n"
        "            return sendings\n",
        new="        if question is None or known is None or hidden_from is None:\n"
        "            return self._behind.adapter.items(request, known)\n"
        "        sendings = ()\n"
        "        known = msgspec.structs.replace(known)\n",
        invariant="whether the server may have more is told by all that it listed",
        tests=(_CUT,),
        more=(("return sendings if seen is known else ", "return sendings or "),),
    ),
    Mutant(
        name="members beside the memories go on unread",
        file=_READS,
        old="is_same = is_alone and not places",
        new="is_same = not places",
        invariant="nothing that nobody has read reaches a client",
        tests=(at(_READ_TESTS, "test_what_is_left_out_is_in_no_part_of_an_answer"),),
    ),
    Mutant(
        name="the text in the answer to an add is the server's",
        file="proxy/backends/mem0_server/writes.py",
        old="    text, role = message.content, message.role\n",
        new="    text, role = reply.body.decode(), message.role\n",
        invariant="nothing that nobody has read reaches a client",
        tests=(
            at(
                _WRITE_TESTS,
                "test_the_answer_to_one_write_has_the_bytes_of_the_servers_and_none_that_is_unread",
            ),
        ),
    ),
    Mutant(
        name="LangGraph's answer to a write goes on unread",
        file="proxy/backends/langgraph/adapter.py",
        old="        if replies and replies[0].status not in _DONE:\n",
        new="        if replies:\n",
        invariant="nothing that nobody has read reaches a client",
        tests=(
            at(
                _LANGGRAPH_TESTS,
                "test_a_write_that_is_done_is_answered_in_the_words_of_the_gate",
            ),
        ),
    ),
    Mutant(
        name="a memory with an odd id on Mem0's server is shown",
        file=_READS,
        old="            is_withheld=not self.key,\n",
        new="",
        invariant="what nobody can tell is withheld",
        tests=(
            at(_READ_TESTS, "test_a_memory_of_another_form_is_withheld_and_the_others_are_shown"),
        ),
    ),
    Mutant(
        name="what an adapter withholds is shown",
        file=_KEYED,
        old=" or one.is_withheld)",
        new=")",
        invariant="what nobody can tell is withheld",
        tests=(at(_KEYED_TESTS, "test_what_is_withheld_is_shown_to_nobody"),),
    ),
    Mutant(
        name="a record of another form on Chroma's server is shown",
        file="proxy/backends/chroma/reads.py",
        old="place=at, group=group, is_withheld=True)",
        new="place=at, group=group)",
        invariant="what nobody can tell is withheld",
        tests=(
            at(_CHROMA_TESTS, "test_a_record_of_another_form_is_withheld_and_the_others_are_shown"),
        ),
    ),
    Mutant(
        name="an item that the operator API refuses ends a whole check",
        file="proxy/cli/backend_walk.py",
        old="memories=tuple(map(_takeable, found.memories)))",
        new="memories=tuple(found.memories))",
        invariant="one odd item keeps nobody from comparing the others",
        tests=(
            at(
                "tests/integration/test_cli_backend.py",
                "test_one_odd_item_on_the_server_is_counted_and_the_others_are_compared",
            ),
        ),
    ),
    Mutant(
        name="words beside a memory that is taken in are judged by nobody",
        file="proxy/backends/mem0_server/whole_server.py",
        old="    if beside:\n",
        new="    if not body:\n",
        invariant="what is taken in is judged with all that a read shows of it",
        tests=(
            at(
                "tests/integration/test_backend_mem0_answers.py",
                "test_words_of_any_member_are_judged_when_a_memory_is_taken_in",
            ),
        ),
    ),
)
