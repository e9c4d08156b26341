"""`mnemogate backend check`: compares a server's memories with those that the gate admitted."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from typing import IO, Final

import msgspec

from policy.model import CandidateId, ChangeKind
from proxy.admin.wire.upkeep import KEPT, ComparedView, KeptList, KeptView
from proxy.cli.api_commands import show
from proxy.cli.backend_walk import (
    Walk,
    compared,
    digest_of,
    digest_of_key,
    placed,
    plain_key,
    tenants_of,
    walking,
)
from proxy.cli.client import Operator
from proxy.cli.command import Command, Context, new_file, option
from proxy.cli.connect import Where, operator, settings_of
from proxy.cli.exits import Exit
from proxy.cli.server_import import server_items
from proxy.cli.terminal import working
from proxy.dialects.mcp.kept_before import text_digests
from proxy.seams.guard import UnsettledItem
from proxy.seams.http_backend import ListedMemory
from proxy.seams.operation import HttpRequest

SHOWN: Final = 20
"""How many differences are printed; the file of `--to` contains all of them."""
_AT_ONCE: Final = 16
_DIGEST_SHOWN: Final = 16
_FOREIGN: Final = "foreign"
_DIFFERENT: Final = "different"
_MISSING: Final = "missing"
_DIFFERENCES: Final = (_FOREIGN, _DIFFERENT, _MISSING)
# The comparison of a memory that no write through the gate could have made.
_NO_MEMORY: Final = ComparedView(state=_FOREIGN)


class _Check(msgspec.Struct, frozen=True, kw_only=True):
    words: tuple[str, ...]
    tenant: str | None = None
    to: str | None = None
    map: str | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One memory in which server and store differ; it never contains the memory's text."""

    # "foreign": the server has the memory, and no verdict admitted it. "different": the server's
    # text is not the text that was sent. "missing": the memory was sent and confirmed, and the
    # server no longer has it.
    what: str
    # SHA-256 (hex) of the memory as the server has it; for a missing memory, of its key.
    digest: str
    # "" if the key could contain a sentence.
    key: str
    tenant: str | None = None
    memory_id: str | None = None
    # False for a memory that cannot be imported, because of its size or form.
    importable: bool = True


class BackendCheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `backend check --json`: counts of memories, and the first differences."""

    backend: str
    same: int
    hidden: int
    unsettled: int
    foreign: int
    different: int
    missing: int
    differences: tuple[Difference, ...]
    # How many further differences there are; they are in the file of `--to`.
    left_out: int
    of_mcp: bool = False


class _Tally:
    """Counts states, holds the first differences, and marks the store's rows seen on the server."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self.counts: Counter[str] = Counter()
        self.shown: list[Difference] = []
        self._file = file
        # One bit for each row of the store, so that a large store needs little memory.
        self._seen = bytearray()

    def take(self, view: ComparedView, difference: Difference | None) -> None:
        self.counts[view.state] += 1
        if view.number is not None:
            self._tick(view.number)
        if difference is not None:
            self.note(difference)

    def note(self, difference: Difference) -> None:
        if len(self.shown) < SHOWN:
            self.shown.append(difference)
        if self._file is not None:
            self._file.write(msgspec.json.encode(difference) + b"\n")

    def has_seen(self, number: int) -> bool:
        place, bit = divmod(number, 8)
        return place < len(self._seen) and bool(self._seen[place] >> bit & 1)

    def _tick(self, number: int) -> None:
        place, bit = divmod(number, 8)
        if place >= len(self._seen):
            self._seen.extend(bytes(place + 1 - len(self._seen)))
        self._seen[place] |= 1 << bit


