"""Faults in what is read of files in prompts, and in the API of Gemini."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, dropped, one_test, replaced, returned

_CONTENTS: Final = "tests/unit/proxy/dialects/model/gemini/test_contents.py"
_FILES: Final = "tests/unit/proxy/model/test_files_judged.py"
_GEMINI: Final = "tests/unit/proxy/dialects/model/gemini/test_replies.py"
_INJECTED: Final = "tests/integration/test_injected_places.py"
_MARKED: Final = "tests/unit/proxy/places/test_marked.py"
_OUTSIDE: Final = "tests/integration/test_places_from_outside.py"
_PATCH: Final = "tests/unit/proxy/dialects/files/test_patch.py"

PLACES: Final = (
    Mutant(
        row="injected-files",
        name="a line that no one let in is read",
        invariant="a new line of rules waits, whoever wrote it",
        where="proxy.places.place_reader:PlaceReader._waits",
        fault=returned("False"),
        tests=one_test(_INJECTED, "test_rules_wait_until_a_person_lets_them_in_for_every_key"),
    ),
    Mutant(
        row="injected-files",
        name="every session is a first sight",
        invariant="a first sight counts in a folder where no agent of the tenant worked",
        where="proxy.places.place_reader:PlaceReader._is_first",
        fault=returned("True"),
        tests=one_test(_OUTSIDE, "test_a_file_that_states_a_folder_gets_no_first_sight"),
    ),
    Mutant(
        row="injected-files",
        name="the path of a file is on disk as it came",
        invariant="what no verdict admitted is on no disk in clear",
        where="storage.features.kept_places:_new",
        fault=replaced(
            "seal(key, tenant.encode(), path.encode('utf-8', 'replace'))", "path.encode()"
        ),
        tests=one_test(
            _INJECTED,
            "test_no_file_of_the_state_and_no_answer_without_a_key_has_the_path_of_a_file",
        ),
    ),
    Mutant(
        row="injected-files",
        name="a file ends at its first end mark",
        invariant="a mark inside of a file ends nothing",
        where="proxy.places.marked:_end",
        fault=replaced("ends[-1]", "ends[0]"),
        tests=one_test(
            _MARKED, "test_a_file_reaches_to_the_last_end_mark_and_keeps_what_looks_like_a_mark"
        ),
    ),
    Mutant(
        row="injected-files",
        name="a page that prints a mark is a file",
        invariant="no act is asked for what no file has",
        where="proxy.places.marked:_names",
        fault=returned("True"),
        tests=one_test(
            _MARKED, "test_a_file_in_a_result_counts_only_in_a_folder_that_its_call_named"
        ),
    ),
    Mutant(
        row="memory-files",
        name="a file of this machine is the agent's to a front too",
        invariant="to a model front no file is known: the agent may be on another machine",
        where="proxy.model.files_judged:file_write",
        fault=replaced("prepared.hooked is not None", "True"),
        tests=one_test(_FILES, "test_a_file_of_this_machine_is_not_known_to_a_front"),
    ),
    Mutant(
        row="memory-patches",
        name="a patch that is not read whole names no file",
        invariant="what is not read waits in each place that it names",
        where="proxy.dialects.files.patch:patched_files",
        fault=replaced(
            "tuple((PatchedFile(path=path, edits=(whole,), unread=True) for path in named))", "()"
        ),
        tests=one_test(_PATCH, "test_of_a_patch_that_is_not_read_whole_each_file_is_named"),
    ),
    Mutant(
        row="stream-calls",
        name="a chunk of Gemini is forwarded before its calls are judged",
        invariant="no call reaches the agent unjudged",
        where="proxy.dialects.model.gemini.replies:GeminiEditor.feed",
        fault=replaced("b'' if waiting else self._forwarded()", "self._event.raw"),
        tests=one_test(
            _GEMINI, "test_of_parallel_calls_in_one_chunk_only_the_refused_one_becomes_a_text"
        ),
    ),
    Mutant(
        row="stream-calls",
        name="a call of Gemini in pieces is forwarded",
        invariant="a call that is not read whole ends the reply",
        where="proxy.dialects.model.gemini.replies:_Edited._take",
        fault=replaced("not call or not _IN_PIECES.isdisjoint(call)", "False"),
        tests=one_test(
            "tests/unit/proxy/dialects/model/test_one_reading.py", "test_no_frame_hides_a_call"
        ),
    ),
    Mutant(
        row="transcript",
        name="a result of Gemini is that of the oldest call",
        invariant="a result belongs to the call that it names",
        where="proxy.dialects.model.gemini.contents:_identified",
        fault=replaced("made.name == result.get('name')", "True"),
        tests=one_test(_CONTENTS, "test_a_result_is_that_of_its_call"),
    ),
    Mutant(
        row="transcript",
        name="a conversation that Google keeps is asked for",
        invariant="no history is forwarded that the gate has not read",
        where="proxy.dialects.model.gemini.contents:plain",
        fault=dropped("raise MalformedRequest(_CACHED, status=403)"),
        tests=one_test(
            "tests/integration/test_model_gemini.py",
            "test_a_cached_content_is_refused_and_counts_and_vectors_pass",
        ),
    ),
)
