"""Evidence about a candidate, gathered before the gate: anchors' probes, and promotion tokens.

An anchor is a statement that an operator wants to stay retrievable, with questions that lead to it.
Cognitive staging (MWP 3.2, check 8): the candidate is compared with each anchor's questions in a
trial search, and is never put into the real index.

A promotion token is minted for an operator, and verified for the gate (MWP 3.2, check 6). The
token's content and its signed bytes are in `policy.tokens`; the keys are used here.
"""

from __future__ import annotations

import secrets

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from policy.anchors import Statements, lines_of, outranks
from policy.canonical import canonical_bytes, digest_of
from policy.facts import AnchorProbe, TokenState
from policy.labels.derive import Seen, effective_class, read_candidate
from policy.labels.forwarded_call import call_of
from policy.model import Candidate, ChangeKind, Memory, MemoryClass, Tenant
from policy.text.skeleton import skeleton
from policy.tokens import (
    PromotionToken,
    TokenContext,
    TokenMalformed,
    binding_of,
    decode_token,
    encode_token,
    signing_bytes,
    token_key,
    token_state,
)
from proxy.embed.embedding import takes_client_vectors
from proxy.ledger.sessions import Sessions
from proxy.seams.environment import Embedder
from proxy.seams.operation import Proposal
from storage.interfaces import MemoryReader
from storage.questions import AnsweredQuestion
from storage.values import (
    Anchor,
)


class _Asked:
    """A tenant's set of anchors, with the embeddings that candidates are compared with."""

    __slots__ = ("_contest", "_places", "anchors", "statements")

    def __init__(
        self, tenant: Tenant, anchors: tuple[Anchor, ...], embedder: Embedder, reader: MemoryReader
    ) -> None:
        self.anchors = anchors
        self.statements = Statements([skeleton(anchor.statement) for anchor in anchors])
        # For each question of all anchors, in order: the index of its anchor.
        self._places = [at for at, one in enumerate(anchors) for _ in one.questions]
        texts = [one.statement for one in anchors]
        texts += [question for one in anchors for question in one.questions]
        vectors = embedder.embed(texts)
        answered = [
            AnsweredQuestion(
                question=text,
                question_vector=vector,
                answer=texts[place],
                answer_vector=vectors[place],
            )
            for place, text, vector in zip(
                self._places, texts[len(anchors) :], vectors[len(anchors) :], strict=True
            )
        ]
        self._contest = reader.contest(tenant, answered) if answered else None

    def outranked_by(self, text: str, vector: bytes, margin: float) -> set[int]:
        """The indexes of the anchors that a text outranks in the results for a question."""
        if self._contest is None:
            return set()
        compared = zip(self._places, *self._contest.scores(text, vector), strict=True)
        return {place for place, own, other in compared if outranks(own, other, margin)}


class Recallable(msgspec.Struct, frozen=True, kw_only=True):
    """The strings that a recall would show once a candidate is stored, unchanged ones included.

    `vector` is the embedding of `text`; b"" if it was not computed yet.
    """

    text: str | None
    metadata_json: str | None = None
    vector: bytes = b""


def shown_of(candidate: Candidate, vector: bytes, stored: Memory | None) -> Recallable:
    """The strings that a recall of the candidate would show.

    An update without a text or without metadata has that of the stored memory.
    """
    text, metadata_json = candidate.text, candidate.metadata_json
    if candidate.change is ChangeKind.UPDATE and stored is not None:
        text = stored.text if text is None else text
        metadata_json = stored.metadata_json if metadata_json is None else metadata_json
    return Recallable(text=text, metadata_json=metadata_json, vector=vector)


class Shadow:
    """Compares candidates with a tenant's anchors in a trial search. Event loop only.

    The embeddings of the anchors are computed once for each set of anchors.
    """

    def __init__(self, reader: MemoryReader, embedder: Embedder) -> None:
        self._reader = reader
        self._embedder = embedder
        self._prepared: dict[Tenant, _Asked] = {}

    def probe(
        self, tenant: Tenant, shown: Recallable, margin: float
    ) -> tuple[AnchorProbe, ...] | None:
        """One probe per anchor of the tenant: whether the candidate outranks or contradicts it.

        () if there are no anchors, or the candidate shows no text. None if the store takes clients'
        vectors, because then no model can embed the anchors' questions.
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
        outranked = asked.outranked_by(shown.text or "", vector, margin) if vector else set[int]()
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
            known = self._prepared[tenant] = _Asked(tenant, anchors, self._embedder, self._reader)
        return known


class VerifiedToken(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a candidate's token, and the key under which the store records it as spent.

    The key is None if there is no token, or its signature is invalid.
    """

    state: TokenState
    key: bytes | None = None


