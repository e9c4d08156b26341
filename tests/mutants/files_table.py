"""Faults in the judging of files of memory."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_HERE: Final = "proxy/files/here.py"
_HERE_TESTS: Final = "tests/unit/proxy/files/test_here.py"
_JUDGED: Final = "proxy/model/files_judged.py"
_JUDGED_TESTS: Final = "tests/unit/proxy/model/test_files_judged.py"
_PATHS: Final = "proxy/dialects/files/memory_paths.py"
_PATHS_TESTS: Final = "tests/unit/proxy/dialects/files/test_memory_paths.py"
_EDITS: Final = "proxy/dialects/files/edits.py"
_EDIT_TESTS: Final = "tests/unit/proxy/dialects/files/test_edits.py"
_HUNKS: Final = "proxy/dialects/files/hunks.py"
_HUNK_TESTS: Final = "tests/unit/proxy/dialects/files/test_hunks.py"
_VOUCHING: Final = "storage/write/vouching.py"
_VOUCHING_TESTS: Final = "tests/unit/storage/write/test_vouching.py"
_KEPT: Final = "proxy/dialects/mcp/kept_before.py"
_KEPT_TESTS: Final = "tests/unit/proxy/dialects/mcp/test_kept_before.py"

FILES: Final = (
    Mutant(
        name="a link leads past the list of files of memory",
        file=_HERE,
        old="        if is_link if named else (real is not None and fits(real)):\n",
        new="        if is_link and named:\n",
        invariant="a link to a file of memory is refused",
        tests=(at(_HERE_TESTS, "test_a_link_is_refused_and_a_folder_above_may_be_one"),),
    ),
    Mutant(
        name="a shell between read and edit changes nothing",
        file=_JUDGED,
        old="            for call in (*answered, *open_calls.values(), *turn.calls):\n",
        new="            for call in ():\n",
        invariant="a file is known only where nothing unmapped ran since it was read",
        tests=(at(_JUDGED_TESTS, "test_a_file_that_something_else_may_have_written_is_not_known"),),
    ),
    Mutant(
        name="a read of which something was withheld shows the whole file",
        file=_JUDGED,
        old="None if before is None or went != said.text else before + said.text\n",
        new="None if before is None else before + said.text\n",
        invariant="a file is known only where nothing of it was withheld",
        tests=(at(_JUDGED_TESTS, "test_a_file_of_which_something_was_withheld_is_not_known"),),
    ),
    Mutant(
        name="a part of a file counts as the file",
        file=_JUDGED,
        old="        elif done and not set(rule.cut) & _given(call):\n",
        new="        elif done:\n",
        invariant="a file is known only where it was read whole",
        tests=(at(_JUDGED_TESTS, "test_a_part_of_a_file_is_not_known"),),
    ),
    Mutant(
        name="a path has one reading",
        file=_PATHS,
        old="    return frozenset({*map(folded_path, spelled), "
        "*map(_stepped, spelled | spelled_for_windows)})\n",
        new="    return frozenset(map(folded_path, spelled))\n",
        invariant="a name that only folds to a step leads no path out of a folder of memory",
        tests=(at(_PATHS_TESTS, "test_every_spelling_of_a_file_of_memory_is_one"),),
    ),
    Mutant(
        name="the codes of an address hide a file of memory",
        file=_PATHS,
        old="    whole = {path, unquote(path) if address else path}\n",
        new="    whole = {path} if address else {path}\n",
        invariant="a path is judged by each file that a tool may take it for",
        tests=(at(_PATHS_TESTS, "test_every_spelling_of_a_file_of_memory_is_one"),),
    ),
    Mutant(
        name="what a server expands is judged as it was written",
        file=_EDITS,
        old=" or _EXPANDED.search(new):\n",
        new=":\n",
        invariant="a text that nobody can tell waits for a person",
        tests=(at(_EDIT_TESTS, "test_an_edit_that_a_server_may_expand_makes_an_unknown_text"),),
    ),
    Mutant(
        name="a full stop ends a rule that goes on in lower case",
        file=_HUNKS,
        old="    if following.lstrip(_QUOTES)[:1].islower():\n",
        new="    if not following:\n",
        invariant="a rule is read whole, behind a full stop and a blank line too",
        tests=(at(_HUNK_TESTS, "test_no_blank_line_and_no_mark_parts_a_rule_that_goes_on"),),
    ),
    Mutant(
        name="a folder is moved onto the files of memory",
        file=_HERE,
        old="        fits = paths.fits if call.to is None else paths.fits_folder\n",
        new="        fits = paths.fits\n",
        invariant="a move onto or off files of memory waits, with their folder as well",
        tests=(at(_HERE_TESTS, "test_a_move_onto_or_off_a_file_of_memory_is_one"),),
    ),
    Mutant(
        name="one server tells what stands in another's file",
        file=_JUDGED,
        old="            known.was_read(tool.server, read[1], answer)\n",
        new='            known.was_read("", read[1], answer)\n',
        invariant="a file is known only as the server shows it that is written with",
        tests=(at(_JUDGED_TESTS, "test_what_another_server_shows_is_not_the_text_of_a_file"),),
    ),
    Mutant(
        name="an import is a line like others",
        file=_EDITS,
        old="    apart = any(one.imports or not one.came for one in hunks)\n",
        new="    apart = any(not one.came for one in hunks)\n",
        invariant="a line that has another file read waits for a person",
        tests=(at(_JUDGED_TESTS, "test_an_import_waits_even_where_a_person_says_the_line"),),
    ),
    Mutant(
        name="a new line is read without its neighbours",
        file=_HUNKS,
        old="    if above is not None:\n",
        new="    if above is None:\n",
        invariant="two halves of an order are read as one",
        tests=(at(_HUNK_TESTS, "test_two_halves_of_an_order_add_up"),),
    ),
    Mutant(
        name="an order is lifted with the rest",
        file=_VOUCHING,
        old="        if not read and not _may_be_lifted(row):\n",
        new="        if not read and row is None:\n",
        invariant="what steers is raised only by a person who read all of it",
        tests=(at(_VOUCHING_TESTS, "test_an_order_and_more_than_knowledge_are_lifted_by_nobody"),),
    ),
    Mutant(
        name="what nobody read becomes a person's own",
        file=_VOUCHING,
        old="SourceKind.USER_INPUT if read else SourceKind.TOOL_RESULT\n",
        new="SourceKind.USER_INPUT\n",
        invariant="a filter lifts to a tool's result at most",
        tests=(at(_VOUCHING_TESTS, "test_what_nobody_read_is_lifted_to_a_tools_result_at_most"),),
    ),
    Mutant(
        name="a digest of names stands for what is said under them",
        file=_KEPT,
        old="    said: JsonValue = [item.key, item.arguments, list(item.pieces)]\n",
        new="    said: JsonValue = [item.key, item.arguments]\n",
        invariant="a server that answers otherwise has another digest",
        tests=(at(_KEPT_TESTS, "test_a_digest_is_of_what_is_said_and_not_of_its_order"),),
    ),
    Mutant(
        name="a relative path is never an absolute one",
        file="proxy/dialects/files/known.py",
        old='one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")',
        new="one == other",
        invariant="a file is known no more once it was written by another name",
        tests=(at(_JUDGED_TESTS, "test_a_relative_and_an_absolute_path_may_be_one_file"),),
    ),
    Mutant(
        name="a thing that was there before is what its kind says",
        file=_KEPT,
        old="    raised = min((*classes, item.memory_class), key=lambda one: one.value)\n",
        new="    raised = item.memory_class\n",
        invariant="nothing that is named like a place is taken in as knowledge",
        tests=(
            at(
                _KEPT_TESTS,
                "test_a_thing_that_is_named_like_a_place_is_of_its_class_whatever_its_kind",
            ),
        ),
    ),
    Mutant(
        name="a blank line parts a rule",
        file=_HUNKS,
        old="    return blank and (block or _ENDED.search(line) is not None)\n",
        new="    return blank\n",
        invariant="two halves of an order are read as one, also over a blank line",
        tests=(at(_HUNK_TESTS, "test_no_blank_line_and_no_mark_parts_a_rule_that_goes_on"),),
    ),
    Mutant(
        name="a file of memory lowers its own edit",
        file="proxy/ledger/evidence.py",
        old="found[0].taint_but(file) if file else found[1]",
        new="found[1]",
        invariant="what a file of memory says lowers no edit of that very file",
        tests=(at(_JUDGED_TESTS, "test_a_models_own_note_gets_into_the_file_that_it_read"),),
    ),
    Mutant(
        name="a file of memory lowers no edit of another",
        file="proxy/ledger/state.py",
        old="for one, label in self.brought.items() if one != file]",
        new="for one, label in self.brought.items() if one == 0]",
        invariant="what was read lowers each write but the edit of that very file",
        tests=(at(_JUDGED_TESTS, "test_whatever_else_was_read_lowers_a_note_in_any_file"),),
    ),
    Mutant(
        name="a path that folds to a file's is that file",
        file=_JUDGED,
        old='return f"{tool.server}\\0{path}" if named else None\n',
        new='return f"{tool.server}\\0{path.casefold()}" if named else None\n',
        invariant="a file is spared only what was read by its own path as it is spelled",
        tests=(at(_JUDGED_TESTS, "test_what_a_path_that_folds_to_the_files_says_lowers_its_edit"),),
    ),
    Mutant(
        name="a relative path always leads to one file",
        file=_JUDGED,
        old="                named = is_exact_path(path) and not moved\n",
        new="                named = not moved\n",
        invariant="what a path that may lead elsewhere says lowers an edit by the same path",
        tests=(
            at(_JUDGED_TESTS, "test_what_a_path_says_that_may_lead_elsewhere_lowers_an_edit_by_it"),
        ),
    ),
    Mutant(
        name="a file that says it is not there is a new one",
        file="proxy/model/files_judged.py",
        old="        elif not done and missing:\n",
        new="        elif missing:\n",
        invariant="a new file is one of which the host said that there is none",
        tests=(at(_JUDGED_TESTS, "test_a_new_file_is_judged_by_its_lines_once_a_read_found_none"),),
    ),
)
