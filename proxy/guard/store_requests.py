"""The operations that a relay in store mode may ask of the gate's own store. Pure.

Any agent's process can connect to the gate's socket, so a relay's operation is checked here as
a dialect checks a client's. Every operation that store mode does not need is refused.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from policy.model import METADATA_LEN_MAX, TEXT_LEN_MAX, ChangeKind
from proxy.dialects.mcp.store.graph import ENTITIES, OBSERVATIONS, RELATIONS
from proxy.dialects.native.wire import UUID_PATTERN
from proxy.dialects.strict_json.strict import canonical_json, decode_object
from proxy.seams.faults import MalformedRequest
from proxy.seams.operation import (
    BATCH_LEN_MAX,
    SEARCH_LIMIT_MAX,
    Operation,
    Proposal,
    Search,
    Write,
)

_UUID: Final = re.compile(UUID_PATTERN)
_PLAIN: Final = Proposal(change=ChangeKind.CREATE)
_TARGETS: Final = frozenset({_PLAIN.target, ENTITIES, OBSERVATIONS, RELATIONS})
# The fields of a proposal that a relay may set. Every other field, also one that is added later,
# is set by other dialects, the guard or an operator.
_FIELDS: Final = frozenset(
    {"change", "memory_id", "text", "metadata_json", "target", "memory_class"}
)


def require_store_request(operation: Operation) -> None:
    """Return if a relay in store mode may ask for the operation.

    Raises:
        MalformedRequest: The relay may not ask for it; nothing was done.
    """
    match operation:
        case Write():
            good = 0 < len(operation.proposals) <= BATCH_LEN_MAX
            good = good and all(map(_is_stores, operation.proposals))
        case Search():
            asked = _others(operation, frozenset({"query", "limit"})) == _SEARCH
            good = asked and bool(operation.query) and 0 < operation.limit <= SEARCH_LIMIT_MAX
        case _:
            good = False
    if not good:
        raise MalformedRequest("operation: not what a relay may ask for here")


def _others(struct: msgspec.Struct, named: frozenset[str]) -> dict[str, object]:
    fields = msgspec.structs.asdict(struct).items()
    return {name: value for name, value in fields if name not in named}


_OURS: Final = _others(_PLAIN, _FIELDS)
_SEARCH: Final = _others(Search(), frozenset({"query", "limit"}))


def _is_stores(proposal: Proposal) -> bool:
    if _others(proposal, _FIELDS) != _OURS or proposal.target not in _TARGETS:
        return False
    memory_id, text, metadata_json = proposal.memory_id, proposal.text, proposal.metadata_json
    if proposal.change is ChangeKind.DELETE:
        named = memory_id is not None and _UUID.fullmatch(memory_id) is not None
        return named and text is None and metadata_json is None
    if proposal.change is not ChangeKind.CREATE or memory_id is not None or not text:
        return False
    # Every reader of the memory decodes its stored metadata as one JSON object.
    given = metadata_json or "{}"
    value = decode_object(given.encode(), each_judged=True)
    whole = isinstance(value, dict) and canonical_json(value) == given
    return whole and len(text) <= TEXT_LEN_MAX and len(given) <= METADATA_LEN_MAX
