"""Faults in what an MCP call asks of memory, and in what an answer shows of it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_UNIT: Final = "tests/unit/proxy/dialects/mcp"
_CALLS: Final = f"{_UNIT}/test_calls.py"
_RESULTS: Final = f"{_UNIT}/test_results.py"
_ENTITIES: Final = "tests/unit/proxy/mcp/test_store_entities.py"

MCP: Final = (
    Mutant(
        name="a list that a map names is empty",
        file="proxy/dialects/mcp/places.py",
        old="return frozenset(words).union(*(LISTS.get(word, ()) for word in words))",
        new="return frozenset(words)",
        invariant="a file that hosts load is no everyday note",
        tests=(at(f"{_UNIT}/test_places.py", "test_a_file_that_hosts_load_is_no_everyday_note"),),
    ),
    Mutant(
        name="the filter forgets structuredContent",
        file="proxy/dialects/mcp/results.py",
        old="            elif not _is_word(name, value):\n",
        new='            elif name != "structuredContent" and not _is_word(name, value):\n',
        invariant="text and structure are filtered alike",
        tests=(at(_RESULTS, "test_an_observation_goes_from_text_and_structure_alike"),),
    ),
    Mutant(
        name="a string that the map does not name is not judged",
        file="proxy/dialects/mcp/pieces.py",
        old="        if not text or self._is_plain(text, at):\n",
        new="        if not text or at not in self._named:\n",
        invariant="every string of a write is a piece",
        tests=(at(_CALLS, "test_a_string_where_the_map_names_none_is_a_piece_too"),),
    ),
    Mutant(
        name="a member's name is not judged",
        file="proxy/dialects/mcp/pieces.py",
        old="        if at in self._named or not name or ORDINARY_NAME.fullmatch(name):\n",
        new="        if True:\n",
        invariant="names of a free-form object are text",
        tests=(at(_CALLS, "test_a_string_where_the_map_names_none_is_a_piece_too"),),
    ),
    Mutant(
        name="JSON in a string is judged by its spelling",
        file="proxy/dialects/mcp/pieces.py",
        old="        self._inner(text, 0)\n",
        new="",
        invariant="what a server will read is what is judged",
        tests=(at(_CALLS, "test_what_json_in_a_string_spells_is_judged_as_it_will_be_read"),),
    ),
    Mutant(
        name="an id may say anything",
        file="proxy/dialects/mcp/pieces.py",
        old="            return _PLAIN[shape].fullmatch(text) is not None\n",
        new="            return True\n",
        invariant="only a string without room for words is left out",
        tests=(at(_CALLS, "test_what_has_no_room_for_words_stays_out_of_the_text"),),
    ),
    Mutant(
        name="an argument may come under two names",
        file="proxy/dialects/mcp/calls.py",
        old="        if len(given) > 1:\n",
        new="        if len(given) > 9:\n",
        invariant="the key is that of the memory that the server changes",
        tests=(f"{_UNIT}/test_calls_of_servers.py",),
    ),
    Mutant(
        name="a key is its parts joined",
        file="proxy/dialects/mcp/calls.py",
        old="    key = parts[0] if len(parts) == 1 else canonical_json(list(parts))\n",
        new="    key = '\",\"'.join(parts)\n",
        invariant="no key can be spelled by the parts of another",
        tests=(_CALLS,),
    ),
    Mutant(
        name="relations outlive their entity",
        file="proxy/dialects/mcp/removal.py",
        old="        gone |= self._linked(gone)\n",
        new="",
        invariant="nothing points to what is withheld",
        tests=(at(_RESULTS, "test_relations_go_with_an_entity_that_something_else_withholds"),),
    ),
    Mutant(
        name="what is left of an answer is not asked about again",
        file="proxy/dialects/mcp/results.py",
        old="        result = left\n",
        new="        return left\n",
        invariant="no cut uncovers what is withheld",
        tests=(at(_RESULTS, "test_prose_loses_lines_then_paragraphs_then_everything"),),
    ),
    Mutant(
        name="an escaped text is another text",
        file="proxy/guard/sieve.py",
        old="for reading in readings_of(text))",
        new="for reading in (text,))",
        invariant="a withheld text is withheld however it is spelled",
        tests=("tests/unit/proxy/guard/test_sieve.py",),
    ),
    Mutant(
        name="a changed description is the same tool",
        file="proxy/dialects/mcp/catalogue.py",
        old='("name", "title", "description", "inputSchema", "outputSchema", "annotations")',
        new='("name", "title", "inputSchema", "outputSchema", "annotations")',
        invariant="a tool is all that a model is told of it",
        tests=(f"{_UNIT}/test_catalogue.py",),
    ),
    Mutant(
        name="an entity goes whatever hangs on it",
        file="proxy/dialects/mcp/store/plans.py",
        old="is_gone(written[name]) for name in one.hanging if name in written)",
        new="True for name in one.hanging if name in written)",
        invariant="an entity stays while something that hangs on it has to stay",
        tests=(_ENTITIES,),
    ),
    Mutant(
        name="what hangs on an entity is asked for in any order",
        file="proxy/dialects/mcp/store/graph.py",
        old="        return _ids_of(sorted(found.values(), key=_hardest))\n",
        new="        return _ids_of(found.values())\n",
        invariant="a refused deletion of an entity touches nothing else",
        tests=(_ENTITIES,),
    ),
    Mutant(
        name="of two memories with the same words one is known",
        file="proxy/dialects/mcp/store/graph.py",
        old="                said.setdefault(memory.text, {})[ordinal] = memory\n",
        new="                said.setdefault(memory.text, {ordinal: memory})\n",
        invariant="an agent's copy does not stand before a person's words",
        tests=(
            at(_ENTITIES, "test_the_same_words_of_an_agent_do_not_stand_before_those_of_a_person"),
        ),
    ),
    Mutant(
        name="what is said of an entity that is gone is not in sight",
        file="proxy/dialects/mcp/store/graph.py",
        old="            if entity_id not in self._name_of:\n                yield self._said",
        new="            if False:\n                yield self._said",
        invariant="a live observation is shown, under its entity or its name",
        tests=(_ENTITIES,),
    ),
    Mutant(
        name="a memory that is gone stays in the graph",
        file="proxy/intercept/graphs.py",
        old="        for ordinal in changed.gone:\n            kept.index.drop(ordinal)\n",
        new="",
        invariant="the graph that is kept is the one that the store holds live",
        tests=(_ENTITIES,),
    ),
    Mutant(
        name="reads of a graph cost its principal nothing",
        file="proxy/intercept/operations.py",
        old="        self._window.spend(principal.principal_id, count // SHOWN_PER_UNIT)\n",
        new="",
        invariant="what a read of a graph shows counts in the window",
        tests=(at(_ENTITIES, "test_a_read_takes_of_the_window_what_it_shows"),),
    ),
)
