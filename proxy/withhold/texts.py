"""Which texts of a refused candidate are withheld, and which texts are the sidecar's own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from typing import NamedTuple, cast

import msgspec

from policy.labels.forwarded_call import call_of
from policy.model import Candidate, ChangeKind, MemoryClass
from policy.verdict import Reason
from proxy.seams.observations import Way, observation_for


class CandidateTexts(NamedTuple):
    """The texts of a candidate that are withheld if it is refused, and the strings beside them.

    A deletion has none: its texts name an existing memory, which stays visible if the deletion is
    refused.
    """

    texts: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()  # of the metadata
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of characters of all texts, strings and names."""
        return sum(map(len, chain(*self)))


def texts_of(candidate: Candidate) -> CandidateTexts:
    """The texts of a candidate that are withheld if it is refused."""
    if candidate.change in {ChangeKind.DELETE, ChangeKind.PURGE}:
        return CandidateTexts()
    call = call_of(candidate)
    scope = candidate.scope
    names = (
        *(candidate.target, candidate.role, candidate.actor),
        *(scope.user_id, scope.agent_id, scope.run_id, scope.app_id),
    )
    texts = (candidate.text,) if call is None else call.pieces
    return CandidateTexts(
        tuple(filter(None, texts)), strings_of(candidate.metadata_json), tuple(filter(None, names))
    )


def strings_of(metadata_json: str | None) -> tuple[str, ...]:
    """Every string in the metadata, including the keys."""
    return () if metadata_json is None else strings_in(msgspec.json.decode(metadata_json))


def strings_in(value: object) -> tuple[str, ...]:
    """Every string in a JSON value, including the keys."""
    found: list[str] = []
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, list):
            pending += cast("list[object]", part)
        elif isinstance(part, dict):
            for key, inner in cast("dict[str, object]", part).items():
                pending += (key, inner)
    return tuple(found)


def own_texts(page: str | None = None) -> Iterator[str]:
    """Every observation about a candidate that an agent may be shown.

    `page` is the address, without the candidate's id, of the page where a person decides.
    """
    for reason, memory_class in product(Reason, MemoryClass):
        yield observation_for("reject", reason, memory_class)
        kinds = product(
            (ChangeKind.CREATE, ChangeKind.DELETE), (Way.STORE, Way.AGENT), (False, True)
        )
        for change, way, again in kinds:
            yield observation_for(
                "hold", reason, memory_class, change, page=page, way=way, again=again
            )
