"""Manages principals' keys, promotion tokens and trust for an operator."""

from __future__ import annotations

import asyncio

import msgspec

from policy.model import Candidate, ChangeKind, MemoryId, Principal, PrincipalId, Scope, Tenant
from proxy.admin.operator_call import OperatorCall, route
from proxy.admin.views import extended, key_view, origin_view, trust_view
from proxy.admin.wire.route import Empty, NoQuery
from proxy.admin.wire.store import (
    KEY_ADD,
    KEY_REVOKE,
    KEY_ROTATE,
    KEYS,
    ORIGIN_TRUST,
    RESTORE,
    RESTORE_ORIGIN,
    TOKEN,
    TRUST,
    TRUST_OF,
    KeyList,
    KeyRequest,
    KeyView,
    NewKeyView,
    OriginQuery,
    OriginTrustView,
    RotateRequest,
    TokenRequest,
    TokenView,
    TrustList,
    TrustView,
)
from proxy.dialects.strict_json.strict import canonical_json
from proxy.intercept.shadow import TokenSigner, landing_class, stored_of
from proxy.seams.environment import Environment
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.transport.auth import Authenticator, mint_key
from storage.features.registered import NoteToken, PutKey
from storage.features.trust import OriginTrust, RestoreOrigin, RestoreTrust
from storage.interfaces import MemoryReader, MemoryWriter
from storage.values import KeyRecord


