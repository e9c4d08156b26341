"""Evidence that needs a model of the text or the operator's anchors, gathered before the gate.

Cognitive staging (MWP 3.2, check 8): the candidate is put in a shadow of the retrieval, never in
the real index, and the shadow is asked each anchor's own questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from policy.anchors import contradicts, outranks
from policy.facts import AnchorProbe
from policy.skeleton import skeleton
from proxy.vectors import takes_client_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policy.labels import Reading
    from policy.model import Tenant
    from storage.interfaces import Anchor, Embedder, MemoryReader


class _Prepared:
    """One anchor with its vectors; built once per anchor set."""

    __slots__ = ("anchor", "questions", "scores", "skeleton")

    def __init__(self, anchor: Anchor, embedder: Embedder) -> None:
        self.anchor = anchor
        self.skeleton = skeleton(anchor.statement)
        vectors = embedder.embed([anchor.statement, *anchor.questions])
        rows = np.stack([np.frombuffer(vector, dtype="<f4") for vector in vectors])
        self.questions: NDArray[np.float32] = rows[1:]
        self.scores: NDArray[np.float32] = self.questions @ rows[0]


class Shadow:
    """Asks the anchors of a tenant about a candidate. Event loop only; caches per anchor set."""

    def __init__(self, reader: MemoryReader, embedder: Embedder) -> None:
        self._reader = reader
        self._embedder = embedder
        self._prepared: dict[Tenant, tuple[tuple[Anchor, ...], tuple[_Prepared, ...]]] = {}

    def probe(
        self, tenant: Tenant, reading: Reading, vector: bytes, margin: float
    ) -> tuple[AnchorProbe, ...] | None:
        """One probe per anchor of the tenant; () where it has none or the change has no text.

        None where nobody can ask them: a store of client vectors has no model for the questions.
        """
        anchors = self._reader.anchors(tenant)
        if not anchors or not vector:
            return ()
        if takes_client_vectors(self._embedder):
            return None
        candidate = np.frombuffer(vector, dtype="<f4")
        probes: list[AnchorProbe] = []
        for prepared in self._of(tenant, anchors):
            scores = prepared.questions @ candidate
            probes.append(
                AnchorProbe(
                    anchor_id=prepared.anchor.anchor_id,
                    outranks=any(
                        outranks(float(own), float(other), margin)
                        for own, other in zip(prepared.scores, scores, strict=True)
                    ),
                    contradicts=contradicts(prepared.skeleton, reading.skeleton),
                )
            )
        return tuple(probes)

    def _of(self, tenant: Tenant, anchors: tuple[Anchor, ...]) -> tuple[_Prepared, ...]:
        known = self._prepared.get(tenant)
        if known is None or known[0] != anchors:
            known = (anchors, tuple(_Prepared(anchor, self._embedder) for anchor in anchors))
            self._prepared[tenant] = known
        return known[1]
