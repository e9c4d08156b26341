"""Which texts of a refused candidate are withheld, and which texts are the sidecar's own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import cast

import msgspec

from policy.labels.forwarded_call import call_of
from policy.model import Candidate, ChangeKind, MemoryClass
from policy.verdict import Reason
from policy.withheld.words import WordHasher, WordPrint, prints_of
from proxy.seams.delivery import Way
from proxy.seams.observations import observation_for


def texts_of(candidate: Candidate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The texts of a candidate that are withheld if it is refused, and the names beside them.

    A deletion's texts name an existing memory, which stays visible if the deletion is refused.
    """
    if candidate.change in {ChangeKind.DELETE, ChangeKind.PURGE}:
        return (), ()
    call = call_of(candidate)
    scope = candidate.scope
    names = (
        *(candidate.target, candidate.role, candidate.actor),
        *(scope.user_id, scope.agent_id, scope.run_id, scope.app_id),
    )
    beside = (*strings_of(candidate.metadata_json), *(name for name in names if name))
    if call is not None:
        return call.pieces, beside
    return ((candidate.text,) if candidate.text else ()), beside


def strings_of(metadata_json: str | None) -> Iterator[str]:
    """Every string in the metadata, including the keys."""
    if metadata_json is not None:
        yield from strings_in(msgspec.json.decode(metadata_json))


def strings_in(value: object) -> Iterator[str]:
    """Every string in a JSON value, including the keys."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            pending += cast("list[object]", part)
        elif isinstance(part, dict):
            for key, inner in cast("dict[str, object]", part).items():
                pending += (key, inner)


def candidate_prints(printer: WordHasher, candidate: Candidate) -> list[WordPrint]:
    """The prints of all that is withheld of a candidate. Any thread."""
    texts, beside = texts_of(candidate)
    # The strings of the metadata come first in `beside`. They are hashed together, as they are
    # again when the memory is shown.
    strings = tuple(strings_of(candidate.metadata_json)) if beside else ()
    return prints_of(printer, texts, beside[len(strings) :], strings)


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
