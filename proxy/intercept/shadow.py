"""Evidence that needs an embedding model or the operator's anchors, gathered before the gate.

An anchor is a statement that an operator wants to stay retrievable, with questions that lead to it.
Cognitive staging (MWP 3.2, check 8): the candidate is put in a shadow of the retrieval, never in
the real index, and each anchor's questions are asked of that shadow.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy.anchors import Statements, lines_of, outranks
from policy.facts import AnchorProbe
from policy.model import Candidate, ChangeKind, Memory, Tenant
from policy.text.skeleton import skeleton
from proxy.intercept.client_vectors import takes_client_vectors
from proxy.seams.embedder import Embedder
from storage.interfaces import MemoryReader
from storage.values import Anchor


class _Asked:
    """The anchors of a tenant, embedded for comparison.

    They are embedded once for each set of anchors.
    """

    __slots__ = ("_places", "_questions", "_scores", "anchors", "statements")

    def __init__(self, anchors: tuple[Anchor, ...], embedder: Embedder) -> None:
        self.anchors = anchors
        self.statements = Statements([skeleton(anchor.statement) for anchor in anchors])
        # For each question of all anchors the place of its anchor, and how similar the two are.
        self._places = [at for at, one in enumerate(anchors) for _ in one.questions]
        texts = [one.statement for one in anchors]
        texts += [question for one in anchors for question in one.questions]
        rows = np.stack([np.frombuffer(vector, "<f4") for vector in embedder.embed(texts)])
        self._questions: NDArray[np.float32] = rows[len(anchors) :]
        # Computed as those of a text are, so that a text that is the statement does not differ.
        stated = [self._questions @ row for row in rows[: len(anchors)]]
        self._scores = [float(stated[place][at]) for at, place in enumerate(self._places)]

    def outranked_by(self, vector: bytes, margin: float) -> set[int]:
        """The places of the anchors that a text outranks for one of their questions."""
        scores: list[float] = (self._questions @ np.frombuffer(vector, "<f4")).tolist()
        compared = zip(self._places, self._scores, scores, strict=True)
        return {place for place, own, other in compared if outranks(own, other, margin)}


class Recallable(msgspec.Struct, frozen=True, kw_only=True):
    """What a recall would show once the candidate is stored, unchanged parts included.

    `vector` is the text's embedding; b"" where it has none yet.
    """

    text: str | None
    metadata_json: str | None = None
    vector: bytes = b""


def shown_of(candidate: Candidate, vector: bytes, stored: Memory | None) -> Recallable:
    """The strings that a recall of the candidate would show.

    An update inherits what it leaves out.
    """
    text, metadata_json = candidate.text, candidate.metadata_json
    if candidate.change is ChangeKind.UPDATE and stored is not None:
        text = stored.text if text is None else text
        metadata_json = stored.metadata_json if metadata_json is None else metadata_json
    return Recallable(text=text, metadata_json=metadata_json, vector=vector)


class Shadow:
    """Puts a tenant's anchors' questions to a trial search. Event loop only.

    What it computes for a set of anchors is cached.
    """

    def __init__(self, reader: MemoryReader, embedder: Embedder) -> None:
        self._reader = reader
        self._embedder = embedder
        self._prepared: dict[Tenant, _Asked] = {}

    def probe(
        self, tenant: Tenant, shown: Recallable, margin: float
    ) -> tuple[AnchorProbe, ...] | None:
        """One probe per anchor of the tenant.

        () without anchors, or if the candidate shows no text.

        None if the anchors cannot be asked: a store of client vectors has no model to embed the
        questions.
        """
        anchors = self._reader.anchors(tenant)
        if not anchors or not (shown.text or shown.metadata_json):
            return ()
        if takes_client_vectors(self._embedder):
            return None
        said = [skeleton(shown.text)] if shown.text else []
        if shown.metadata_json:
            said.append(skeleton(lines_of(shown.metadata_json)))
        vector = shown.vector
        if shown.text and not vector:
            vector = self._embedder.embed([shown.text])[0]
        asked = self._of(tenant, anchors)
        contradicted = set[int]().union(*map(asked.statements.contradicted_by, said))
        outranked = asked.outranked_by(vector, margin) if vector else set[int]()
        return tuple(
            [
                AnchorProbe(
                    anchor_id=anchor.anchor_id,
                    outranks=place in outranked,
                    contradicts=place in contradicted,
                )
                for place, anchor in enumerate(anchors)
            ]
        )

    def _of(self, tenant: Tenant, anchors: tuple[Anchor, ...]) -> _Asked:
        known = self._prepared.get(tenant)
        if known is None or known.anchors != anchors:
            known = self._prepared[tenant] = _Asked(anchors, self._embedder)
        return known
