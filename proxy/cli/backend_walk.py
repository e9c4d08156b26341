"""Reads all memories of an upstream server, with the sidecar's own settings and credential."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import msgspec

from policy.model import CandidateId, Tenant
from proxy.admin.wire.upkeep import COMPARE, TABLE, USAGE, ComparedView
from proxy.cli.client import Operator, portions
from proxy.cli.command import Context
from proxy.cli.connect import settings_of
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.compose.backends import adapters_by_name
from proxy.dialects.mcp.kept_before import digest_of_item
from proxy.dialects.strict_json.strict import decode_as
from proxy.fronts.backend_server_front import BackendServerFront
from proxy.seams.faults import Busy, MalformedRequest, UpstreamError
from proxy.seams.guard import Item, UnsettledItem
from proxy.seams.http_backend import ListedMemory, ListPart, WalkedPage
from proxy.seams.operation import HttpRequest
from proxy.seams.tenants import DEFAULT_TENANT
from proxy.settings.backend import BackendServer
from proxy.transport.upstream import Upstream, UpstreamLimits

# The form of keys that are printed. Any other key could contain a sentence of an attacker.
_PLAIN_KEY: Final = re.compile(r"""[\w.:@/+=\[\]",-]{0,160}""")
_NO_CANDIDATE: Final = CandidateId("")


class Walk:
    """Reads one configured memory server page by page. Event loop only."""

    def __init__(self, behind: BackendServerFront) -> None:
        self._behind = behind
        self.settings = behind.settings
        self._count = 0

    def so_far(self) -> str:
        """The progress of the walk, as text for a person."""
        return f"reading {inert(self.settings.name)}: {self._count} memories"

    async def memories(
        self, tenants: Iterable[Tenant]
    ) -> AsyncGenerator[tuple[HttpRequest, tuple[ListedMemory, ...]]]:
        """Yield the server's memories of these tenants, a page at a time, with the page's request.

        Call it once per walk. A memory that exists from the beginning of the walk to its end is
        listed, whatever else is written or deleted meanwhile.

        Raises:
            CommandFailed: The server does not answer, its answer cannot be parsed, or its lists
                have no end.
        """
        firsts = dict.fromkeys(tenants)
        waiting: list[tuple[HttpRequest, ListTrail]] = []
        for first in _once(self._behind.adapter.listing(tenant) for tenant in firsts):
            waiting.append((first, ListTrail()))
            while waiting:
                request, trail = waiting.pop()
                with self._reading():
                    found = await self._page(request)
                    memories, further = _news(found, trail)
                if found.part is not None and trail.begin is not None:
                    waiting.append((found.part.begin(trail.begin), trail))
                waiting.extend((one, ListTrail()) for one in reversed(further))
                self._count += len(memories)
                if memories:
                    yield request, memories

    async def again(self, request: HttpRequest) -> dict[str, ListedMemory]:
        """Repeat a request of `memories`; return a mapping of each key to the memory listed now.

        Raises:
            CommandFailed: The server does not answer, or its answer cannot be parsed.
        """
        with self._reading():
            return {one.key: one for one in (await self._page(request)).memories}

    async def one(self, kept: UnsettledItem) -> ListedMemory | None:
        """Read the memory that the server has under the key of `kept`; None if there is none.

        Raises:
            CommandFailed: The server does not answer, or its answer cannot be parsed.
        """
        with self._reading():
            found = await self._page(self._behind.adapter.reading(kept))
        return next((one for one in found.memories if one.key == kept.key), None)

    async def _page(self, request: HttpRequest) -> WalkedPage:
        found = self._behind.adapter.listed(request, await self._behind.ask(request))
        return msgspec.structs.replace(found, memories=tuple(map(_takeable, found.memories)))

    @contextmanager
    def _reading(self) -> Generator[None]:
        try:
            yield
        except (UpstreamError, MalformedRequest, Busy) as error:
            table = self._behind.settings
            said = error.told_operator if isinstance(error, UpstreamError) else str(error)
            raise CommandFailed(
                Exit.UNREACHABLE,
                f"{table.name} at {table.url}: {inert(said) or 'it does not answer'}",
                then="nothing is known of what it has: look at the server, and at `url` and "
                "`headers_file` of its table, and ask again",
            ) from None


def _once(requests: Iterable[HttpRequest]) -> Iterator[HttpRequest]:
    """Yield each distinct request once. Requests are not hashable, so a list holds those seen."""
    seen: list[HttpRequest] = []
    for one in requests:
        if one not in seen:
            seen.append(one)
            yield one


def _news(
    found: WalkedPage, trail: ListTrail
) -> tuple[tuple[ListedMemory, ...], tuple[HttpRequest, ...]]:
    """The memories of a page that no earlier page listed, and the requests for their sub-lists."""
    part = found.part
    if part is None:
        return found.memories, found.further
    new = trail.take(part)
    names = frozenset(new)
    memories = {one.key: one for one in found.memories if one.key in names}
    below = () if part.below is None else part.below(new)
    return tuple(memories.values()), (*found.further, *below)


