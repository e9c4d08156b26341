"""Each language finds the orders and attacks among its own examples, and spares the others."""

from __future__ import annotations

import pytest

from policy.labels.derive import read_text
from policy.text.languages import LANGUAGES
from policy.text.phrases import Group, Lexicon
from policy.text.skeleton import skeleton
from tests.unit.policy import attack_texts
from tests.unit.policy.text.languages.examples import EXAMPLES

DIRECTIVES = [text for examples in EXAMPLES.values() for text in examples.directives]
INJECTIONS = [text for examples in EXAMPLES.values() for text in examples.injections]
HONEST = [text for examples in EXAMPLES.values() for text in examples.honest]
FULL = {"en", "de"}


@pytest.mark.parametrize("text", DIRECTIVES)
def test_a_directive_is_read_as_one(text: str) -> None:
    assert read_text(text, None).directive
    assert read_text(f"Notes of the day.\n{text}", None).directive


@pytest.mark.parametrize("text", INJECTIONS)
def test_an_injection_is_read_as_one(text: str) -> None:
    assert read_text(text, None).injection
    assert read_text(f"Notes of the day.\n{text}", None).injection


@pytest.mark.parametrize("text", HONEST)
def test_an_honest_text_is_neither(text: str) -> None:
    assert not read_text(text, None).flagged


@pytest.mark.parametrize("frame", attack_texts.FRAMES)
def test_no_frame_makes_an_order_harmless(frame: str) -> None:
    assert not read_text(frame.format("The library opens at nine."), None).flagged
    missed = [
        text
        for text in (*DIRECTIVES, *INJECTIONS)
        if not read_text(frame.format(text), None).flagged
    ]
    assert missed == []


def test_every_language_of_its_own_has_enough_examples() -> None:
    assert {spoken.name for spoken in LANGUAGES} == EXAMPLES.keys() >= FULL
    for name, examples in EXAMPLES.items():
        if name in FULL:
            assert min(len(examples.directives), len(examples.honest)) >= 30
            assert len(examples.injections) >= 20
        texts = (*examples.flagged, *examples.honest)
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("spoken", LANGUAGES, ids=lambda spoken: spoken.name)
def test_every_pattern_finds_an_example(spoken: Lexicon) -> None:
    shapes = [skeleton(text) for text in EXAMPLES[spoken.name].flagged]
    starts = [{place.end() for place in spoken.starts.finditer(shape)} for shape in shapes]
    idle = [
        group.words
        for group in spoken.groups
        if not any(
            _finds(group, shape, begins) for shape, begins in zip(shapes, starts, strict=True)
        )
    ]
    assert idle == []


def _finds(group: Group, shape: str, begins: set[int]) -> bool:
    patterns = dict(group.shapes.by_place)
    anywhere = patterns.pop("", None)
    return (
        (anywhere is not None and anywhere.search(shape) is not None)
        or any(reach.found(shape) for reach in group.shapes.reaching)
        or any(pattern.match(shape, begin) for pattern in patterns.values() for begin in begins)
    )
