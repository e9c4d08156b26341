"""`mnemogate anchor` and `mnemogate canary`: registered truths and questions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec

from policy.after.matchers import Applies
from policy.model import MemoryClass
from proxy.admin.wire.registered import (
    AnchorList,
    AnchorRequest,
    AnchorView,
    CanaryList,
    CanaryRequest,
    CanaryRunRequest,
    CanaryRunView,
    CanaryView,
)
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import Exit
from proxy.cli.terminal import Terminal, iso
from proxy.seams.tenants import DEFAULT_TENANT


class _Tenant(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str = DEFAULT_TENANT


class _Anchor(msgspec.Struct, frozen=True, kw_only=True):
    statement: str
    question: list[str]
    must: list[str] = []
    must_not: list[str] = []
    applies: Applies = Applies.BOTH
    memory_class: MemoryClass | None = None
    tenant: str = DEFAULT_TENANT
    anchor_id: str | None = None


class _Canary(msgspec.Struct, frozen=True, kw_only=True):
    question: list[str]
    must: list[str] = []
    must_not: list[str] = []
    memory_class: MemoryClass | None = None
    tenant: str = DEFAULT_TENANT
    canary_id: str | None = None


async def _anchor_list(context: Context) -> Exit:
    asked = context.arguments(_Tenant)
    async with operator(context) as api:
        listed = await api.get("/anchors", AnchorList, tenant=asked.tenant)
    if context.terminal.as_json:
        context.terminal.data(listed)
    else:
        _anchor_table(context.terminal, listed.anchors)
    return Exit.OK


async def _anchor_put(context: Context) -> Exit:
    asked = context.arguments(_Anchor)
    request = AnchorRequest(
        statement=asked.statement,
        questions=tuple(asked.question),
        tenant=asked.tenant,
        anchor_id=asked.anchor_id,
        must=tuple(asked.must),
        must_not=tuple(asked.must_not),
        applies=asked.applies,
        memory_class=asked.memory_class,
    )
    async with operator(context) as api:
        view = await api.post("/anchors", AnchorView, request)
    if context.terminal.as_json:
        context.terminal.data(view)
    else:
        _anchor_table(context.terminal, (view,))
        for note in view.notes:
            context.terminal.note(note)
    return Exit.OK


async def _canary_list(context: Context) -> Exit:
    asked = context.arguments(_Tenant)
    async with operator(context) as api:
        listed = await api.get("/canaries", CanaryList, tenant=asked.tenant)
    if context.terminal.as_json:
        context.terminal.data(listed)
    else:
        _canary_table(context.terminal, listed.canaries)
    return Exit.OK


async def _canary_put(context: Context) -> Exit:
    asked = context.arguments(_Canary)
    request = CanaryRequest(
        questions=tuple(asked.question),
        must=tuple(asked.must),
        must_not=tuple(asked.must_not),
        memory_class=asked.memory_class,
        tenant=asked.tenant,
        canary_id=asked.canary_id,
    )
    async with operator(context) as api:
        view = await api.post("/canaries", CanaryView, request)
    if context.terminal.as_json:
        context.terminal.data(view)
    else:
        _canary_table(context.terminal, (view,))
    return Exit.OK


async def _canary_run(context: Context) -> Exit:
    asked = context.arguments(_Tenant)
    async with operator(context) as api:
        ran = await api.post("/canaries/run", CanaryRunView, CanaryRunRequest(tenant=asked.tenant))
    if context.terminal.as_json:
        context.terminal.data(ran)
    else:
        context.terminal.table(
            ("canary", "lacks what it asks for", "memories that say what it forbids"),
            [
                (one.canary_id, "yes" if one.lacking else "no", " ".join(one.failing))
                for one in ran.outcomes
            ],
        )
    return Exit.FAILED if any(one.failure_id for one in ran.outcomes) else Exit.OK


def _canary_table(terminal: Terminal, canaries: Sequence[CanaryView]) -> None:
    terminal.table(
        ("id", "tenant", "since", "questions", "must", "must not"),
        [
            (
                canary.canary_id,
                canary.tenant,
                iso(canary.created_at_ms),
                " / ".join(canary.questions),
                " / ".join(canary.must),
                " / ".join(canary.must_not),
            )
            for canary in canaries
        ],
        nothing="no canary; `mnemogate canary put` makes one",
    )


def _anchor_table(terminal: Terminal, anchors: Sequence[AnchorView]) -> None:
    terminal.table(
        ("id", "tenant", "since", "statement", "questions", "must", "must not"),
        [
            (
                anchor.anchor_id,
                anchor.tenant,
                iso(anchor.created_at_ms),
                anchor.statement,
                " / ".join(anchor.questions),
                " / ".join(anchor.must),
                " / ".join(anchor.must_not),
            )
            for anchor in anchors
        ],
        nothing="no anchor; `mnemogate anchor put` makes one",
    )


def _tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", help=f"default: {DEFAULT_TENANT}")


def _anchor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("statement", metavar="STATEMENT", help="what is true")
    parser.add_argument(
        "--question", action="append", required=True, help="a question it answers; repeatable"
    )
    _matcher(parser)
    parser.add_argument(
        "--applies",
        choices=[each.value for each in Applies],
        help="hold the words against replies, memories that are shown, or both (default)",
    )
    parser.add_argument("--id", dest="anchor_id", help="replace the anchor of this id")
    _tenant(parser)


def _canary_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--question", action="append", required=True, help="asked of retrieval; repeatable"
    )
    _matcher(parser)
    parser.add_argument("--id", dest="canary_id", help="replace the canary of this id")
    _tenant(parser)


def _matcher(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--must",
        action="append",
        metavar="TEXT",
        help="words that have to be said, or re: and a pattern; repeatable",
    )
    parser.add_argument(
        "--must-not",
        action="append",
        metavar="TEXT",
        help="words that may not be said, or re: and a pattern; repeatable",
    )
    parser.add_argument(
        "--class",
        dest="memory_class",
        choices=[each.value for each in MemoryClass],
        help="hold only memories of this class against them",
    )


COMMANDS = (
    Command(
        words=("anchor", "list"),
        summary="list the statements that memories are held against",
        act=_anchor_list,
        arguments=_tenant,
    ),
    Command(
        words=("anchor", "put"),
        summary="register a statement, with the questions it answers",
        act=_anchor_put,
        arguments=_anchor_arguments,
    ),
    Command(
        words=("canary", "list"),
        summary="list the questions that retrieval is asked",
        act=_canary_list,
        arguments=_tenant,
    ),
    Command(
        words=("canary", "run"),
        summary="ask retrieval the questions of a tenant's canaries; 1 where one fails",
        act=_canary_run,
        arguments=_tenant,
    ),
    Command(
        words=("canary", "put"),
        summary="register questions, with what memories may not answer",
        act=_canary_put,
        arguments=_canary_arguments,
    ),
)
