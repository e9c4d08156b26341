"""`mnemogate review list`, `release` and `deny`: held candidates by id, and groups of them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec

from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.review_queue import Act, ActView, GroupView, ReviewPage
from proxy.admin.wire.store import HeldView, OutcomeView
from proxy.cli.client import PATIENT_S, Operator, part
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import Terminal, age, inert, moment, now_ms
from proxy.seams.delivery import COUNTS, FOLLOWS, Way

# How many rows of a selection are shown before a person confirms the selection.
_SHOWN: Final = 10
# For each reason of a refusal a few words that fit into a table; docs/reasons.md has the full text.
_IN_WORDS: Final = {
    "class_floor": "gives the agent orders",
    "source_class_forbidden": "its source may not write this class",
    "source_below_stored": "would change what somebody more trusted wrote",
    "person_required": "may be the user's own",
    "instruction_place": "a host reads it as instructions",
    "removal_after_reading": "removes, after reading, what was written without",
    "trust_soft_score": "its principal's recent outcomes were bad",
    "trust_latched": "its principal or its tool is latched",
    "promotion_token_missing": "needs a person's word",
    "contradicts_anchor": "contradicts what you registered",
    "outranks_anchor": "outranks what you registered",
    "quota_exceeded": "much from one origin",
    "rate_limited": "much in a short time",
}


def in_words(reason: str) -> str:
    """A reason in a few words, with its code."""
    return f"{_IN_WORDS.get(reason, reason)} ({reason})"


class QueueFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filter for held candidates, from the command line."""

    tenant: str | None = None
    memory_class: str | None = None
    reason: str | None = None
    principal: str | None = None
    origin: str | None = None
    since: str | None = None
    limit: int | None = None


class _Decide(msgspec.Struct, frozen=True, kw_only=True):
    ids: tuple[str, ...]
    shown: str | None = None
    strike: tuple[str, ...] = ()
    apply: str | None = None


async def _list(context: Context) -> Exit:
    asked = context.arguments(QueueFilter)
    async with operator(context) as api:
        query = filtered(asked)
        page = await api.list("/review", ReviewPage, query | {"limit": asked.limit})
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(page)
        return Exit.OK
    _rows(terminal, page.held)
    more = "" if len(page.held) == page.total else f", {len(page.held)} shown (--limit)"
    fitting = f" of {page.waiting}" if page.fits else ""
    which = f" fit {inert(page.fits)}" if page.fits else ""
    terminal.say(f"{page.total}{fitting} waiting{which}{more}")
    return Exit.OK


def _rows(terminal: Terminal, held: Sequence[HeldView]) -> None:
    terminal.table(
        (
            "candidate",
            "group",
            "tenant",
            "principal",
            "class",
            "age",
            "why",
            "from",
            "for",
            "read",
            "begins",
        ),
        [row(one) for one in held],
    )


def row(one: HeldView) -> tuple[str, ...]:
    """One held candidate, as the cells of a row in the table."""
    return (
        one.candidate_id,
        one.group,
        one.tenant,
        one.principal,
        one.memory_class.value,
        age(one.held_at_ms, now_ms()),
        in_words(one.reason),
        one.origin,
        one.filed_under or "-",
        "yes" if one.after_reading else "no",
        one.begins or "-",
    )


async def _release(context: Context) -> Exit:
    return await _decide(context, "release", "admit")


async def _deny(context: Context) -> Exit:
    return await _decide(context, "deny", "reject")


async def _decide(context: Context, word: str, wanted: str) -> Exit:
    asked = context.arguments(_Decide)
    async with operator(context) as api:
        if is_group(asked.ids[0]):
            return await _decide_group(context, api, word, asked)
        for given in asked.ids:
            candidate_id = await held_id(api, given)
            path = f"/review/{part(candidate_id)}/{word}"
            _tell_one(context, await api.post(path, OutcomeView), wanted)
    return Exit.OK


def is_group(given: str) -> bool:
    """Whether a text is the id of a group, which no id of a candidate begins like."""
    return given.startswith("g")


def _tell_one(context: Context, outcome: OutcomeView, wanted: str) -> None:
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(outcome)
    if outcome.decision != wanted:
        raise CommandFailed(
            Exit.FAILED,
            f"the gate still answers {outcome.decision}: {outcome.reason} (step {outcome.step})",
            then="a person's word passes a hold, not a refusal; what was changed since it was "
            "asked for has to be asked for anew",
        )
    became, way = "", Way(outcome.way)
    if outcome.memory_id is not None:
        verb = "stored" if way is Way.STORE else "allowed"
        became = f", {verb} as {outcome.memory_class.value}, memory {inert(outcome.memory_id)}"
    terminal.say(
        f"{inert(outcome.candidate_id)}: {outcome.decision}{became}, "
        f"version {outcome.version}, audit leaf {outcome.leaf_index}"
    )
    if outcome.decision == "admit" and way is not Way.STORE:
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