@asynccontextmanager
async def walking(context: Context, api: Operator, name: str) -> AsyncGenerator[Walk]:
    """Open a walk over the configured server `name`, and close its connections afterwards.

    The table is the one in the command's own settings, or else the sidecar's.

    Raises:
        CommandFailed: No [[backend]] table has the name, or its settings cannot be used.
    """
    own = (one for one in settings_of(context).backend if one.name == name)
    table = next(own, None) or await _sidecars(api, name)
    adapter = adapters_by_name((table,))[name]
    seconds = table.answer_seconds
    limits = UpstreamLimits(head_seconds=seconds, body_seconds=seconds)
    async with Upstream(table.url, headers=table.headers, limits=limits, way=table) as upstream:
        yield Walk(BackendServerFront(table, adapter, upstream, check_sent_on=_has_no_keys))


async def _sidecars(api: Operator, name: str) -> BackendServer:
    """The table of a server as the sidecar serves it; the credential is read from its file."""
    found = await api.ask(TABLE, name)
    try:
        return msgspec.convert(found.table, BackendServer)
    except msgspec.ValidationError as error:
        raise CommandFailed(
            Exit.USAGE,
            f"{inert(name)}: {inert(str(error))}",
            then="run as the sidecar's user on its machine, or give its settings with --config",
        ) from None


def _has_no_keys(_where: str, _texts: Iterable[str]) -> None:
    """Check nothing: a walk forwards no text of an agent, so no agent's key can be forwarded."""


async def tenants_of(api: Operator, table: BackendServer, asked: str | None) -> tuple[Tenant, ...]:
    """The tenants whose collections are read: the requested or configured one, or all tenants."""
    if asked is not None or table.tenant is not None:
        return (Tenant(asked or table.tenant or DEFAULT_TENANT),)
    used = (one.tenant for one in (await api.ask(USAGE)).tenants)
    return tuple(Tenant(one) for one in dict.fromkeys((DEFAULT_TENANT, *used)))


async def compared(
    api: Operator, backend: str, memories: tuple[ListedMemory, ...]
) -> tuple[ComparedView, ...]:
    """Compare a server's memories with the store; return the results in the same order."""
    found: list[ComparedView] = []
    for some in portions(tuple(one.item for one in memories if one.item is not None)):
        found += (await api.ask(COMPARE, backend, items=some)).compared
    unnamed: list[ComparedView] = []
    for one in memories:
        if one.item is None:
            unnamed += (await api.ask(COMPARE, backend, unnamed=(one.key.encode(),))).compared
    views, others = iter(found), iter(unnamed)
    return tuple(next(others if one.item is None else views) for one in memories)


def _takeable(memory: ListedMemory) -> ListedMemory:
    """The memory; without its item if the operator API would reject a request that contains it."""
    if memory.item is not None:
        try:
            decode_as(msgspec.json.encode(memory.item), Item)
        except MalformedRequest:
            return ListedMemory(key=memory.key, item=None)
    return memory


def placed(item: Item) -> UnsettledItem:
    """A listed item in the form from which an adapter makes the request that reads it again."""
    return UnsettledItem(
        candidate_id=_NO_CANDIDATE,
        tool="",
        change=item.change,
        arguments=item.arguments,
        pieces=item.pieces,
        key=item.key,
        sent=True,
    )


def plain_key(key: str) -> str:
    """A key as it may be printed; "" for a key that could contain a sentence."""
    return key if _PLAIN_KEY.fullmatch(key) else ""


def digest_of(memory: ListedMemory) -> str:
    """The digest by which commands name a memory of the server: SHA-256 of its key and content."""
    if memory.item is not None:
        return digest_of_item(memory.item)
    return digest_of_key(memory.key)


def digest_of_key(key: str) -> str:
    """The digest by which commands name a memory whose content is unknown: SHA-256 of its key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


IDLE_MAX: Final = 16
"""How many pages in a row may contain nothing new; after more, the list counts as endless."""
NAMES_MAX: Final = 5_000_000
"""How many entries one list may have; each entry takes about a hundred bytes of memory here."""
_BACK: Final = 32
_NAME_BYTES: Final = 8
_ENDLESS: Final = "it gives page after page, and nothing new is in them"


class ListTrail:
    """Tracks which entries of one list a walk has read, and where the next page begins."""

    def __init__(self) -> None:
        self.begin: int | None = 0
        """The position of the first entry of the next page; None at the end of the list."""
        # The hashes are keyed, because clients choose the names, and could otherwise choose two
        # names with equal hashes.
        self._salt = secrets.token_bytes(16)
        self._known: set[bytes] = set()
        self._idle = 0
        self._back = _BACK

    def take(self, part: ListPart) -> tuple[str, ...]:
        """Take a page; return its new names, or none if the page may not join the page before it.

        Raises:
            UpstreamError: The list has no end.
        """
        at = self.begin or 0
        new: dict[bytes, str] = {}
        if at and not (part.names and self._hash(part.names[0]) in self._known):
            # Go back twice as far each time, because many entries may have been deleted meanwhile.
            self.begin = max(0, at - self._back)
            self._back *= 2
        else:
            new = {self._hash(one): one for one in part.names}
            for known in self._known & new.keys():
                del new[known]
            self._known.update(new)
            self._back = _BACK
            self.begin = at + max(1, len(part.names) - 1) if part.is_full else None
        self._idle = 0 if new else self._idle + 1
        if self._idle > IDLE_MAX:
            raise UpstreamError(_ENDLESS)
        if len(self._known) > NAMES_MAX:
            raise UpstreamError(f"it has a list of more than {NAMES_MAX} entries")
        return tuple(new.values())

    def _hash(self, name: str) -> bytes:
        named = name.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(named, digest_size=_NAME_BYTES, key=self._salt).digest()
