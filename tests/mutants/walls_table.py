"""Faults in the walls around the gate: files of operators, listeners, two gates on one state."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_TRUSTED: Final = "storage/trusted_files.py"
_FILES: Final = "tests/unit/storage/test_trusted_files.py"
_GATES: Final = "tests/fault/test_two_gates.py"
_KEY: Final = "tests/unit/storage/test_store_key.py"
_PROCESSES: Final = "tests/unit/proxy/doctor/test_processes.py"
_RULES: Final = "tests/unit/proxy/dialects/mcp/test_class_rules.py"
_MALFORMED: Final = "tests/integration/test_http_malformed.py"
_PLACES: Final = "tests/unit/proxy/settings/test_places.py"

WALLS: Final = (
    Mutant(
        name="a file below another user's directory is taken",
        file=_TRUSTED,
        old="        _refuse_owner(entry, found)\n",
        new="",
        invariant="nobody else can exchange what an operator names",
        tests=(
            at(_FILES, "test_a_file_below_another_users_directory_is_refused"),
            at(_PLACES, "test_a_state_below_another_users_directory_is_refused"),
        ),
    ),
    Mutant(
        name="a directory that others can write is taken without the sticky bit",
        file=_TRUSTED,
        old="    if found.st_mode & stat.S_ISVTX:\n",
        new="    if others:\n",
        invariant="nobody else can exchange what an operator names",
        tests=(at(_FILES, "test_a_directory_that_others_can_write_needs_the_sticky_bit"),),
    ),
    Mutant(
        name="every group has nobody else in it",
        file=_TRUSTED,
        old="    return members <= {0, os.geteuid()}\n",
        new="    return True\n",
        invariant="what a group can write counts only where nobody else is in it",
        tests=(at(_FILES, "test_a_group_counts_by_who_else_is_in_it"),),
    ),
    Mutant(
        name="a pipe in place of a ruleset is taken",
        file=_TRUSTED,
        old='        raise UnfitFile("a regular file")\n',
        new="        pass\n",
        invariant="no file that is configured stops a start or a reload for good",
        tests=(at(_PLACES, "test_a_ruleset_that_became_a_pipe_stops_no_reload"),),
    ),
    Mutant(
        name="a state that is expected and not there is begun anew",
        file="proxy/settings/load.py",
        old="        if expected and not (state / MARKER).is_file():\n",
        new="        if not state and expected:\n",
        invariant="where a store is expected no empty one takes its place",
        tests=(at(_PLACES, "test_a_state_that_is_expected_and_there_starts"),),
    ),
    Mutant(
        name="a lock file that was cleared away lets a second gate in",
        file="storage/state_directory.py",
        old="            for one in (handle, itself):\n",
        new="            for one in (handle,):\n",
        invariant="one gate per state directory, whatever becomes of its lock files",
        tests=(at(_GATES, "test_who_clears_the_lock_files_away_lets_no_second_gate_in"),),
    ),
    Mutant(
        name="a gate goes on from what it remembers",
        file="storage/write/engine.py",
        old="        if self.parts.store.overtaken(draft) or draft.header() != self._durable:\n",
        new="        if draft.header() != self._durable:\n",
        more=(
            (
                "            if parts.store.overtaken(draft):\n",
                "            if parts.store.overtaken(draft) and self.broken:\n",
            ),
        ),
        invariant="no transaction follows on another process's but by the header it left",
        tests=(at(_GATES, "test_a_gate_that_was_overtaken_writes_nothing_more_and_says_so"),),
    ),
    Mutant(
        name="a file put in the store's place is written to",
        file="storage/tables/lmdb_store.py",
        old='            return (self.directory / "data.mdb").stat().st_ino != self._inode\n',
        new='            return (self.directory / "data.mdb").stat().st_ino == 0\n',
        more=(
            (
                "        except FileNotFoundError:\n            return True\n",
                "        except FileNotFoundError:\n            return False\n",
            ),
        ),
        invariant="nothing is answered that no start will find",
        tests=(at(_GATES, "test_a_state_that_was_moved_away_under_a_gate_takes_nothing_more"),),
    ),
    Mutant(
        name="any store key opens a store",
        file="storage/derived/recovery.py",
        old="    if known and known != key_check:\n",
        new="    if known and not key_check:\n",
        invariant="no other key voids the nonces that were spent",
        tests=(
            at(_KEY, "test_a_store_opens_with_no_other_store_key_and_an_auditor_is_told"),
            at(_KEY, "test_a_store_of_before_learns_its_key_with_its_next_transaction"),
        ),
    ),
    Mutant(
        name="a class rule is compared as it was typed",
        file="proxy/dialects/mcp/class_rules.py",
        old='    folded = skeleton(_CAMEL.sub(" ", text))\n',
        new="    folded = text\n",
        invariant="a class rule fits what its author reads in it",
        tests=(at(_RULES, "test_what_a_rule_says_is_what_it_fits"),),
    ),
    Mutant(
        name="a pattern repeats as often as it likes",
        file="proxy/dialects/mcp/class_rules.py",
        old="            if repeated or not pieces",
        new="            if not pieces",
        invariant="no text of an agent keeps a class rule from ending",
        tests=(at(_RULES, "test_a_pattern_that_may_not_end_is_refused"),),
    ),
    Mutant(
        name="chunks are read on any version",
        file="proxy/transport/request.py",
        old="        return not codings or (version == _HTTP_11 and ",
        new="        return not codings or (version in _SPOKEN and ",
        invariant="no reader finds another end of a request than ours",
        tests=(
            at(
                _MALFORMED,
                "test_chunks_on_http_1_0_are_refused_and_nothing_behind_them_is_answered",
            ),
        ),
    ),
    Mutant(
        name="doctor reaches for every gate of the machine",
        file="proxy/doctor/locate.py",
        old="    return _lock_holders(state) or tuple(\n",
        new="    return running_sidecars(uid) or tuple(\n",
        invariant="doctor traces no process but the gate in question",
        tests=(at(_PROCESSES, "test_only_the_gate_of_the_state_in_question_is_found"),),
    ),
)