async def _decide_group(context: Context, api: Operator, word: str, asked: _Decide) -> Exit:
    """Decide the lines of a group that were shown; with `apply`, write them into a file."""
    group = asked.ids[0]
    if asked.shown is None or len(asked.ids) > 1:
        raise CommandFailed(
            Exit.USAGE,
            "an act is on the lines that were shown",
            then=f"mnemogate review show {inert(group)}",
        )
    path = f"/groups/{part(group)}/{word}"
    act = Act(shown=asked.shown, strike=asked.strike, applied=asked.apply is not None)
    done = await api.post(path, ActView, act, timeout_s=PATIENT_S)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(done)
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
    """Write the lines that were let in into a file: those that come at its end.

    Raises:
        CommandFailed: The file cannot be written; the lines are let in all the same.
    """

    def write() -> None:
        before = file.read_text("utf-8").splitlines() if file.exists() else []
        goes = {one.text for one in done.lines if not one.comes}
        lines = [one for one in before if one not in goes]
        lines += [one.text for one in done.lines if one.comes]
        mode = file.stat().st_mode if file.exists() else 0o644
        # A name that no one can foresee: what is there already is never written through.
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


def show_group(terminal: Terminal, group: GroupView) -> None:
    """Print what waits in a group: its lines by session, those of sessions that had read apart."""
    terminal.pairs(
        [
            ("group", group.group),
            ("place", group.place),
            ("principal", group.principal),
            ("tenant", group.tenant),
        ]
    )
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
        terminal.say(f"{group.more} more wait after these")
    terminal.say("then one of:")
    for verb in ("release", "deny"):
        terminal.say(f"  mnemogate review {verb} {inert(group.group)} --shown {inert(group.shown)}")
    comes = any(one.comes for one in group.lines)
    then = "what is let in counts as your own words" if comes else "a release removes all of it"
    terminal.say(f"{then}; --strike ID leaves a line out for good")


def filtered(asked: QueueFilter) -> dict[str, str | int | None]:
    """The filter for the API, without fields that were not given."""
    given: dict[str, str | int | None] = {
        "tenant": asked.tenant,
        "class": asked.memory_class,
        "reason": asked.reason,
        "principal": asked.principal,
        "origin": asked.origin,
        "since_ms": None if asked.since is None else moment("--since", asked.since),
    }
    return {name: value for name, value in given.items() if value is not None}


async def held_id(api: Operator, given: str) -> str:
    """The id of the held candidate with this beginning.

    Raises:
        CommandFailed: No held candidate has this beginning, or several have.
    """
    return await whole_id(api, IdKind.HELD, given)


def filter_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command line that filter held candidates."""
    parser.add_argument("--tenant", help="only this tenant's (default: all)")
    parser.add_argument("--class", dest="memory_class", choices=("L1", "L2", "L3", "L4"))
    parser.add_argument(
        "--reason",
        choices=list(_IN_WORDS),
        metavar="REASON",
        help="only what waits for this reason",
    )
    parser.add_argument("--principal", help="only what this principal wrote")
    parser.add_argument("--origin", help="only what comes from there, as `from` shows it")
    parser.add_argument("--since", metavar="TIME", help="only what came at or after this time")


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    filter_arguments(parser)
    parser.add_argument("--limit", type=int, help="rows to show (default: 100)")


def _decide_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "ids", metavar="ID", nargs="+", help="of candidates (or beginnings of them), or one group"
    )
    parser.add_argument("--shown", metavar="DIGEST", help="of the group's lines, as `show` says it")


def _release_arguments(parser: argparse.ArgumentParser) -> None:
    _decide_arguments(parser)
    parser.add_argument(
        "--strike",
        metavar="LINE",
        action="append",
        default=[],
        help="deny this line of the group, and let the others in; may be given again",
    )
    parser.add_argument(
        "--apply", metavar="FILE", help="write the lines into this file yourself, here and now"
    )


COMMANDS = (
    Command(
        words=("review", "list"),
        summary="list held candidates, oldest first",
        act=_list,
        arguments=_list_arguments,
    ),
    Command(
        words=("review", "release"),
        summary="let held candidates in, if nothing else refuses them",
        act=_release,
        arguments=_release_arguments,
    ),
    Command(
        words=("review", "deny"),
        summary="refuse held candidates; their content is destroyed",
        act=_deny,
        arguments=_decide_arguments,
    ),
)