ABSENT = VerifiedToken(state=TokenState.ABSENT)
_INVALID = VerifiedToken(state=TokenState.INVALID)


class TokenSigner:
    """Mints promotion tokens; the private key cannot be read from it."""

    def __init__(self, seed: bytes) -> None:
        """`seed` is the 32-byte Ed25519 seed of the state directory."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    @property
    def public_key(self) -> Ed25519PublicKey:
        """The public key with which verifiers check tokens."""
        return self._key.public_key()

    def mint(
        self, candidate: Candidate, stored: Memory | None, expires_at_ms: int
    ) -> PromotionGrant:
        """Mint a token with which this candidate alone may land in a class closed to its source.

        `stored` is the memory that the candidate changes; the token is valid only while the memory
        has its present version.
        """
        from_class = None if stored is None else stored.memory_class
        serial = secrets.token_hex(16)
        token = PromotionToken(
            serial=serial,
            binding=binding_of(serial, digest_of(canonical_bytes(candidate))),
            tenant=candidate.tenant,
            principal_id=candidate.principal_id,
            nonce=candidate.nonce,
            from_class=from_class,
            to_class=landing_class(candidate, from_class),
            expires_at_ms=expires_at_ms,
            from_version=0 if stored is None else stored.version,
        )
        text = encode_token(token, self._key.sign(signing_bytes(token)))
        return PromotionGrant(token=text, to_class=token.to_class)


class PromotionGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A minted token, and the class in which the candidate may land with it."""

    token: str
    to_class: MemoryClass


class TokenVerifier:
    """Checks whether a promotion token is valid for a candidate. Event loop or writer thread."""

    def __init__(self, public_key: Ed25519PublicKey) -> None:
        self._public_key = public_key

    def verify(
        self, text: str | None, candidate: Candidate, stored: Memory | None, now_ms: int
    ) -> VerifiedToken:
        """The state of the token for a candidate: valid, invalid, expired or absent.

        `stored` is the memory that the candidate would change. The store checks whether the memory
        still has that version, and whether the token was spent. A token that cannot be decoded
        counts as forged, because an honest client sends the token unchanged.
        """
        if text is None:
            return ABSENT
        try:
            token, signature = decode_token(text)
            self._public_key.verify(signature, signing_bytes(token))
        except (TokenMalformed, InvalidSignature):
            return _INVALID
        from_class = None if stored is None else stored.memory_class
        context = TokenContext(
            digest=digest_of(canonical_bytes(candidate)),
            tenant=candidate.tenant,
            principal_id=candidate.principal_id,
            nonce=candidate.nonce,
            from_class=from_class,
            to_class=landing_class(candidate, from_class),
            now_ms=now_ms,
            from_version=0 if stored is None else stored.version,
        )
        return VerifiedToken(state=token_state(token, context), key=token_key(text))


def landing_class(candidate: Candidate, stored: MemoryClass | None) -> MemoryClass:
    """The class the candidate would land in, at least its class floor; a token is bound to it.

    If a token were bound to the class that the client named, a token for a harmless class would let
    a directive land in the policy class.
    """
    return effective_class(candidate, read_candidate(candidate), stored)


def stored_of(reader: MemoryReader, candidate: Candidate) -> Memory | None:
    """The memory that a candidate would change; None where it makes a new one."""
    if candidate.change is ChangeKind.CREATE or candidate.memory_id is None:
        return None
    return reader.get(candidate.tenant, candidate.memory_id)


def seen_of(sessions: Sessions | None, candidate: Candidate, proposal: Proposal) -> Seen | None:
    """The ledger's evidence about a candidate: its session, and who first said its words."""
    if sessions is None:
        # Without a ledger there is no evidence, so the candidate's text is not even read.
        return None
    call = call_of(candidate) if proposal.guarded_key is not None else None
    if call is not None:
        texts = call.pieces
    else:
        # A deletion has no text, so the ledger is asked about the id of the memory instead.
        texts = tuple(filter(None, (candidate.text, candidate.memory_id)))
    return sessions.seen(candidate.principal_id, texts, proposal.join)
