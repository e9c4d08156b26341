"""The views of a tenant's memories, each computed in one walk over the rows."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import faiss  # pyright: ignore[reportMissingTypeStubs] - its stubs cover a part of what is used
import numpy as np

from policy.model import MemoryStatus, PrincipalId
from storage.derived.lexical.analysis import STOP_WORDS
from storage.features.selections import Selector, paced
from storage.features.views import Categories, OriginView, Preference, Topic
from storage.questions import Selection
from storage.tables.change import read_verdict
from storage.tables.codec import ordinal_key
from storage.tables.lmdb_store import View
from storage.tables.names import VECTORS
from storage.tables.rows import read_row, text_of
from storage.values import Row
from storage.write.seam import Feature

_Names = tuple[tuple[str, str], ...]

_faiss: Final[Any] = faiss
_SEED: Final = 7
_NEAREST_MAX: Final = 200
_SHOWN: Final = 3
_IDS_MAX: Final = 100
_SUREST: Final = 0.95
# Scripts without spaces between words give two characters at a time.
_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}|[^\W\d_]{3,}")


class Views(Feature):
    """Views of the memories of a selection. Blocking; any thread. Each call reads every row."""

    def select(self, asked: Selection, *, hidden: bool = False) -> dict[int, float | None]:
        """The newest rows of matching memories, newest first, or those most like the named first.

        Maps each ordinal to the cosine, if likeness was asked for.
        """
        with self._store.reading() as view:
            memories = Selector(view, self._names, asked).memories(self._clock(), hidden=hidden)
            found = [(one.cosine or 0.0, one.ordinal, one.cosine) for one in memories]
        return {ordinal: cosine for _, ordinal, cosine in sorted(found, reverse=True)}

    def origins(self, asked: Selection, shown: Counter[int]) -> tuple[OriginView, ...]:
        """What each origin brought in, those of most memories first.

        `shown` counts how often reads showed each row.
        """
        found: Counter[tuple[_Names, str, bool]] = Counter()
        shares: Counter[tuple[_Names, str]] = Counter()
        with self._store.reading() as view:
            selector = Selector(view, self._names, asked)
            for one in selector.memories(self._clock(), hidden=True):
                is_live = one.status is MemoryStatus.LIVE
                found[_origins(view, one.row), one.row.source.value, is_live] += 1
            for ordinal, count in paced(shown.items()):
                row = read_row(view, ordinal)
                if selector.takes(ordinal_key(ordinal), row):
                    shares[_origins(view, row), row.source.value] += count
        views = {
            (by, name): OriginView(by=by, name=name, labels=Counter(), shares=defaultdict(float))
            for origins in {key[0] for key in found} | {key[0] for key in shares}
            for by, name in origins
        }
        for (origins, label, is_live), count in found.items():
            for origin in map(views.__getitem__, origins):
                if is_live:
                    origin.labels[label] += count
                else:
                    origin.hidden += count
        for (origins, label), count in shares.items():
            for origin in map(views.__getitem__, origins):
                origin.shares[label] += count / shown.total()
        return tuple(
            sorted(
                views.values(),
                key=lambda one: (-one.hidden - sum(one.labels.values()), one.by, one.name),
            )
        )

    def topics(self, asked: Selection, count: int) -> tuple[Topic, ...]:
        """At most `count` clusters of the live memories with vectors, the largest first.

        The same memories give the same topics. Memories of another embedder than that of the newest
        are left out.
        """
        with self._store.reading() as view:
            memories = Selector(view, self._names, asked).memories(self._clock())
            found = [one for one in memories if one.row.embedder_id]
            found = [one for one in found if one.row.embedder_id == found[-1].row.embedder_id]
            if not found:
                return ()
            stored = [view.get(VECTORS, ordinal_key(one.ordinal)) or b"" for one in paced(found)]
            vectors = np.frombuffer(b"".join(stored), "<f4").reshape(len(found), -1)
            clusters = _faiss.Kmeans(
                vectors.shape[1],
                min(count, len(found)),
                seed=_SEED,
                spherical=True,
                min_points_per_centroid=1,
            )
            clusters.train(vectors)
            cosines, nearest = clusters.index.search(vectors, 1)
            order: list[int] = np.argsort(-cosines[:, 0], kind="stable").tolist()
            numbers: list[int] = nearest[:, 0].tolist()
            topics = [
                [found[at].row for at in order if numbers[at] == number]
                for number in sorted(set(numbers))
            ]
            topics.sort(key=len, reverse=True)
            words = [Counter(_words(rows[:_NEAREST_MAX])) for rows in topics]
            everywhere = sum(words, Counter[str]())
            return tuple(
                Topic(
                    name=", ".join(
                        # The words that this topic has often, and the others have seldom.
                        sorted(own, key=lambda word: (-(own[word] ** 2) / everywhere[word], word))[
                            :_SHOWN
                        ]
                    ),
                    size=len(rows),
                    labels=Counter(row.source.value for row in rows),
                    origins=Counter([*_origins(view, row)][-1][1] for row in rows[:_NEAREST_MAX]),
                    nearest=tuple(row.memory_id for row in rows[:_SHOWN]),
                )
                for rows, own in zip(topics, words, strict=True)
            )

    def preferences(self, asked: Selection, categories: Categories) -> tuple[Preference, ...]:
        """The choices that the live memories of each principal name, the surest of each first."""
        meant = {
            _plain(spelling): (category, choice)
            for category, choices in categories.items()
            for choice, spellings in choices.items()
            for spelling in spellings or (choice,)
        }
        # Of two spellings of which one begins with the other, the longer is tried first.
        spelled = "|".join(map(re.escape, sorted(meant, key=len, reverse=True)))
        pattern = re.compile(rf"(?<![\w+#])(?:{spelled})(?![\w+#])")
        found: defaultdict[tuple[PrincipalId, str, str], list[Row]] = defaultdict(list)
        sessions: defaultdict[tuple[PrincipalId, str, str], set[str | None]] = defaultdict(set)
        draws: Counter[tuple[PrincipalId, str]] = Counter()
        with self._store.reading() as view:
            for one in Selector(view, self._names, asked).memories(self._clock()):
                row = one.row
                named = pattern.findall(_plain(text_of(row)[0] or ""))
                for category, choice in {meant[spelling] for spelling in named}:
                    # A session counts once, and so does all that is of no known session.
                    session = read_verdict(view, row.leaf_index).session
                    key = (row.principal_id, category, choice)
                    draws[key[:2]] += session not in sessions[key]
                    sessions[key].add(session)
                    found[key].append(row)
        preferences = [
            Preference(
                principal_id=key[0],
                category=key[1],
                choice=key[2],
                confidence=min(_SUREST, (len(sessions[key]) + 1) / (draws[key[:2]] + 2)),
                sessions=len(sessions[key]),
                labels=Counter(row.source.value for row in rows),
                memory_ids=tuple(row.memory_id for row in reversed(rows[-_IDS_MAX:])),
            )
            for key, rows in found.items()
        ]
        return tuple(
            sorted(
                preferences,
                key=lambda one: (one.principal_id, one.category, -one.sessions, one.choice),
            )
        )


def _origins(view: View, row: Row) -> _Names:
    """The kinds and names of the origins of a row, the most exact one last."""
    leaf = read_verdict(view, row.leaf_index)
    server, tool = (leaf.culprit.server, leaf.culprit.tool) if leaf.culprit else (None, None)
    names = {
        "session": leaf.session,
        "principal": row.principal_id,
        "server": server,
        "tool": f"{server}/{tool}" if server and tool else None,
    }
    return tuple((by, name) for by, name in names.items() if name)


def _words(rows: Iterable[Row]) -> Iterator[str]:
    """The words of the rows' texts, each once for each text that has it."""
    for row in rows:
        yield from set(_WORD.findall(_plain(text_of(row)[0] or ""))) - STOP_WORDS


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
