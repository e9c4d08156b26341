"""`mnemogate memory` lists, hides and erases stored memories; `check` reads the whole store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import MemoryStatus
from proxy.admin.wire.route import IdKind, TenantQuery
from proxy.admin.wire.store import (
    CHECK,
    DELETE,
    HISTORY,
    MEMORIES,
    MEMORY,
    PURGE,
    STATUS,
    CheckView,
    MemoryView,
    PurgeView,
)
from proxy.admin.wire.upkeep import (
    CONFIRM_MEMORY,
    OBSERVED,
    QUARANTINE,
    QUARANTINED,
    UNHIDE,
    USAGE,
    QuarantineRequest,
    StandingList,
    UnhideRequest,
    UnhideView,
)
from proxy.admin.wire.views import SEARCH, FoundPage, SearchRequest
from proxy.cli.api_commands import (
    LABEL,
    OF_TENANT,
    REASON_HELP,
    Columns,
    asking,
    lines,
    pairs,
    show,
    table,
    together,
)
from proxy.cli.client import whole_id
from proxy.cli.command import Command, Context, option
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.isolate import NAMED, SELECTION
from proxy.cli.terminal import counted, inert, iso, now_ms, waiting, working
from proxy.seams.observations import whose_words
from proxy.seams.tenants import DEFAULT_TENANT
from storage.values import Visibility

_LINE_LEN: Final = 80


class _Listed(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT
    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    user_id: str | None = None
    would_refuse: bool = False
    quarantined: bool = False


class _Purge(TenantQuery, frozen=True, kw_only=True):
    memory_id: str
    yes: bool = False
    no_compact: bool = False


class _Hiding(QuarantineRequest, frozen=True, kw_only=True):
    memory_ids: tuple[str, ...] = ()
    would_refuse: bool = False


class _Showing(UnhideRequest, frozen=True, kw_only=True):
    memory_ids: list[str]


class _Confirm(TenantQuery, frozen=True, kw_only=True):
    memory_ids: tuple[str, ...]
    yes: bool = False


class _Search(SearchRequest, frozen=True, kw_only=True):
    explain: bool = False


async def _list(context: Context) -> Exit:
    asked = context.arguments(_Listed)
    terminal, tenant = context.terminal, inert(asked.tenant)
    slow = asked.would_refuse or asked.quarantined
    async with operator(context) as api, working(terminal, "reading every memory" * slow):
        if asked.would_refuse:
            objected = await api.ask(OBSERVED, tenant=asked.tenant)
            show(context, objected, _OBSERVED)
            terminal.say(f"{len(objected.observed)} that observe mode let in, in tenant {tenant}")
            return Exit.OK
        if asked.quarantined:
            hidden = await api.ask(QUARANTINED, tenant=asked.tenant)
            show(context, hidden, _QUARANTINED)
            terminal.say(f"{len(hidden.memories)} under quarantine in tenant {tenant}")
            return Exit.OK
        which = {"offset": asked.offset, "limit": asked.limit, "user_id": asked.user_id}
        page = await api.ask(MEMORIES, tenant=asked.tenant, **which)
        status = await api.ask(STATUS)
    show(context, page, _PAGE)
    until = page.offset + len(page.memories)
    more = f"; next: --offset {until}" if until < page.total else ""
    terminal.say(f"{len(page.memories)} of {page.total} in tenant {tenant}{more}")
    if page.quarantined:
        terminal.say(f"{page.quarantined} under quarantine: mnemogate memory list --quarantined")
    # A memory that seems to be missing in the list may wait for a decision, so the number of
    # waiting candidates is printed.
    if told := waiting(status.held_count, status.held_since_ms, now_ms()):
        terminal.say(told)
    return Exit.OK


def _searched(context: Context, page: FoundPage) -> None:
    parts: Columns = _PARTS if context.value("explain") else {}
    table("memories", {**_FOUND, **parts, "text": _beginning("text")})(context, page)
    found = counted(len(page.memories), "memory", "memories")
    context.terminal.say(found if page.total is None else f"{found} of {page.total}")


def _text(context: Context, memory: MemoryView) -> None:
    terminal = context.terminal
    if memory.status is not MemoryStatus.QUARANTINED:
        terminal.say("text, as the agent is given it:")
    else:
        for line in _hidden(memory):
            terminal.say(line)
    terminal.quote(memory.text)


def _hidden(memory: MemoryView) -> Iterator[str]:
    yield "quarantined: no agent is given it"
    for one in memory.hidden:
        why = inert(one.why) or "no reason given"
        yield f"  hidden {iso(one.at_ms)} by {inert(one.by)}: {why}"
    of = "" if memory.tenant == DEFAULT_TENANT else f" --tenant {inert(memory.tenant)}"
    yield f"let it back with: mnemogate memory unhide {inert(memory.memory_id)}{of}"
    for incident_id in dict.fromkeys(one.incident_id for one in memory.hidden if one.incident_id):
        named = inert(incident_id)
        yield f"all that incident {named} hid: mnemogate isolate --undo {named}"
    yield "text:"


async def _purge(context: Context) -> Exit:
    asked = context.arguments(_Purge)
    terminal = context.terminal
    nobody = CommandFailed(
        Exit.USAGE, "a purge cannot be undone, and nobody confirmed it", then="pass --yes"
    )
    if not asked.yes and (terminal.as_json or not sys.stdin.isatty()):
        raise nobody
    async with operator(context) as api:
        memory_id = await whole_id(api, IdKind.MEMORY, asked.memory_id, asked.tenant)
        if not asked.yes and not context.agreed(f"purge {inert(memory_id)} for good"):
            raise nobody
        which = {"tenant": asked.tenant, "compact": not asked.no_compact}
        async with working(terminal, "purging and rewriting the store"):
            done = await api.ask(PURGE, memory_id, **which)
    terminal.answer(done)
    if done.decision != "admit":
        raise CommandFailed(
            Exit.REFUSED,
            f"the gate did not allow the purge: {done.reason}",
            then="`mnemogate policy explain` shows the rules",
        )
    saved = "files not rewritten" if done.bytes_saved is None else f"{done.bytes_saved} bytes freed"
    terminal.say(f"purged {inert(done.memory_id)}: {saved}, audit leaf {done.leaf_index}")
    return Exit.OK


def _deleted(done: PurgeView) -> Iterator[str]:
    if done.decision == "admit":
        yield f"deleted {inert(done.memory_id)}: its history stays, audit leaf {done.leaf_index}"
    else:
        yield f"the gate did not allow it: {done.reason}"


def _is_admitted(done: PurgeView) -> Exit:
    return Exit.OK if done.decision == "admit" else Exit.REFUSED


def _checked(report: CheckView) -> Iterator[str]:
    problems = counted(len(report.problems), "problem", "problems")
    found = problems if report.problems else "sound"
    yield (
        f"{counted(report.rows, 'change', 'changes')} of memories, "
        f"{counted(report.vectors, 'vector', 'vectors')}, "
        f"{counted(report.leaves, 'leaf', 'leaves')}, version {report.version}: {found}"
    )
    for problem in report.problems:
        yield "  " + inert(problem)
    for orphan in report.orphans:
        yield (
            f"  {inert(orphan.memory_id)} of tenant {inert(orphan.tenant)} was said of "
            f"{inert(orphan.entity_name)}, which is gone: it is shown under that name"
        )


def _is_sound(report: CheckView) -> Exit:
    return Exit.FAILED if report.problems else Exit.OK


async def _quarantine(context: Context) -> Exit:
    asked = context.arguments(_Hiding)
    if bool(asked.memory_ids) is asked.would_refuse:
        raise CommandFailed(Exit.USAGE, "name memories, or --would-refuse, and not both")
    how = {
        "tenant": asked.tenant,
        "reason": asked.reason,
        "with_descendants": asked.with_descendants,
    }
    done: list[Visibility] = []
    async with operator(context) as api, working(context.terminal, "quarantining"):
        ids = asked.memory_ids
        if asked.would_refuse:
            found = await api.ask(OBSERVED, tenant=asked.tenant)
            ids = tuple(
                one.memory.memory_id
                for one in found.observed
                if one.memory.status is MemoryStatus.LIVE
            )
        # The memories are hidden one after the other; if one fails, the memories before it stay
        # hidden. The command may be repeated, because hiding a hidden memory changes nothing.
        for given in ids:
            memory_id = await whole_id(api, IdKind.MEMORY, given, asked.tenant)
            done.append(await api.ask(QUARANTINE, memory_id, **how))
    show(context, StandingList(standings=tuple(done)), _STANDINGS)
    _count(context, done)
    if asked.with_descendants:
        hidden = sum(one.descendants for one in done)
        context.terminal.say(f"{hidden} derived from them hidden as well")
    return Exit.OK


async def _unhide(context: Context) -> Exit:
    asked = context.arguments(_Showing)
    if asked.without_trial is not bool(asked.reason):
        raise CommandFailed(Exit.USAGE, "--without-trial needs --reason, and a trial takes none")
    how = {"tenant": asked.tenant, "reason": asked.reason, "without_trial": asked.without_trial}
    done: list[UnhideView] = []
    async with operator(context) as api, working(context.terminal, "trying again"):
        for given in asked.memory_ids:
            memory_id = await whole_id(api, IdKind.MEMORY, given, asked.tenant)
            done.append(await api.ask(UNHIDE, memory_id, **how))
    show(context, StandingList(standings=tuple(done)), _TRIED)
    _count(context, done)
    refused = any(one.trial is not None and not one.trial.passed for one in done)
    return Exit.FAILED if refused else Exit.OK


async def _confirm(context: Context) -> Exit:
    asked = context.arguments(_Confirm)
    terminal = context.terminal
    done: list[Visibility] = []
    async with operator(context) as api:
        for begins in asked.memory_ids:
            memory_id = await whole_id(api, IdKind.MEMORY, begins, asked.tenant)
            memory = await api.ask(MEMORY, memory_id, tenant=asked.tenant)
            if not terminal.as_json:
                _MEMORY(context, memory)
                if (words := whose_words(memory.source, memory.had_read)) is not None:
                    terminal.say(inert(words))
            if not asked.yes and not context.agreed(
                f"is all of {inert(memory_id)} so, in your own words"
            ):
                raise CommandFailed(
                    Exit.USAGE,
                    f"no one confirmed {inert(memory_id)}; {len(done)} before it are done",
                    then="read it, and pass --yes",
                )
            seen = {"tenant": asked.tenant, "version": memory.version}
            done.append(await api.ask(CONFIRM_MEMORY, memory_id, **seen))
    show(context, StandingList(standings=tuple(done)), lines(_confirmed))
    return Exit.OK


def _confirmed(done: StandingList) -> Iterator[str]:
    for one in done.standings:
        leaf = "was so before" if one.leaf_index is None else f"audit leaf {one.leaf_index}"
        yield f"{inert(one.memory_id)}: your own words from here on ({leaf})"


def _count(context: Context, done: list[Visibility] | list[UnhideView]) -> None:
    context.terminal.say(f"{sum(one.changed for one in done)} of {len(done)} changed")


def _tried(done: UnhideView) -> str:
    trial = done.trial
    if trial is None:
        return ""
    steps = ", ".join(f"{one.step.value} {one.count}" for one in trial.steps)
    against = "nothing is known against it" if trial.against is None else trial.against.value
    return f"{against} ({steps})"


def _filed(memory: MemoryView) -> str:
    ids = memory.scope
    scope = {
        "user": ids.user_id,
        "agent": ids.agent_id,
        "run": ids.run_id,
        "app": ids.app_id,
    }
    return ", ".join(f"{name}={value}" for name, value in scope.items() if value)


def _beginning(path: str) -> Callable[[object], str]:
    """A column with the beginning of the text at an attribute path of the row."""

    def text(row: object) -> str:
        return _in_one_line(attrgetter(path)(row) or "")

    return text


def _in_one_line(text: str) -> str:
    """The beginning of a text on one line, with `/` between its lines."""
    line = " / ".join(one for one in text.split("\n") if one.strip())
    return line if len(line) <= _LINE_LEN else line[:_LINE_LEN] + "…"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


_LABEL: Final[Columns] = {"id": "memory_id", "class": "memory_class", "source": "source"}
_PAGE: Final = table("memories", {**_LABEL, "updated": "updated_at_ms", "text": _beginning("text")})
_FOUND: Final[Columns] = {
    "id": "memory_id",
    "score": lambda one: _share(one.cosine if one.score is None else one.score),
    "label": "source",
    "origin": "origin",
    "status": "status",
}
_PARTS: Final[Columns] = {
    "cosine": lambda one: _share(one.cosine),
    "words": lambda one: _share(one.words),
    "trust": lambda one: _share(one.trust),
    "over the cap": "capped",
}
_QUARANTINED: Final = table(
    "memories", {**_LABEL, "written by": "principal_id", "text": _beginning("text")}
)
_OBSERVED: Final = table(
    "observed",
    {
        "id": "memory.memory_id",
        "class": "memory.memory_class",
        "would be": "decision",
        "reason": "reason",
        "leaf": "leaf_index",
        "text": _beginning("memory.text"),
    },
)
_MEMORY: Final = together(
    pairs(
        {
            "id": "memory_id",
            "tenant": "tenant",
            "class": "memory_class",
            "source": LABEL,
            "written by": "principal_id",
            "filed under": _filed,
            "target": "target",
            "role": "role",
            "speaker": "actor",
            "created": "created_at_ms",
            "updated": "updated_at_ms",
            "status": "status",
            "version": "version",
            "candidate": "candidate_id",
            "metadata": "metadata_json",
        }
    ),
    _text,
)
_HISTORY: Final = table(
    "steps",
    {
        "version": "version",
        "when": "at_ms",
        "change": "change",
        "class": "memory_class",
        "source": "source",
        "new text": _beginning("new_text"),
    },
)
_STANDING: Final[Columns] = {
    "id": "memory_id",
    "status": "status",
    "changed": "changed",
    "leaf": "leaf_index",
}
_STANDINGS: Final = table("standings", _STANDING)
_TRIED: Final = table("standings", {**_STANDING, "trial": _tried})
_USAGE: Final = table(
    "tenants", {"tenant": "tenant", "bytes": "bytes_used", "may take": "bytes_quota"}
)
_TENANT: Final = option("--tenant", OF_TENANT)
_ONE: Final = (option("memory_id", "or the beginning of it", metavar="ID"), _TENANT)
_OF_MEMORY: Final = {"memory_id": IdKind.MEMORY}
_MANY: Final = option("memory_ids", "or the beginning of one", metavar="ID")
_REASON: Final = option("--reason", REASON_HELP, metavar="TEXT")
COMMANDS = (
    Command(
        words=("memory", "list"),
        summary="list stored memories, newest first",
        act=_list,
        options=(
            _TENANT,
            option("--offset", "how many to leave out (default: 0)"),
            option("--limit", "how many to show, up to 1000 (default: 50)"),
            option("--user-id", "only those filed under this user"),
            option(
                "--would-refuse",
                "only, and all of, what observe mode let in and an enforcing gate would not have",
            ),
            option("--quarantined", "only, and all of, what no reader is shown"),
        ),
        form=_Listed,
    ),
    asking(
        "memory search",
        "list what memory has about a text, best first, or all of a selection",
        SEARCH,
        _searched,
        options=(
            option("text", "words or a question", metavar="TEXT"),
            *SELECTION,
            option("--explain", "also the parts of each score"),
            option("--hidden", "also what is under quarantine"),
            option("--offset", "how many to leave out (default: 0)"),
            option("--limit", "how many to show, up to 1000 (default: 10)"),
        ),
        names=NAMED,
        label="searching",
        form=_Search,
    ),
    asking("memory show", "show one memory", MEMORY, _MEMORY, options=_ONE, names=_OF_MEMORY),
    asking(
        "memory history",
        "show every committed step of one memory",
        HISTORY,
        _HISTORY,
        options=_ONE,
        names=_OF_MEMORY,
    ),
    asking(
        "memory delete",
        "delete one memory; its history and its bytes stay until a purge",
        DELETE,
        lines(_deleted),
        options=_ONE,
        names=_OF_MEMORY,
        ends=_is_admitted,
    ),
    Command(
        words=("memory", "purge"),
        summary="erase one memory and its bytes, for good",
        act=_purge,
        options=(
            *_ONE,
            option("--yes", "do not ask"),
            option(
                "--no-compact",
                "leave the rewrite of the files to a later purge; bytes stay until then",
            ),
        ),
        form=_Purge,
    ),
    asking("memory usage", "how much of the store each tenant takes", USAGE, _USAGE),
    asking(
        "check",
        "compare every stored value, the log and the vectors with what the gate wrote",
        CHECK,
        lines(_checked),
        label="checking the whole store",
        ends=_is_sound,
    ),
    Command(
        words=("memory", "quarantine"),
        summary="hide memories from every reader, and keep them",
        act=_quarantine,
        options=(
            _MANY,
            option(
                "--would-refuse",
                "all that observe mode let in and an enforcing gate would not have",
            ),
            option(
                "--with-descendants",
                "also what was derived from one of them, and from that, to the end",
            ),
            _TENANT,
            _REASON,
        ),
        form=_Hiding,
    ),
    Command(
        words=("memory", "unhide"),
        summary="show hidden memories again, each after a trial",
        act=_unhide,
        options=(
            _MANY,
            option("--without-trial", "show them as they are; needs --reason"),
            _TENANT,
            _REASON,
        ),
        form=_Showing,
    ),
    Command(
        words=("memory", "confirm"),
        summary="say that stored memories are so, as your own words, after reading them",
        act=_confirm,
        options=(_MANY, _TENANT, option("--yes", "you have read them; do not ask")),
        form=_Confirm,
    ),
)
