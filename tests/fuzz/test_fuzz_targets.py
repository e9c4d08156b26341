"""Every decoder against its corpus and variations of it; under atheris in the heavy share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conftest import HEAVY
from tests.fuzz.__main__ import fuzz
from tests.fuzz.atheris_environment import AtherisMissing, atheris_path
from tests.fuzz.mutations import mutations
from tests.fuzz.registry import CORPUS, PLANTED, TARGETS, Target, load
from tests.shares import TODAY

VARIATIONS = 1_500 if HEAVY else 300
DAY = TODAY if HEAVY else 0
SECONDS = 5
CORPUS_BYTES_MAX = 100_000


@pytest.mark.parametrize("name", TARGETS)
def test_a_decoder_keeps_its_word_for_its_corpus_and_variations_of_it(name: str) -> None:
    target = load(name)
    for data in (*target.seeds(), *mutations(target, VARIATIONS, DAY)):
        try:
            target.check(data)
        except Exception as error:
            error.add_note(f"input: {data!r}")
            raise


def test_control_variations_of_a_corpus_find_a_planted_fault() -> None:
    target = load(PLANTED)
    for data in target.seeds():
        target.check(data)
    with pytest.raises(IndexError):
        _check_all(mutations(target, 300), target)


def _check_all(inputs: Iterable[bytes], target: Target) -> None:
    for data in inputs:
        target.check(data)


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    folders = {path.name for path in CORPUS.iterdir()}
    assert folders == {*TARGETS, PLANTED}
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < CORPUS_BYTES_MAX


@pytest.fixture(scope="module")
def _atheris() -> None:
    try:
        atheris_path()
    except AtherisMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.heavy
@pytest.mark.share(of=3)
@pytest.mark.usefixtures("_atheris")
@pytest.mark.parametrize("name", TARGETS)
def test_a_fuzzer_that_follows_coverage_finds_nothing_in_seconds(name: str, tmp_path: Path) -> None:
    run = fuzz(name, SECONDS, tmp_path)
    assert not run.broke, run.log.read_text("utf-8", "replace")[-4_000:]
    assert run.executions > 0
    assert run.covered > 0


@pytest.mark.heavy
@pytest.mark.usefixtures("_atheris")
def test_control_a_fuzzer_that_follows_coverage_finds_a_planted_fault(tmp_path: Path) -> None:
    run = fuzz(PLANTED, SECONDS, tmp_path)
    assert run.broke
    assert "IndexError" in run.log.read_text("utf-8", "replace")