class Credentials:
    """Adds, rotates and revokes keys, mints tokens, shows and restores trust. Event loop only.

    The plain text of a key or token is only in the answer, and is stored nowhere.
    """

    def __init__(
        self,
        *,
        reader: MemoryReader,
        writer: MemoryWriter,
        signer: TokenSigner,
        authenticator: Authenticator,
        surroundings: Environment,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._signer = signer
        self._authenticator = authenticator
        self._surroundings = surroundings

    @route(KEYS)
    async def all(self, _call: OperatorCall[NoQuery]) -> KeyList:
        """The records of every API key, revoked ones included."""
        records = tuple(self._authenticator.keys.by_id.values())
        return await asyncio.to_thread(lambda: KeyList(keys=tuple(map(key_view, records))))

    def knows(self, principal_id: PrincipalId) -> bool:
        """Whether the configuration names this principal, or the principal has or had a key."""
        known = self._authenticator
        return known.binds(principal_id) or principal_id in known.keys.principals

    @route(KEY_ADD)
    async def add(self, call: OperatorCall[KeyRequest]) -> NewKeyView:
        """Add a key for a new principal, or a further key for a known one; return the key in plain.

        Raises:
            MalformedRequest: A principal with another tenant, channel or claims has the name
                (status 409).
        """
        asked = call.asked
        principal = Principal(
            principal_id=PrincipalId(asked.name),
            tenant=Tenant(asked.tenant or asked.name),
            channel=asked.channel,
            claims=asked.claims,
            reads=asked.reads,
            may=asked.may,
        )
        known = self._authenticator.keys.principals.get(principal.principal_id)
        # Two keys of one principal may have different floors for reads and different scopes.
        per_key = {"reads": asked.reads, "may": asked.may}
        if known and msgspec.structs.replace(known, **per_key) != principal:
            # Trust and nonces belong to a principal's name. If one name had two tenants or
            # channels, one of them could use up the other's trust.
            raise MalformedRequest(
                "name: taken by a principal with another tenant, channel or claims", status=409
            )
        return await self._put_new_key(call.operator, principal)

    @route(KEY_ROTATE)
    async def rotate(self, call: OperatorCall[RotateRequest]) -> NewKeyView:
        """Add a new key for the same principal, and end the old key now or after `grace_seconds`.

        Raises:
            NotFound: No key has this id.
            MalformedRequest: The key has ended; a revocation is final.
        """
        old = self._key(call.argument)
        if old.revoked_at_ms is not None and old.revoked_at_ms <= self._surroundings.now_ms():
            raise MalformedRequest("key: it has ended; add another one", status=409)
        made = await self._put_new_key(call.operator, old.principal)
        await self._end_key(call.operator, old, call.asked.grace_seconds * 1_000)
        return made

    @route(KEY_REVOKE)
    async def revoke(self, call: OperatorCall[Empty]) -> KeyView:
        """Revoke a key at once.

        Raises:
            NotFound: No key has this id.
        """
        return key_view(await self._end_key(call.operator, self._key(call.argument), 0))

    async def _put_new_key(self, by: PrincipalId, principal: Principal) -> NewKeyView:
        made = mint_key(principal, self._surroundings.now_ms())
        with self._authenticator.storing(made.record):
            await self._writer.order(PutKey(made.record, by))
        return NewKeyView(key=key_view(made.record), plain=made.plain)

    async def _end_key(self, by: PrincipalId, record: KeyRecord, grace_ms: int) -> KeyRecord:
        at_ms = self._surroundings.now_ms() + grace_ms
        if record.revoked_at_ms is not None and record.revoked_at_ms <= at_ms:
            return record
        ended = msgspec.structs.replace(record, revoked_at_ms=at_ms)
        if grace_ms > 0:
            around = self._authenticator.storing(ended)
        else:
            around = self._authenticator.ending(ended)
        with around:
            await self._writer.order(PutKey(ended, by))
        return ended

    def _key(self, key_id: str) -> KeyRecord:
        record = self._authenticator.keys.by_id.get(key_id)
        if record is None:
            raise NotFound("there is no key of that id")
        return record

    @route(TOKEN)
    async def mint_token(self, call: OperatorCall[TokenRequest]) -> TokenView:
        """Mint a token that lets one write land in a class that its source may not write.

        Raises:
            MalformedRequest: No tenant is known for the principal, or the named classes are not
                those of the write.
        """
        asked, now_ms = call.asked, self._surroundings.now_ms()
        nonce = asked.nonce or (
            f"{self._reader.status().incarnation}:{self._surroundings.random_hex(16)}"
        )
        candidate = self._promoted(asked, nonce)
        memory = stored_of(self._reader, candidate)
        stored = None if memory is None else memory.memory_class
        if candidate.change is ChangeKind.UPDATE and stored is None:
            raise NotFound("there is no such memory in this tenant")
        if stored is not None and asked.from_class not in (None, stored):
            raise MalformedRequest(f"from_class: the memory is stored as {stored.value}")
        landing = landing_class(candidate, stored)
        if landing is not asked.to_class:
            raise MalformedRequest(f"to_class: this text lands in {landing.value}")
        expires_at_ms = now_ms + asked.expires_in_seconds * 1_000
        granted = self._signer.mint(candidate, memory, expires_at_ms)
        await self._writer.order(
            NoteToken(candidate.principal_id, candidate.tenant, granted.to_class, call.operator)
        )
        return TokenView(token=granted.token, nonce=nonce, expires_at_ms=expires_at_ms)

    def _promoted(self, asked: TokenRequest, nonce: str) -> Candidate:
        """The candidate that the interceptor will make of the write that the token allows."""
        create = asked.memory_id is None
        return Candidate(
            change=ChangeKind.CREATE if create else ChangeKind.UPDATE,
            principal_id=PrincipalId(asked.principal),
            tenant=self._tenant_of(asked),
            nonce=nonce,
            target=asked.target,
            memory_id=None if asked.memory_id is None else MemoryId(asked.memory_id),
            text=asked.text,
            metadata_json=None if asked.metadata is None else canonical_json(asked.metadata),
            scope=extended(Scope, asked),
            memory_class=asked.to_class,
            class_named=True,
            claimed_source=asked.source,
        )

    def _tenant_of(self, asked: TokenRequest) -> Tenant:
        if asked.tenant is not None:
            return Tenant(asked.tenant)
        known = self._authenticator.keys.principals.get(PrincipalId(asked.principal))
        if known is None:
            raise MalformedRequest("principal: has no key; say which tenant")
        return known.tenant

    @route(TRUST)
    async def trust(self, _call: OperatorCall[NoQuery]) -> TrustList:
        """The trust of every principal and every origin for which trust is recorded."""
        known = self._reader.all_trust()
        return TrustList(
            principals=tuple(trust_view(who, state) for who, state in known),
            origins=tuple(map(origin_view, self._reader.all_origins())),
        )

    @route(TRUST_OF)
    async def trust_of(self, call: OperatorCall[NoQuery]) -> TrustView:
        """The trust in one principal; that of a newcomer if the principal never wrote.

        Raises:
            NotFound: No principal has that name.
        """
        principal_id = self._known(call.argument)
        history = self._reader.trust_history(principal_id)
        return trust_view(principal_id, self._reader.trust(principal_id), history)

    @route(RESTORE)
    async def restore_trust(self, call: OperatorCall[Empty]) -> TrustView:
        """Put a principal back on the top rung of the trust ladder.

        Raises:
            NotFound: No principal has that name.
        """
        principal_id = self._known(call.argument)
        state = await self._writer.order(RestoreTrust(principal_id, call.operator))
        return trust_view(principal_id, state, self._reader.trust_history(principal_id))

    @route(ORIGIN_TRUST)
    async def origin_trust(self, call: OperatorCall[OriginQuery]) -> OriginTrustView:
        """The trust of one origin, with its last changes.

        Raises:
            NotFound: No outcome is recorded for this origin.
        """
        return self._origin_view(call.asked)

    @route(RESTORE_ORIGIN)
    async def restore_origin(self, call: OperatorCall[OriginQuery]) -> OriginTrustView:
        """Give an origin (a server's tool) the trust of a newcomer again.

        Raises:
            NotFound: No outcome is recorded for this origin.
        """
        one = self._origin(call.asked)
        await self._writer.order(RestoreOrigin(one.tenant, one.server, one.tool, call.operator))
        return self._origin_view(call.asked)

    def _origin_view(self, asked: OriginQuery) -> OriginTrustView:
        one = self._origin(asked)
        return origin_view(one, self._reader.origin_history(one.tenant, one.server, one.tool))

    def _origin(self, asked: OriginQuery) -> OriginTrust:
        named = (asked.tenant, asked.server, asked.tool)
        for one in self._reader.all_origins():
            if (one.tenant, one.server, one.tool) == named:
                return one
        raise NotFound("no outcome of what came from that tool: `mnemogate trust show` lists them")

    def _known(self, name: str) -> PrincipalId:
        principal_id = PrincipalId(name)
        recorded = any(who == principal_id for who, _ in self._reader.all_trust())
        if not recorded and not self.knows(principal_id):
            raise NotFound("no principal of that name: it has no key, no binding and no trust")
        return principal_id
