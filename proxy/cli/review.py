"""`mnemogate review`: shows and decides held candidates; any text of them may be an attack."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec

from policy.model import ChangeKind, MemoryClass
from policy.verdict import Reason
from proxy.admin.wire.review_queue import (
    DENY_LINES,
    DENY_MANY,
    GROUP,
    GROUPS,
    RELEASE_LINES,
    WAITING,
    ActView,
    DeniedView,
    GroupList,
    GroupRow,
    GroupView,
    ReviewPage,
)
from proxy.admin.wire.route import IdKind
from proxy.admin.wire.store import (
    DENY,
    HELD,
    RELEASE,
    HeldView,
    OutcomeView,
)
from proxy.admin.wire.upkeep import (
    FORGIVE,
    RESOLVE,
    UNSETTLED,
    ForgivenView,
    UnsettledList,
)
from proxy.cli.api_commands import (
    LABEL,
    Columns,
    asking,
    lines,
    pairs,
    show,
    table,
)
from proxy.cli.client import Operator, whole_id
from proxy.cli.command import Command, Context, Options, option
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal, age, counted, inert, moment, now_ms
from proxy.seams.observations import CLASS_WORDS, COUNTS, FOLLOWS, WHY, Way, whose_words
from storage.values import Decision

_Ids = tuple[str, ...]


class _Decide(msgspec.Struct, frozen=True, kw_only=True):
    ids: _Ids
    shown: str | None = None
    strike: _Ids = ()
    apply: str | None = None


class _One(msgspec.Struct, frozen=True, kw_only=True):
    candidate_id: str


def _in_words(reason: Reason) -> str:
    return f"{WHY[reason]} ({reason.value})"


def _listed(context: Context, page: ReviewPage) -> None:
    table("held", HELD_COLUMNS)(context, page)
    more = "" if len(page.held) == page.total else f", {len(page.held)} shown (--limit)"
    fitting = f" of {page.waiting}" if page.fits else ""
    which = f" fit {inert(page.fits)}" if page.fits else ""
    context.terminal.say(f"{page.total}{fitting} waiting{which}{more}")


def _groups(context: Context, listed: GroupList) -> None:
    _GROUPS(context, listed)
    more = ", more after these (--after)" if listed.more else ""
    context.terminal.say(f"{listed.waiting} waiting in {listed.total} groups{more}")


def _denied_many(done: DeniedView) -> Iterator[str]:
    yield f"{done.denied} denied, {done.waiting} waiting"
    yield f"what is denied {COUNTS}"


def _since(one: GroupRow) -> str:
    return age(one.oldest_ms, now_ms())


def _reasons(one: GroupRow) -> str:
    return ", ".join(map(_in_words, one.reasons))


_GROUPS: Final = table(
    "groups",
    {
        "group": "group",
        "principal": "principal",
        "place": "place",
        "waiting": "waiting",
        "read": "after_reading",
        "age": _since,
        "why": _reasons,
        "cursor": "cursor",
    },
)


def _age(one: HeldView) -> str:
    return age(one.held_at_ms, now_ms())


def _why(one: HeldView) -> str:
    return _in_words(one.reason)


HELD_COLUMNS: Final[Columns] = {
    "candidate": "candidate_id",
    "group": "group",
    "tenant": "tenant",
    "principal": "principal_id",
    "class": "memory_class",
    "age": _age,
    "why": _why,
    "from": "origin",
    "for": "filed_under",
    "read": "after_reading",
    "begins": "begins",
}


async def _decide(wanted: Decision, context: Context) -> Exit:
    asked = context.arguments(_Decide)
    async with operator(context) as api:
        if _is_group(asked.ids[0]):
            return await _decide_group(context, api, wanted, asked)
        for begins in asked.ids:
            candidate_id = await whole_id(api, IdKind.HELD, begins)
            row = RELEASE if wanted is Decision.ADMIT else DENY
            _tell_one(context, await api.ask(row, candidate_id), wanted)
    return Exit.OK


def _is_group(typed: str) -> bool:
    """Whether a text is the id of a group: it begins with `g`, which is no hex digit."""
    return typed.startswith("g")


def _tell_one(context: Context, outcome: OutcomeView, wanted: Decision) -> None:
    terminal = context.terminal
    terminal.answer(outcome)
    reason = "None" if outcome.reason is None else outcome.reason.value
    if outcome.decision is not wanted:
        raise CommandFailed(
            Exit.FAILED,
            f"the gate still answers {outcome.decision.value}: {reason} (step {outcome.step})",
            then="a person's word passes a hold, not a refusal; what was changed since it was "
            "asked for has to be asked for anew",
        )
    became, way = "", outcome.way
    if outcome.memory_id is not None:
        verb = "stored" if way is Way.STORE else "allowed"
        became = f", {verb} as {outcome.memory_class.value}, memory {inert(outcome.memory_id)}"
    terminal.say(
        f"{inert(outcome.candidate_id)}: {outcome.decision.value}{became}, "
        f"version {outcome.version}, audit leaf {outcome.leaf_index}"
    )
    if outcome.decision is Decision.ADMIT and way is not Way.STORE:
        terminal.say(FOLLOWS[way])
    if outcome.counts_against:
        who = inert(outcome.counts_against)
        terminal.say(f"it {COUNTS}: mnemogate trust show {who} --history")
    _tell_lifted(terminal, outcome.lifted)
    if outcome.withheld:
        terminal.say(
            "its text is withheld from its agent wherever it stands, until an equal one is "
            f"released, or: mnemogate review forgive {inert(outcome.candidate_id)}"
        )


def _tell_lifted(terminal: Terminal, lifted: Sequence[str]) -> None:
    if lifted:
        terminal.say(
            f"{len(lifted)} denied before of the same text: withheld no longer, since this is "
            "your later word"
        )


async def _decide_group(context: Context, api: Operator, wanted: Decision, asked: _Decide) -> Exit:
    """Decide the lines of a group that were shown; with `--apply`, write them into a file."""
    group = asked.ids[0]
    if asked.shown is None or len(asked.ids) > 1:
        raise CommandFailed(
            Exit.USAGE,
            "an act is on the lines that were shown",
            then=f"mnemogate review show {inert(group)}",
        )
    row = RELEASE_LINES if wanted is Decision.ADMIT else DENY_LINES
    applied = asked.apply is not None
    done = await api.ask(row, group, shown=asked.shown, strike=asked.strike, applied=applied)
    terminal = context.terminal
    terminal.answer(done)
    came = sum(one.comes for one in done.lines)
    gone = f"{len(done.lines) - came} removed, " if came < len(done.lines) else ""
    terminal.say(f"{came} let in, {gone}{len(done.denied)} denied")
    for way, count in done.ways.items():
        if asked.apply is None or Way(way) is Way.STORE:
            terminal.say(f"{count} allowed: {FOLLOWS[Way(way)]}")
    if done.denied:
        terminal.say(f"what is denied {COUNTS}: mnemogate trust show")
    _tell_lifted(terminal, done.lifted)
    if done.waiting:
        terminal.say(f"{done.waiting} that came later still wait")
    if asked.apply is not None:
        await _apply(Path(asked.apply), done)
        terminal.say(f"written to {inert(asked.apply)}")
    return Exit.OK


async def _apply(file: Path, done: ActView) -> None:
    """Append the released new lines to a file, and delete the released removed lines from it.

    Raises:
        CommandFailed: The file cannot be written; the lines are released nevertheless.
    """

    def write() -> None:
        before = file.read_text("utf-8").splitlines() if file.exists() else []
        goes = {one.text for one in done.lines if not one.comes}
        lines = [one for one in before if one not in goes]
        lines += [one.text for one in done.lines if one.comes]
        mode = file.stat().st_mode if file.exists() else 0o644
        # The temporary file has a random name, so that no one can place a link there that the write
        # would follow.
        with NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", delete=False) as beside:
            beside.writelines(f"{line}\n" for line in lines)
        Path(beside.name).chmod(mode)
        Path(beside.name).replace(file)

    try:
        await asyncio.to_thread(write)
    except (OSError, UnicodeError) as error:
        raise CommandFailed(
            Exit.FAILED,
            f"{inert(str(file))} cannot be written: {error}",
            then="write these lines into it: " + " | ".join(inert(one.text) for one in done.lines),
        ) from None


_GROUP: Final = pairs(
    {"group": "group", "place": "place", "principal": "principal", "tenant": "tenant"}
)


def _show_group(context: Context, group: GroupView) -> None:
    """Print a group's lines; those of sessions that had read foreign text follow separately."""
    terminal = context.terminal
    _GROUP(context, group)
    for read in (False, True):
        some = [one for one in group.lines if one.after_reading is read]
        if some and read:
            terminal.say("proposed after other people's text had been read:")
        for line in some:
            sessions = ", ".join(one[:8] or "unknown" for one in line.sessions)
            goes = "" if line.comes else ", this goes"
            whole = f", candidate {line.candidates[0]}" if line.whole else ""
            terminal.say(f"{line.id} (conversation {inert(sessions)}{goes}{inert(whole)}):")
            terminal.quote(line.text)
            if line.stored is not None:
                terminal.say("stored now, and changed or removed by this:")
                terminal.quote(line.stored)
    if group.more:
        terminal.say(f"{counted(group.more, 'more line waits', 'more lines wait')} after these")
    terminal.say("then one of:")
    for verb in ("release", "deny"):
        terminal.say(f"  mnemogate review {verb} {inert(group.group)} --shown {inert(group.shown)}")
    comes = any(one.comes for one in group.lines)
    then = "what is let in counts as your own words" if comes else "a release removes all of it"
    terminal.say(f"{then}; --strike ID leaves a line out for good")


