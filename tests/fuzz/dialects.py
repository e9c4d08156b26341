"""Promises of every dialect, for every request that the intake lets through."""

from __future__ import annotations

import msgspec

from policy.canonical import canonical_bytes, decode_canonical
from policy.labels.derive import read_text
from policy.model import Candidate, PrincipalId, Tenant
from policy.query import Filter, matches, validate
from proxy.seams.faults import MalformedRequest, UnknownWrite
from proxy.seams.operation import (
    DeleteWhere,
    Dialect,
    HttpRequest,
    ListMemories,
    Operation,
    Proposal,
    Refusal,
    Search,
    Write,
)
from tests.fuzz.choices import MARK
from tests.fuzz.heads import written_down
from tests.unit.proxy.dialects.mem0.sample import ANSWERING, memory

DETAIL_LEN_MAX = 300
_OPERATIONS = msgspec.json.Decoder(Operation)


def check_dialect(dialect: Dialect, data: bytes) -> None:
    """One of two refusals that repeat nothing of the peer's, or an operation that holds water."""
    asked = written_down(data)
    if asked is None:
        return
    if dialect.claims(asked):
        assert asked.path.split("/")[1] in dialect.segments, "a path that a model API may hide"
    dialect.credential(asked)
    try:
        operation = dialect.decode(asked)
    except UnknownWrite:
        assert asked.method not in {"GET", "HEAD", "OPTIONS"}, "a read counted as a write"
        return
    except MalformedRequest as refused:
        _check_refusal(dialect, asked, refused)
        return
    again = _OPERATIONS.decode(msgspec.json.encode(operation))
    assert again == operation, "the operation does not survive its own encoding"
    match operation:
        case Write():
            for proposal in operation.proposals:
                _check_proposal(proposal)
        case DeleteWhere() | Search() | ListMemories():
            check_filter(operation.where)
        case _:
            assert not asked.body or asked.method not in {"PUT", "PATCH"}, "a change read as none"


def check_filter(where: Filter) -> None:
    """A filter that a dialect made is one that a store will walk, and has one answer."""
    validate(where)
    assert matches(where, memory()) in {True, False}


def _check_refusal(dialect: Dialect, asked: HttpRequest, refused: MalformedRequest) -> None:
    assert 400 <= refused.status < 500
    assert len(refused.detail) < DETAIL_LEN_MAX
    assert MARK not in refused.detail, "a refusal repeats what was sent"
    refusal = Refusal(status=refused.status, title="Malformed", detail=refused.detail)
    reply = dialect.refuse(asked, refusal, ANSWERING)
    assert reply.status == refused.status
    assert MARK.encode() not in reply.body, "an answer repeats what was sent"
    assert MARK not in (reply.phrase or "")


def _check_proposal(proposal: Proposal) -> None:
    """It becomes a candidate whose canonical bytes are one spelling, and that can be judged."""
    fields = msgspec.structs.asdict(proposal)
    for unused in ("vector", "promotion_token", "nonce", "own_key", "ttl_ms", "expired"):
        fields.pop(unused)
    # No client speaks for the guard.
    assert (fields.pop("guarded_key"), fields.pop("guarded_blob")) == (None, b"")
    assert fields.pop("culprits") == ()
    assert (fields.pop("text_after"), fields.pop("approved_by")) == (None, None)
    assert fields.pop("approved_version") == 0
    assert fields.pop("extracted") is False
    # Nor names the call of a model, or says which of its words are labels.
    assert (fields.pop("join"), fields.pop("labels")) == (None, ())
    if fields.pop("odd"):
        return  # a proposal whose characters no candidate takes: the interceptor refuses it alone
    candidate = Candidate(
        principal_id=PrincipalId("fuzz"), tenant=Tenant("fuzz"), nonce="n", **fields
    )
    canonical = canonical_bytes(candidate)
    assert canonical_bytes(decode_canonical(canonical)) == canonical
    assert decode_canonical(canonical) == candidate
    read_text(proposal.text, proposal.metadata_json)
