"""The pages of Review: what waits for a person, in groups, and the decision on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from policy.model import ChangeKind, SourceKind
from proxy.admin.wire.review_queue import (
    DENY_LINES,
    DENY_MANY,
    GROUP,
    GROUPS,
    RELEASE_LINES,
    WAITING,
    ActView,
    DenyMany,
    LineView,
    ReviewFilter,
)
from proxy.admin.wire.store import HELD, HeldView
from proxy.console.page import Page, PageCall, Shown
from proxy.dialects.described import query_as
from proxy.seams.faults import MalformedRequest, NotFound
from proxy.seams.observations import COUNTS, FOLLOWS, Way, whose_words

SAMPLES_SHOWN: Final = 20
# What a session may have read that is no tool and no server, in the words of a reader.
_READ: Final = {
    "system": "the system prompt of its program",
    "catalogue": "the descriptions of its tools",
    "host": "texts that its program added",
    "user": "what came under the name of the user",
    "tool": "results of tools",
    "model": "what a model had said",
}


def read_before(source: SourceKind, named: tuple[str, ...] | None) -> str:
    """Whose words a text is, and what the conversation that wrote it had read, as a sentence."""
    if named is not None:
        named = tuple(_READ.get(one, one) for one in named)
    return whose_words(source, named) or "A person's own words."


class _Decision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    decision: Literal["approve", "deny"]
    shown: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    strike: tuple[str, ...] = ()
    alone: str = ""  # given where the page was about one candidate, and not about its group


class ShownLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line with the whole view of the first candidate that has it."""

    line: LineView
    held: HeldView

    @property
    def read(self) -> str:
        """What the conversation that wrote it had read, as a sentence."""
        return read_before(self.held.source, self.held.had_read)


async def waiting(call: PageCall) -> Shown:
    """The groups that wait, oldest first."""
    asked = {name: call.query[name] for name in ("after",) if name in call.query}
    return Shown("review.html", {"listed": await call.ask(GROUPS, **asked)})


async def group(call: PageCall) -> Shown:
    """One group, or with `alone` in the query one candidate, with all that a decision is about.

    A held candidate's id leads to its group; a link's holder sees the one candidate.
    """
    alone = call.linked or "alone" in call.query
    view = await call.ask(GROUP, await _subject(call, alone=alone))
    held = await asyncio.gather(*(call.ask(HELD, one.candidates[0]) for one in view.lines))
    lines = [ShownLine(line=line, held=one) for line, one in zip(view.lines, held, strict=True)]
    values = {
        "alone": alone,
        "group": view,
        "linked": call.linked,
        "path": f"/review/{call.argument}",
        "removes": not any(one.comes for one in view.lines),
        "sections": _sections(lines),
        "change_words": {ChangeKind.DELETE: "removal", ChangeKind.UPDATE: "change"},
    }
    return Shown("group.html", values)


async def _subject(call: PageCall, *, alone: bool) -> str:
    """The group, or the one candidate, that an address of Review is about.

    The address has the id of a candidate, by which the log has who decided, even after a restart.
    """
    subject = call.argument
    if alone or subject.startswith("g"):
        return subject
    listed = await call.ask(WAITING, id=subject, limit=2)
    groups = {one.group for one in listed.held}
    return groups.pop() if len(groups) == 1 else subject


def _sections(lines: Iterable[ShownLine]) -> list[tuple[bool, str, list[ShownLine]]]:
    """Lines by conversation; last those proposed after foreign text was read."""
    made: dict[tuple[bool, str], list[ShownLine]] = {}
    for one in lines:
        made.setdefault((one.line.after_reading, one.line.sessions[0]), []).append(one)
    ordered = sorted(made.items(), key=lambda one: one[0][0])
    return [(after_reading, session, some) for (after_reading, session), some in ordered]


async def decide(call: PageCall) -> Shown:
    """Let in, or deny, exactly the lines that were shown, without those that are struck out."""
    form = call.filled(_Decision, lists=("strike",))
    subject = await _subject(call, alone=call.linked or bool(form.alone))
    if form.decision == "approve":
        done = await call.ask(RELEASE_LINES, subject, shown=form.shown, strike=form.strike)
    else:
        done = await call.ask(DENY_LINES, subject, shown=form.shown)
    onward = () if call.linked else (("/review", "What waits besides"),)
    values = {"done": done, "told": _told(done), "onward": onward}
    return Shown("decided.html", values)


def _told(done: ActView) -> list[str]:
    """The sentences that report the outcome of an act to the person who decided."""
    told = [f"{count} allowed: {FOLLOWS[Way(way)]}." for way, count in done.ways.items()]
    if done.denied:
        told.append(f"{len(done.denied)} denied, and not asked again. It {COUNTS}.")
    if done.refused and not done.denied:
        told.append(
            f"{done.refused} cannot be remembered all the same: another check refused them."
        )
    if done.waiting:
        told.append(f"{done.waiting} that came later still wait.")
    return told or ["Somebody else has decided it meanwhile."]


async def ask_denial(call: PageCall) -> Shown:
    """How much a denial of all that fits a filter would deny, with samples."""
    asked = query_as(call.query.items(), ReviewFilter)
    if not asked.said:
        raise MalformedRequest("Choose first of what: an agent, a place or an origin.")
    fields = {**call.query, "limit": SAMPLES_SHOWN}
    listed = await call.ask(WAITING, **fields)
    if not listed.total:
        raise NotFound("Nothing waits here any more.")
    values = {"listed": listed, "fields": call.query, "until_ms": call.now_ms}
    return Shown("deny.html", values)


async def deny_many(call: PageCall) -> Shown:
    """Deny all that fits the filter of the form, if the typed count is right."""
    asked = call.filled(DenyMany)
    fields = {name: one for name, one in msgspec.to_builtins(asked).items() if one is not None}
    done = await call.ask(DENY_MANY, **fields)
    told = (f"{done.denied} denied, and not asked again. It {COUNTS}.", f"{done.waiting} wait.")
    values = {"title": "Denied", "sentences": told, "onward": (("/review", "What waits besides"),)}
    return Shown("done.html", values)


PAGES: Final = (
    Page(
        template="/review",
        nav="Review",
        handler=waiting,
        twins=(GROUPS,),
        commands=("review groups",),
    ),
    Page(
        template="/review-deny",
        handler=ask_denial,
        twins=(WAITING,),
        commands=("review list",),
    ),
    Page(
        method="POST",
        template="/review-deny",
        handler=deny_many,
        twins=(DENY_MANY,),
        commands=("review deny-all",),
    ),
    Page(
        template="/review/{subject}",
        handler=group,
        twins=(GROUP, HELD),
        commands=("review show",),
        linked=True,
    ),
    Page(
        method="POST",
        template="/review/{subject}",
        handler=decide,
        twins=(RELEASE_LINES, DENY_LINES),
        commands=("review release", "review deny"),
        linked=True,
    ),
)