async def _show(context: Context) -> Exit:
    begins = context.arguments(_One).candidate_id
    async with operator(context) as api:
        if _is_group(begins):
            show(context, await api.ask(GROUP, begins), _show_group)
        else:
            candidate_id = await whole_id(api, IdKind.HELD, begins)
            show(context, await api.ask(HELD, candidate_id), _show_one)
    return Exit.OK


def _show_one(context: Context, held: HeldView) -> None:
    terminal = context.terminal
    _HELD(context, held)
    words = whose_words(held.source, held.had_read)
    if words is not None:
        terminal.say(inert(words))
    if held.stored is not None:
        terminal.say("stored now, and changed or removed by this:")
        terminal.quote(held.stored)
    if held.text is not None:
        terminal.say(f"text, as written ({held.source.value}):")
        terminal.quote(held.text)
    terminal.say("then one of:")
    for verb in ("release", "deny"):
        terminal.say(f"  mnemogate review {verb} {inert(held.candidate_id)}")
    if held.change is ChangeKind.DELETE:
        terminal.say("a release removes what it names, a denial keeps it")
    else:
        terminal.say("a release says that the whole of it is so: it counts as your own words then")


def _because(held: HeldView) -> str:
    return f"{_in_words(held.reason)}, at step {held.step} of the gate"


