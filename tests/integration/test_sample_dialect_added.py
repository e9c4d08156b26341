"""A dialect is added by its folder, its name in `compose`, its row in the docs, and its tests.

The sample is put into a copy of the project, and the tests that keep order there are asked.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.integration.growing import contracts, edit, failed_tests, moved
from tests.mutants.running import Copy

# Tests run within a test: for a busy machine.
pytestmark = [pytest.mark.share(of=2, turn=1), pytest.mark.timeout(400)]

SAMPLE: Final = Path(__file__).parent / "sample_dialect"
FOLDER: Final = "proxy/dialects/notes"
DIALECT: Final = f"{FOLDER}/notes.py"
UNIT: Final = "tests/unit/proxy/dialects/notes"
RENAMED: Final = {"tests.integration.sample_dialect.notes": "proxy.dialects.notes.notes"}
ROW: Final = "| `notes` | `/notes`, `Notes-Key` | robust to an untrusted client |"
# File -> what is there, and what is there with one dialect more.
EDITED: Final = {
    "proxy/compose/dialects.py": (
        ("LangGraphStore())", "LangGraphStore(), Notes())"),
        (
            "import Native\n",
            "import Native\nfrom proxy.dialects.notes.notes import Notes\n",
        ),
    ),
    "docs/clients.md": (("\n\n## Mem0\n", f"\n{ROW}\n\n## Mem0\n"),),
}

_IMPORTS: Final = "tests/unit/test_imports.py::"
_TIDY: Final = "tests/unit/test_tidy.py::"
_ROOMS: Final = "tests/unit/test_rooms.py::"
_FUZZ: Final = "tests/fuzz/test_fuzz_targets.py::"
ALLOWED_TEST: Final = f"{_IMPORTS}test_each_module_imports_only_what_its_package_may"
CLOCK_TEST: Final = f"{_IMPORTS}test_policy_and_dialects_wait_for_nothing_and_read_no_clock"
POSTURE_TEST: Final = "tests/unit/test_docs.py::test_each_dialect_states_its_posture"
MIRROR_TEST: Final = f"{_TIDY}test_each_folder_of_code_has_a_folder_of_unit_tests_or_is_listed"
GUARDS: Final = (
    ALLOWED_TEST,
    CLOCK_TEST,
    f"{_IMPORTS}test_environment_and_untyped_json_are_read_in_one_place",
    f"{_IMPORTS}test_exceptions_are_caught_broadly_where_the_answer_is_no_or_they_are_raised_again",
    POSTURE_TEST,
    MIRROR_TEST,
    f"{_TIDY}test_each_folder_of_unit_tests_mirrors_a_folder_of_code",
    f"{_TIDY}test_no_file_is_longer_than_600_lines_without_a_reason",
    f"{_ROOMS}test_no_module_imports_itself_round_a_corner_not_even_in_annotations",
    f"{_ROOMS}test_a_file_name_stands_for_one_thing_in_a_package_or_is_listed[proxy]",
    f"{_ROOMS}test_no_class_name_stands_for_three_things",
    f"{_FUZZ}test_a_decoder_keeps_its_word_for_its_corpus_and_variations_of_it[notes]",
    f"{_FUZZ}test_the_corpus_is_small_and_belongs_to_targets",
    "tests/unit/proxy/settings/test_model.py",
    UNIT,
)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """A copy of the project with the sample in it; what stands here is all that it takes."""
    copy = Copy(tmp_path_factory.mktemp("grown") / "project")
    moved(copy, SAMPLE / "notes.py", DIALECT, RENAMED)
    (copy.place / FOLDER / "__init__.py").write_text('"""The memory API of notes."""\n', "utf-8")
    moved(copy, SAMPLE / "test_notes.py", f"{UNIT}/test_notes.py", RENAMED)
    moved(copy, SAMPLE / "fuzz_target.py", "tests/fuzz/targets/notes.py", RENAMED)
    shutil.copytree(SAMPLE / "corpus", copy.place / "tests/fuzz/corpus/notes")
    for file, changes in EDITED.items():
        edit(copy, file, changes)
    yield copy
    shutil.rmtree(copy.place)


def test_a_dialect_takes_its_folder_a_name_in_compose_a_row_and_its_tests(grown: Copy) -> None:
    code, said = grown.run(GUARDS)
    assert code == 0, said[-4_000:]


def _impure(copy: Copy) -> str:
    text = (copy.place / DIALECT).read_text("utf-8")
    return text.replace("import re\n", "import re\nimport time\n\nimport aiohttp\n", 1) + (
        "\n\nasync def fetched(session: aiohttp.ClientSession) -> float:\n"
        '    await session.get("http://127.0.0.1")\n'
        "    return time.time()\n"
    )


def test_control_a_dialect_that_talks_says_nothing_in_the_docs_or_has_no_tests_is_caught(
    grown: Copy,
) -> None:
    clients = (grown.place / "docs/clients.md").read_text("utf-8").replace(f"{ROW}\n", "")
    hidden = grown.place / UNIT / "test_notes.py"
    aside = hidden.rename(hidden.with_suffix(".aside"))
    try:
        with grown.text_of(DIALECT, _impure(grown)), grown.text_of("docs/clients.md", clients):
            tests = (ALLOWED_TEST, CLOCK_TEST, POSTURE_TEST, MIRROR_TEST)
            code, said = grown.run((*tests, "--maxfail=9"))
    finally:
        aside.rename(hidden)
    assert code == 1
    assert failed_tests(said) == {*tests}, said[-4_000:]


def test_the_import_contracts_hold_for_a_new_dialect_and_catch_one_that_talks(grown: Copy) -> None:
    code, said = contracts(grown.place)
    assert code == 0, said
    with grown.text_of(DIALECT, _impure(grown)):
        code, said = contracts(grown.place)
    assert code == 1
    assert "proxy.dialects.notes.notes -> aiohttp" in said
