"""The check of a whole store: its values, its log, its vectors, and what waits in staging.

A value that matches its digest, in a store whose total is right, is the one that the gate wrote. So
the tables are not compared with each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from storage.audit import Verifier, VerifierKey
from storage.ground.errors import StoreCorrupt
from storage.read.audit import EmbeddedView
from storage.tables.change import recount
from storage.tables.lmdb_store import View
from storage.tables.names import HELD, ROWS, VECTORS
from storage.tables.rows import text_of
from storage.values import CheckReport, Embed
from storage.write.engine import Engine

_PROBLEMS_MAX: Final = 1_000
_EMBEDDED_LEN: Final = 64  # the number of texts that are embedded at once
SAME_MIN: Final = 0.999
"""The least cosine of two vectors that one model made of one text: processors round differently."""


def check_store(engine: Engine, embed: Embed | None) -> CheckReport:
    """Check the whole store, while a writer may run, because the check reads one generation."""
    parts = engine.parts
    with parts.store.reading() as view:
        header = view.header()
        if header is None:
            return CheckReport(rows=0, vectors=0, leaves=0, version=0, problems=())
        verifier = Verifier(
            EmbeddedView(view),
            lambda _done, _total: None,
            copy=None,  # A start compares it.
            vkey=VerifierKey.of(parts.origin, parts.signer),
            log_key=None,
            copied=False,
        )
        found = verifier.run()
        problems = [str(one) for one in found.problems]
        staged = parts.staging.held_ids()
        waiting = [key.hex() for key in view.keys(HELD)]
        problems += [
            f"held candidate {one} is not in staging" for one in waiting if one not in staged
        ]
        try:
            recount(view, header)
            problems += _embeddings(view, header.embedder_id, embed)
        except (StoreCorrupt, msgspec.MsgspecError) as error:
            problems.append(str(error))
        return CheckReport(
            rows=found.rows,
            vectors=view.count(VECTORS),
            leaves=header.leaf_count,
            version=header.version,
            problems=tuple(problems[:_PROBLEMS_MAX]),
        )


def _embeddings(view: View, embedder_id: str, embed: Embed | None) -> Iterator[str]:
    """Embed each text again: a vector that the store made itself is in no leaf."""
    rows = _embedded(view, embedder_id)
    while embed is not None and (some := list(islice(rows, _EMBEDDED_LEN))):
        again = embed([text for _, text, _ in some])
        for (ordinal, _, vector), made in zip(some, again, strict=True):
            if np.dot(np.frombuffer(vector, "<f4"), np.frombuffer(made, "<f4")) < SAME_MIN:
                yield f"the vector of row {ordinal} is not that of its text"


def _embedded(view: View, embedder_id: str) -> Iterator[tuple[int, str, bytes]]:
    """Ordinal, text and vector of each row whose vector the store's own embedder made."""
    for key, row in view.records(ROWS, sound_only=True):
        vector = view.get(VECTORS, key)
        if row.embedder_id == embedder_id and vector:
            yield int.from_bytes(key, "big"), text_of(row)[0] or "", vector
