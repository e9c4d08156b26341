"""Faults in the walls around the gate: files of operators, listeners, two gates on one state."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_TRUSTED: Final = "storage/trusted_files.py"
_FILES: Final = "tests/unit/storage/test_trusted_files.py"
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
)
