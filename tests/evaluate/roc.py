"""How well a paraphrase is found again: the containment matcher on real pairs, as a ROC curve.

Each note that a model made is compared with the remark that it was made of, and with remarks of
other people. The matcher names origins and changes no label, so what it misses is an origin without
a name.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.labels.containment import Prints, prints_of, resemblance
from tests.evaluate.attacks import Broken
from tests.evaluate.book import Book
from tests.evaluate.figures import share, skipped
from tests.evaluate.forged import CORPORA, corpora_directory
from tests.evaluate.tables import Beyond, Curve

_FILE: Final = "benign_observations.jsonl"
_OTHERS: Final = 5
_POINTS: Final = 60
_BEND: Final = 0.05


class _Note(msgspec.Struct, frozen=True):
    text: str
    conv: str
    evidence_text: tuple[str, ...] = ()


_NOTES: Final = msgspec.json.Decoder(_Note)


async def roc(book: Book) -> None:
    """Measure the ROC curve, its area, and the share of notes found at 1 % false matches."""
    directory = corpora_directory()
    path = None if directory is None else directory / _FILE
    if path is None or not path.is_file():
        why = f"{CORPORA} has no {_FILE}"
        book.beyond(Beyond(containment_roc=Curve(found_at_1_percent=skipped(why), points=())))
        return
    try:
        notes = [_NOTES.decode(line) for line in path.read_bytes().splitlines()]
    except msgspec.DecodeError as error:
        raise Broken(f"{_FILE} in {CORPORA} cannot be read") from error
    pairs = [(note, prints_of(note.text)) for note in notes if note.evidence_text]
    remarks = [(note.conv, prints_of(" ".join(note.evidence_text))) for note, _ in pairs]
    right = [_score(said, remark) for (_, said), (_, remark) in zip(pairs, remarks, strict=True)]
    draws = book.draws("roc")
    wrong: list[float] = []
    for note, said in pairs:
        others = [
            remark for conv, remark in draws.sample(remarks, 4 * _OTHERS) if conv != note.conv
        ]
        wrong += [_score(said, remark) for remark in others[:_OTHERS]]
    book.beyond(Beyond(containment_roc=_curve(right, wrong)))
    book.note("containment_roc", f"{len(right)} pairs, {len(wrong)} that have nothing in common")


def _score(said: Prints, remark: Prints) -> float:
    return float(resemblance(said, remark).score)


def _curve(right: list[float], wrong: list[float]) -> Curve:
    thresholds = sorted({*right, *wrong}, reverse=True)
    points = [(0.0, 0.0)]
    area, at_one = 0.0, 0
    for threshold in thresholds:
        found = sum(one >= threshold for one in right)
        false = sum(one >= threshold for one in wrong)
        x, y = false / len(wrong), found / len(right)
        area += (x - points[-1][0]) * (y + points[-1][1]) / 2
        points.append((x, y))
        if x <= 0.01:
            at_one = found
    step = max(1, len(points) // _POINTS)
    return Curve(
        found_at_1_percent=share(at_one, len(right)),
        area=round(area, 4),
        # The plot keeps more points at the beginning of the curve, where the curve bends.
        points=tuple(
            (round(x, 5), round(y, 5))
            for number, (x, y) in enumerate(points)
            if number % (max(1, step // 4) if x <= _BEND else step) == 0
            or number == len(points) - 1
        ),
    )
