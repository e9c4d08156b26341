"""`mnemogate review list`, `release` and `deny`: held candidates, singly or many at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import msgspec

from proxy.admin.wire.ids import IdKind
from proxy.admin.wire.review_queue import (
    ONE_BY_ONE,
    DecidedMany,
    ReviewPage,
    Selection,
    SelectionRequest,
)
from proxy.admin.wire.store import OutcomeView
from proxy.cli.client import PATIENT_S, part
from proxy.cli.command import Command
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.short_ids import whole_id
from proxy.cli.terminal import age, inert, iso, moment, now_ms
from proxy.seams.delivery import COUNTS, FOLLOWS, Way

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from proxy.admin.wire.store import HeldView
    from proxy.cli.client import Operator
    from proxy.cli.command import Context
    from proxy.cli.terminal import Terminal

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
    same: str | None = None
    limit: int | None = None


class _Decide(QueueFilter, frozen=True, kw_only=True):
    candidate_ids: tuple[str, ...] = ()
    confirm: str | None = None


async def _list(context: Context) -> Exit:
    asked = context.arguments(QueueFilter)
    async with operator(context) as api:
        query = await filtered(api, asked)
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
            "tenant",
            "principal",
            "class",
            "age",
            "why",
            "from",
            "for",
            "same",
            "begins",
        ),
        [row(one) for one in held],
    )


def row(one: HeldView) -> tuple[str, ...]:
    """One held candidate, as the cells of a row in the table."""
    return (
        one.candidate_id,
        one.tenant,
        one.principal,
        one.memory_class.value,
        age(one.held_at_ms, now_ms()),
        in_words(one.reason),
        one.origin,
        # Texts count as the same only if they are filed under the same ids, so the row shows these
        # ids.
        one.filed_under or "-",
        str(one.same),
        one.begins or "-",
    )


async def _release(context: Context) -> Exit:
    return await _decide(context, "release", "admit")


async def _deny(context: Context) -> Exit:
    return await _decide(context, "deny", "reject")


async def _decide(context: Context, word: str, wanted: str) -> Exit:
    asked = context.arguments(_Decide)
    async with operator(context) as api:
        if asked.confirm is not None:
            return await _decide_many(context, api, word, asked.confirm)
        if not asked.candidate_ids:
            return await _choose(context, api, word, asked)
        for given in asked.candidate_ids:
            candidate_id = await held_id(api, given)
            path = f"/review/{part(candidate_id)}/{word}"
            _tell_one(context, await api.post(path, OutcomeView), wanted)
    return Exit.OK


def _tell_one(context: Context, outcome: OutcomeView, wanted: str) -> None:
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(outcome)
    if outcome.decision != wanted:
        raise CommandFailed(
            Exit.FAILED,
            f"the gate still answers {outcome.decision}: {outcome.reason} (step {outcome.step})",
            then="a person's word passes a hold, not a refusal",
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
    if outcome.same:
        terminal.say(
            f"{len(outcome.same)} more that say exactly the same still wait: "
            f"mnemogate review list --same {inert(outcome.same[0])}"
        )


def _tell_lifted(terminal: Terminal, lifted: Sequence[str]) -> None:
    if lifted:
        terminal.say(
            f"{len(lifted)} denied before of the same text: withheld no longer, since this is "
            "your later word"
        )


async def _choose(context: Context, api: Operator, word: str, asked: _Decide) -> Exit:
    """Show which candidates the filter selects, and decide them once a person confirms."""
    query = await filtered(api, asked)
    if not query:
        raise CommandFailed(
            Exit.USAGE, "say which: ids, or a filter", then=f"mnemogate review {word} --help"
        )
    if word == "release" and asked.same is None:
        raise CommandFailed(
            Exit.USAGE,
            "together is let in only what says exactly the same",
            then="--same ID, or ids one by one",
        )
    chosen = await api.post("/review/select", Selection, query, timeout_s=PATIENT_S)
    page = await api.list("/review", ReviewPage, query | {"limit": _SHOWN})
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(chosen)
        return Exit.OK
    _rows(terminal, page.held)
    if word == "release" and not chosen.releasable:
        raise CommandFailed(
            Exit.USAGE,
            ONE_BY_ONE,
            then="read each (`mnemogate review show ID`), then mnemogate review release ID",
        )
    more = f", {chosen.count - len(page.held)} more than these" if chosen.count > _SHOWN else ""
    terminal.say(f"{chosen.count} chosen{more}, as they are now, until {iso(chosen.until_ms)}")
    if sys.stdin.isatty():
        terminal.note(f"{word} all {chosen.count}? type yes")
        if sys.stdin.readline().strip() == "yes":
            return await _decide_many(context, api, word, chosen.digest)
    terminal.say(f"then: mnemogate review {word} --confirm {inert(chosen.digest)}")
    return Exit.OK


async def _decide_many(context: Context, api: Operator, word: str, digest: str) -> Exit:
    request = SelectionRequest(digest=digest)
    done = await api.post(f"/review/{word}", DecidedMany, request, timeout_s=PATIENT_S)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(done)
        return Exit.OK
    terminal.say(f"{done.admitted} let in, {done.refused} refused")
    for way, count in done.ways.items():
        terminal.say(f"{count} allowed: {FOLLOWS[Way(way)]}")
    if word == "deny" and done.refused:
        terminal.say(f"each {COUNTS}: mnemogate trust show")
    _tell_lifted(terminal, done.lifted)
    if done.changed:
        terminal.say(f"{len(done.changed)} were not as they had been, and were left alone:")
        for candidate_id in done.changed:
            terminal.say(f"  {inert(candidate_id)}")
    return Exit.OK


async def filtered(api: Operator, asked: QueueFilter) -> dict[str, str | int | None]:
    """The filter for the API, without fields that were not given."""
    given: dict[str, str | int | None] = {
        "tenant": asked.tenant,
        "class": asked.memory_class,
        "reason": asked.reason,
        "principal": asked.principal,
        "origin": asked.origin,
        "since_ms": None if asked.since is None else moment("--since", asked.since),
        "same": None if asked.same is None else await held_id(api, asked.same),
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
    parser.add_argument("--same", metavar="ID", help="only what says exactly what this one says")


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    filter_arguments(parser)
    parser.add_argument("--limit", type=int, help="rows to show (default: 100)")


def _decide_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "candidate_ids", metavar="CANDIDATE_ID", nargs="*", help="or the beginning of one"
    )
    filter_arguments(parser)
    parser.add_argument(
        "--confirm", metavar="DIGEST", help="act on what a filter chose in the last 15 minutes"
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
        arguments=_decide_arguments,
    ),
    Command(
        words=("review", "deny"),
        summary="refuse held candidates; their content is destroyed",
        act=_deny,
        arguments=_decide_arguments,
    ),
)
