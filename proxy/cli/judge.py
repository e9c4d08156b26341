"""`mnemogate judge`: programs and servers that say whether an answer is wrong."""

from __future__ import annotations

import argparse

import msgspec

from proxy.admin.wire.judging import JudgeAnswerView, JudgeTestView
from proxy.admin.wire.route import Empty
from proxy.cli.command import Command, Context
from proxy.cli.connect import operator
from proxy.cli.exits import Exit


class _Judge(msgspec.Struct, frozen=True, kw_only=True):
    name: str


async def _test(context: Context) -> Exit:
    asked = context.arguments(_Judge)
    async with operator(context) as api:
        tested = await api.post(f"/judges/{asked.name}/test", JudgeTestView, Empty())
    if context.terminal.as_json:
        context.terminal.data(tested)
    else:
        for place, answer in enumerate(tested.answers, 1):
            context.terminal.say(f"answer {place}: {_said(answer)}")
        claim = "says that it is deterministic" if tested.deterministic else "may answer otherwise"
        context.terminal.say(f"{tested.name} {claim}; the answers are{_same(tested)} the same")
    unread = any(answer.problem is not None for answer in tested.answers)
    broken = tested.deterministic and not tested.same
    return Exit.FAILED if unread or broken else Exit.OK


def _said(answer: JudgeAnswerView) -> str:
    if answer.problem is not None:
        return f"none ({answer.problem})"
    return "not known" if answer.fails is None else "fails" if answer.fails else "does not fail"


def _same(tested: JudgeTestView) -> str:
    return "" if tested.same else " not"


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of its [[judge]] table")


COMMANDS = (
    Command(
        words=("judge", "test"),
        summary="ask a judge about one set of memories twice, and compare its answers",
        act=_test,
        arguments=_name,
    ),
)
