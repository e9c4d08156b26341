"""A backend is added by its folder, its name in `compose`, its section in the docs, and its tests.

The sample is put into a copy of the project. There the tests that keep order are asked, and the
sidecar of the copy is driven against the sample's own server.
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
pytestmark = [pytest.mark.share(of=2, turn=0), pytest.mark.timeout(400)]

SAMPLE: Final = Path(__file__).parent / "sample_backend"
FOLDER: Final = "proxy/backends/cards"
ADAPTER: Final = f"{FOLDER}/cards.py"
UNIT: Final = "tests/unit/proxy/backends/cards"
LINES_MAX: Final = 250
SECTION: Final = '## A server of cards (`adapter = "cards"`)'
RENAMED: Final = {"tests.integration.sample_backend.cards": "proxy.backends.cards.cards"}
# File -> what is there, and what is there with one backend more.
_CHROMA: Final = "from proxy.backends.chroma.chroma import Chroma\n"
EDITED: Final = {
    "proxy/compose/backends.py": (
        ('    "chroma": lambda', '    "cards": lambda _: Cards(),\n    "chroma": lambda'),
        (_CHROMA, f"from proxy.backends.cards.cards import Cards\n{_CHROMA}"),
    ),
    "docs/backends.md": (("## A Chroma server (", f"{SECTION}\n\n## A Chroma server ("),),
}
DRIVEN: Final = "tests/integration/test_backend_cards.py"

_IMPORTS: Final = "tests/unit/test_imports.py::"
_TIDY: Final = "tests/unit/test_tidy.py::"
_ROOMS: Final = "tests/unit/test_rooms.py::"
_FUZZ: Final = "tests/fuzz/test_fuzz_targets.py::"
ALLOWED_TEST: Final = f"{_IMPORTS}test_each_module_imports_only_what_its_package_may"
CLOCK_TEST: Final = f"{_IMPORTS}test_policy_and_dialects_wait_for_nothing_and_read_no_clock"
MIRROR_TEST: Final = f"{_TIDY}test_each_folder_of_code_has_a_folder_of_unit_tests_or_is_listed"
SECTION_TEST: Final = (
    "tests/unit/test_docs.py::test_each_adapter_of_a_memory_server_has_its_section"
)
GUARDS: Final = (
    ALLOWED_TEST,
    CLOCK_TEST,
    SECTION_TEST,
    MIRROR_TEST,
    f"{_TIDY}test_each_folder_of_unit_tests_mirrors_a_folder_of_code",
    f"{_ROOMS}test_no_module_imports_itself_round_a_corner_not_even_in_annotations",
    f"{_ROOMS}test_no_class_name_stands_for_three_things",
    f"{_FUZZ}test_a_decoder_keeps_its_word_for_its_corpus_and_variations_of_it[cards]",
    f"{_FUZZ}test_the_corpus_is_small_and_belongs_to_targets",
    UNIT,
    DRIVEN,
)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """A copy of the project with the sample in it; what stands here is all that it takes."""
    copy = Copy(tmp_path_factory.mktemp("grown") / "project")
    moved(copy, SAMPLE / "cards.py", ADAPTER, RENAMED)
    (copy.place / FOLDER / "__init__.py").write_text('"""A server of cards."""\n', "utf-8")
    moved(copy, SAMPLE / "test_cards.py", f"{UNIT}/test_cards.py", RENAMED)
    moved(copy, SAMPLE / "fuzz_target.py", "tests/fuzz/targets/cards.py", RENAMED)
    moved(copy, SAMPLE.with_name("test_sample_backend.py"), DRIVEN, RENAMED)
    shutil.copytree(SAMPLE / "corpus", copy.place / "tests/fuzz/corpus/cards")
    for file, changes in EDITED.items():
        edit(copy, file, changes)
    yield copy
    shutil.rmtree(copy.place)


def test_the_sample_is_small() -> None:
    assert len((SAMPLE / "cards.py").read_text("utf-8").splitlines()) <= LINES_MAX


def test_a_backend_takes_its_folder_a_name_in_compose_a_section_and_its_tests(grown: Copy) -> None:
    code, said = grown.run(GUARDS)
    assert code == 0, said[-4_000:]


def _impure(copy: Copy) -> str:
    text = (copy.place / ADAPTER).read_text("utf-8")
    return text.replace("import re\n", "import re\nimport time\n\nimport aiohttp\n", 1) + (
        "\n\nasync def fetched(session: aiohttp.ClientSession) -> float:\n"
        '    await session.get("http://127.0.0.1")\n'
        "    return time.time()\n"
    )


def test_control_a_backend_that_talks_has_no_section_or_shows_what_is_hidden_is_caught(
    grown: Copy,
) -> None:
    docs = (grown.place / "docs/backends.md").read_text("utf-8").replace(SECTION, "")
    text = (grown.place / ADAPTER).read_text("utf-8")
    shows = "return HttpReply(status=_MISSING) if places else reply"
    assert text.count(shows) == 1
    hidden = f"{DRIVEN}::test_a_quarantined_card_is_one_that_is_not_there_until_its_parole"
    with grown.text_of(ADAPTER, text.replace(shows, "return reply")):
        code, said = grown.run((hidden,))
    assert (code, failed_tests(said)) == (1, {hidden}), said[-4_000:]
    with grown.text_of(ADAPTER, _impure(grown)), grown.text_of("docs/backends.md", docs):
        tests = (ALLOWED_TEST, CLOCK_TEST, SECTION_TEST)
        code, said = grown.run((*tests, "--maxfail=9"))
        assert contracts(grown.place)[0] == 1
    assert (code, failed_tests(said)) == (1, {*tests}), said[-4_000:]


def test_the_import_contracts_hold_for_a_new_backend(grown: Copy) -> None:
    code, said = contracts(grown.place)
    assert code == 0, said