class _Checking:
    """Compares the memories that a server has, then those that it should have, with the store."""

    def __init__(self, walk: Walk, api: Operator, found: _Tally) -> None:
        self._walk = walk
        self._api = api
        self._found = found
        self._name = walk.settings.name
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._row = 0

    def so_far(self) -> str:
        """The progress of the check, as text for a person."""
        looked = f", {self._row} rows of the store" if self._row else ""
        return f"{self._walk.so_far()}{looked}"

    async def on_the_server(self, asked: str | None) -> None:
        """Compare all memories that the server has with the store."""
        tenants = await tenants_of(self._api, self._walk.settings, asked)
        async for request, memories in self._walk.memories(tenants):
            await self._compare(memories, request)

    async def in_the_store(self, asked: str | None) -> None:
        """Ask the server for each memory that it should have and the walk did not find."""
        after: int | None = 0
        while after is not None:
            self._row = after
            page = await self._kept(after)
            for one in page.kept:
                other = asked is not None and one.tenant != asked
                if not other and not self._found.has_seen(one.number):
                    await self._look_for(one)
            after = page.next

    async def _compare(
        self, memories: tuple[ListedMemory, ...], request: HttpRequest | None = None
    ) -> None:
        """Compare a page of memories, and read the page again before a difference counts.

        An agent may have changed a memory since the first read, so a difference counts only if the
        second read shows the same memory.
        """
        differ = await self._differing(memories)
        again = await self._walk.again(request) if differ and request is not None else {}
        stay = tuple(one for one in differ if one == again.get(one.key))
        await self._differing(stay, counts=True)
        async with asyncio.TaskGroup() as tasks:
            for one in differ:
                if one not in stay:
                    tasks.create_task(self._once_more(one))

    async def _differing(
        self, memories: tuple[ListedMemory, ...], *, counts: bool = False
    ) -> tuple[ListedMemory, ...]:
        """The memories in which server and store differ; `counts` also counts and reports them."""
        views = await compared(self._api, self._name, memories)
        differ: list[ListedMemory] = []
        for one, view in zip(memories, views, strict=True):
            differs = view.state in _DIFFERENCES
            if differs:
                differ.append(one)
            if counts or not differs:
                self._found.take(view, _difference(view.state, one, view) if differs else None)
        return tuple(differ)

    async def _once_more(self, memory: ListedMemory) -> None:
        """Read one memory again by its key, and count the result of the comparison."""
        async with self._at_once:
            # An entry that is not in the form of a memory has no key by which it could be read
            # again.
            again: ListedMemory | None = memory
            if memory.item is not None:
                again = await self._walk.one(placed(memory.item))
            if again is not None:
                await self._differing((again,), counts=True)

    async def _look_for(self, kept: KeptView) -> None:
        there = await self._walk.one(_of_kept(kept))
        if there is not None:
            await self._compare((there,))
            return
        # The memory may have been deleted or changed since the page of the store was read.
        now = await self._kept(kept.number)
        if kept.number in {one.number for one in now.kept[:1]}:
            self._found.counts[_MISSING] += 1
            self._found.note(
                Difference(
                    what=_MISSING,
                    digest=digest_of_key(kept.key),
                    key=plain_key(kept.key),
                    tenant=kept.tenant,
                    memory_id=kept.memory_id,
                )
            )

    async def _kept(self, after: int) -> KeptList:
        return await self._api.ask(KEPT, self._name, after=after)


async def _check(context: Context) -> Exit:
    asked = context.arguments(_Check)
    name = asked.words[0]
    with new_file(asked.to, "--to", empty=True) as file:
        if asked.words[1:] or any(one.name == name for one in settings_of(context).mcp):
            found = await _compared_texts(context, asked, file)
            return _reported(context, name, found, of_mcp=True)
        async with operator(context) as api, walking(context, api, name) as walk:
            found = _Tally(file)
            checking = _Checking(walk, api, found)
            async with working(context.terminal, checking.so_far):
                try:
                    await checking.on_the_server(asked.tenant)
                    await checking.in_the_store(asked.tenant)
                except ExceptionGroup as several:
                    # All exceptions of the group have the same cause, so the first one is raised.
                    raise several.exceptions[0] from None
    return _reported(context, name, found, of_mcp=False)


def _reported(context: Context, name: str, found: _Tally, *, of_mcp: bool) -> Exit:
    """Print the report of a check; return the exit code."""
    counts = found.counts
    differences = sum(counts[what] for what in _DIFFERENCES)
    checked = BackendCheckReport(
        backend=name,
        same=counts["same"],
        # A memory that bears a gate's mark and is in no record is shown to no one either.
        hidden=counts["hidden"] + counts["marked"],
        unsettled=counts["unsettled"],
        foreign=counts[_FOREIGN],
        different=counts[_DIFFERENT],
        missing=counts[_MISSING],
        differences=tuple(found.shown),
        left_out=differences - len(found.shown),
        of_mcp=of_mcp,
    )
    show(context, checked, _told)
    return Exit.FAILED if differences else Exit.OK


