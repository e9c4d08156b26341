"""The views of a tenant's memories, each computed in one walk over the rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from policy.model import MemoryStatus
from storage.features.selections import Selector, paced
from storage.features.views import OriginView
from storage.questions import Selection
from storage.tables.change import read_verdict
from storage.tables.codec import ordinal_key
from storage.tables.lmdb_store import View
from storage.tables.rows import read_row
from storage.values import Row
from storage.write.seam import Feature


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
        views: dict[tuple[str, str], OriginView] = {}
        total = shown.total()
        with self._store.reading() as view:
            selector = Selector(view, self._names, asked)
            for one in selector.memories(self._clock(), hidden=True):
                for origin in _views_of(view, one.row, views):
                    origin.labels[one.row.source.value] += one.status is MemoryStatus.LIVE
                    origin.hidden += one.status is not MemoryStatus.LIVE
            for ordinal, count in paced(shown.items()):
                row = read_row(view, ordinal)
                if selector.takes(ordinal_key(ordinal), row):
                    for origin in _views_of(view, row, views):
                        origin.shares[row.source.value] += count / total
        return tuple(sorted(views.values(), key=lambda one: -one.hidden - sum(one.labels.values())))


def _origins(view: View, row: Row) -> Iterator[tuple[str, str]]:
    """The kinds and names of the origins of a row, the most exact one last."""
    leaf = read_verdict(view, row.leaf_index)
    if leaf.session is not None:
        yield "session", leaf.session
    yield "principal", row.principal_id
    if leaf.culprit is not None and leaf.culprit.server:
        yield "server", leaf.culprit.server
        if leaf.culprit.tool:
            yield "tool", f"{leaf.culprit.server}/{leaf.culprit.tool}"


def _views_of(
    view: View, row: Row, views: dict[tuple[str, str], OriginView]
) -> Iterator[OriginView]:
    """The views of the origins of a row, made where there is none yet."""
    for by, name in _origins(view, row):
        if (by, name) not in views:
            views[by, name] = OriginView(
                by=by, name=name, labels=Counter(), shares=defaultdict(float)
            )
        yield views[by, name]
