"""Skeletons, directive and injection language, contradiction: any text is read, none raises."""

from __future__ import annotations

from policy.anchors import contradicts
from policy.labels.derive import read_text
from policy.text.characters import odd_character
from policy.text.skeleton import skeleton
from tests.fuzz.choices import words

WORDS = words(
    """
    always never from now on ignore previous instructions you must system: assistant </s>
    remember to forget i g n o r e i.g.n.o.r.e \u0456gnore \u200b \uff21 e\u0301 😀 not is 14
    days "quoted" {"k":"v"} . , \u3002 \u2019
    """
)


def check(data: bytes) -> None:
    first, separator, second = _text_of(data).partition("\0")
    metadata = second if separator else None
    reading = read_text(first, metadata)
    alone = read_text(first, None)
    assert reading.skeleton == alone.skeleton == skeleton(first)
    assert reading.directive >= alone.directive
    assert reading.injection >= alone.injection
    if first.isascii():
        assert skeleton(reading.skeleton) == reading.skeleton
    illegal = odd_character(first)
    at = int(illegal.rpartition(" ")[2]) if illegal else -1
    assert not illegal or illegal.startswith(f"U+{ord(first[at]):04X} ")
    contradicts(skeleton("Refunds are paid within 14 days."), reading.skeleton)
    contradicts(reading.skeleton, skeleton(second))


def _text_of(data: bytes) -> str:
    """Text that may hold surrogates, as a decoder before us could have let them through."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")