async def _compared_texts(context: Context, asked: _Check, file: IO[bytes] | None) -> _Tally:
    """Compare the texts that an MCP server lists with those of the memories that it should have.

    The store is read before and after the server, so that what an agent writes or deletes meanwhile
    is no difference.
    """
    found, name = _Tally(file), asked.words[0]
    async with operator(context) as api:
        before = await _all_kept(api, name)
        listed = await server_items(context, asked.words, asked.map)
        after = await _all_kept(api, name)
    texts = [(item, text_digests(item.key, item.pieces, item.labels)) for item in listed.items]
    there = frozenset(text for _, some in texts for text in some)
    known = frozenset(text for kept in (before, after) for one in kept for text in one.texts)
    for one in after:
        if one not in before or asked.tenant not in {None, one.tenant}:
            continue
        has, state = [text in there for text in one.texts], one.state
        if state == "same" and not all(has):
            state = _DIFFERENT if any(has) else _MISSING
        view = ComparedView(state=state, tenant=one.tenant, memory_id=one.memory_id)
        memory = ListedMemory(key=one.key, item=None)
        found.take(view, _difference(state, memory, view) if state in _DIFFERENCES else None)
    for item, some in texts:
        if not known.issuperset(some):
            memory = ListedMemory(key=item.key, item=item)
            found.take(_NO_MEMORY, _difference(_FOREIGN, memory, _NO_MEMORY))
    found.counts[_FOREIGN] += listed.unreadable
    return found


async def _all_kept(api: Operator, name: str) -> list[KeptView]:
    found: list[KeptView] = []
    after: int | None = 0
    while after is not None:
        page = await api.ask(KEPT, name, after=after, through="mcp")
        found += page.kept
        after = page.next
    return found


def _of_kept(kept: KeptView) -> UnsettledItem:
    return UnsettledItem(
        candidate_id=CandidateId(kept.candidate_id),
        tool=kept.tool,
        change=ChangeKind.CREATE,
        arguments=kept.arguments,
        pieces=("",) * kept.piece_count,
        key=kept.key,
        sent=True,
    )


def _difference(what: str, memory: ListedMemory, view: ComparedView) -> Difference:
    return Difference(
        what=what,
        digest=digest_of(memory),
        key=plain_key(memory.key),
        tenant=view.tenant,
        memory_id=view.memory_id,
        importable=memory.item is not None,
    )


def _told(context: Context, checked: BackendCheckReport) -> None:
    terminal, config = context.terminal, context.arguments(Where).config
    settings_named = f" --config {shlex.quote(config)}" if config else ""
    terminal.table(
        ("what", "digest", "key", "tenant", "memory"),
        [
            (
                one.what,
                one.digest[:_DIGEST_SHOWN],
                one.key or "-",
                one.tenant or "-",
                one.memory_id or "-",
            )
            for one in checked.differences
        ],
        nothing="no difference",
    )
    if checked.left_out:
        terminal.say(f"{checked.left_out} more: --to FILE writes all of them")
    terminal.say(
        f"{checked.backend}: {checked.same} the same, {checked.hidden} hidden, "
        f"{checked.unsettled} on their way; {checked.foreign} foreign, "
        f"{checked.different} different, {checked.missing} missing"
    )
    imports = f"mnemogate backend import {checked.backend} --quarantine"
    hides = (
        f"hide them all: {imports}{settings_named}\n"
        f"hide one: {imports} --item DIGEST{settings_named}"
    )
    if checked.of_mcp:
        hides = (
            f"read them, and take them in as unproven: mnemogate backend import {checked.backend}"
        )
    if checked.foreign:
        terminal.say(
            "ALARM: no verdict let the foreign ones in: somebody wrote past the gate, or the "
            f"server had them before it.\n{hides}"
        )
    if checked.different:
        terminal.say(
            "ALARM: what is different was changed past the gate; hide it by its id: "
            "mnemogate memory quarantine MEMORY"
        )
    if checked.missing:
        terminal.say(
            "what is missing was deleted past the gate, expired there, or is lost with a backup "
            "that was restored"
        )


COMMANDS = (
    Command(
        words=("backend", "check"),
        summary="compare what a memory server has with what the gate let in; no text is printed",
        act=_check,
        options=(
            option(
                "words",
                "its name; behind `--` the command of an MCP server, where no [[mcp]] table has it",
                metavar="SERVER",
            ),
            option("--map", "an MCP server's tool map", metavar="NAME|FILE"),
            option("--tenant", "look at this tenant's memories alone (default: all)"),
            option("--to", "write every difference here, a line of JSON each", metavar="FILE"),
        ),
        form=_Check,
    ),
)