def _class(memory_class: MemoryClass | None) -> str:
    return "" if memory_class is None else f"{memory_class.value} ({CLASS_WORDS[memory_class]})"


def _held_as(held: HeldView) -> str:
    return _class(held.memory_class)


def _released_as(held: HeldView) -> str:
    return _class(held.becomes)


_HELD: Final = pairs(
    {
        "candidate": "candidate_id",
        "group": "group",
        "had read": "after_reading",
        "held since": "held_at_ms",
        "because": _because,
        "words that fired": "fired",
        "against anchors": "anchors",
        "principal": "principal_id",
        "tenant": "tenant",
        "held as": _held_as,
        "released as": _released_as,
        "source": LABEL,
        "claimed source": "claimed_source",
        "change": "change",
        "target": "target",
        "filed under": "filed_under",
        "memory": "memory_id",
        "metadata": "metadata_json",
    }
)


def _forgiven(done: ForgivenView) -> Iterator[str]:
    same = "" if done.candidates == 1 else f", with {done.candidates - 1} more that say the same"
    yield f"{inert(done.candidate_id)}: forgiven{same}, audit leaf {done.leaf_index}"
    yield "its agent sees the text again; proposed again, it is judged anew"


def _is_there(_flag: str, typed: str) -> bool:
    return typed == "done"


def _unsettled(context: Context, listed: UnsettledList) -> None:
    _UNSETTLED(context, listed)
    context.terminal.say(f"{len(listed.unsettled)} not settled")


_UNSETTLED: Final = table(
    "unsettled",
    {
        "candidate": "candidate_id",
        "tenant": "tenant",
        "server": "target",
        "change": "change",
        "state": "state",
    },
)
_OF_ALL: Final = option("--tenant", "only this tenant's (default: all)")
HELD_FILTER: Final[Options] = (
    _OF_ALL,
    option("--class"),
    option("--reason", "only what waits for this reason", metavar="REASON"),
    option("--principal", "only what this principal wrote"),
    option("--origin", "only what comes from there, as `from` shows it"),
    option(
        "--since",
        "only what came at or after this time",
        field="since_ms",
        metavar="TIME",
        read=moment,
    ),
)
_ID: Final = option("candidate_id", "or the beginning of it", metavar="CANDIDATE_ID")
_DECIDED: Final[Options] = (
    option("ids", "of candidates (or beginnings of them), or one group", metavar="ID"),
    option("--shown", "of the group's lines, as `show` says it", metavar="DIGEST"),
)
COMMANDS = (
    asking(
        "review list",
        "list held candidates, oldest first",
        WAITING,
        _listed,
        options=(*HELD_FILTER, option("--limit", "rows to show (default: 100)")),
    ),
    asking(
        "review groups",
        "list what waits by agent and place, oldest first",
        GROUPS,
        _groups,
        options=(
            option("--after", "the `cursor` of the last group that was listed", metavar="CURSOR"),
            option("--limit", "groups to show (default: 20)"),
        ),
    ),
    asking(
        "review deny-all",
        "deny all that fits, if it is exactly so many",
        DENY_MANY,
        lines(_denied_many),
        options=(
            *HELD_FILTER,
            option("--group", "only this group"),
            option("--count", "how many fit, as `review list` says it"),
            option(
                "--until",
                "only what came at or before this time (default: now)",
                field="until_ms",
                metavar="TIME",
                read=moment,
            ),
        ),
    ),
    Command(
        words=("review", "release"),
        summary="let held candidates in, if nothing else refuses them",
        act=partial(_decide, Decision.ADMIT),
        options=(
            *_DECIDED,
            option(
                "--strike",
                "deny this line of the group, and let the others in; may be given again",
                metavar="LINE",
            ),
            option(
                "--apply", "write the lines into this file yourself, here and now", metavar="FILE"
            ),
        ),
        form=_Decide,
    ),
    Command(
        words=("review", "deny"),
        summary="refuse held candidates; their content is destroyed",
        act=partial(_decide, Decision.REJECT),
        options=_DECIDED,
        form=_Decide,
    ),
    Command(
        words=("review", "show"),
        summary="show one held candidate with its content, or the lines of a group",
        act=_show,
        options=(_ID,),
        form=_One,
    ),
    asking(
        "review forgive",
        "forget a denial, and let the agent see again what a refused candidate says",
        FORGIVE,
        lines(_forgiven),
        options=(_ID,),
        names={"candidate_id": IdKind.REFUSED},
    ),
    asking(
        "review unsettled",
        "list admitted changes that a server behind does not have for sure",
        UNSETTLED,
        _unsettled,
        options=(_OF_ALL,),
    ),
    asking(
        "review resolve",
        "say whether a server behind has such a change",
        RESOLVE,
        _unsettled,
        options=(
            _ID,
            option(
                "result",
                "`done` or `failed`: whether the server behind has the change",
                field="done",
                metavar="result",
                choices=("done", "failed"),
                read=_is_there,
            ),
        ),
        names={"candidate_id": IdKind.UNSETTLED},
    ),
)
