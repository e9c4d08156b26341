"""`mnemogate policy`: checks, shows and reloads rulesets, and judges a hypothetical write."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from policy.facts import AnchorProbe
from policy.gate import GATE
from policy.model import TEXT_LEN_MAX, Claims, MemoryClass, SourceKind, Tenant
from policy.ruleset import Ruleset, RulesetError, parse_ruleset
from proxy.admin.rules_in_force import Explainer, with_words
from proxy.admin.wire.dry_run import EXPLAIN, ExplainRequest, ExplainView
from proxy.admin.wire.store import (
    POLICY,
    PolicyView,
)
from proxy.admin.wire.upkeep import RELOAD, PolicyReloadView
from proxy.cli.api_commands import Asked, asking, given, lines, pairs, show, table
from proxy.cli.client import as_text
from proxy.cli.command import Command, Context, Options, option, read_file
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.dialects.strict_json.strict import decode_as
from proxy.seams.faults import MalformedRequest
from proxy.seams.tenants import DEFAULT_TENANT
from proxy.settings.table import RULESET_BYTES_MAX
from proxy.settings.wider import wider_rules


class _File(msgspec.Struct, frozen=True, kw_only=True):
    file: str


class _Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `policy check --json`."""

    sound: bool
    digest: str | None
    problem: str | None
    matrix: dict[str, dict[str, str]]
    # Keys of the ruleset that admit more than in the shipped ruleset.
    wider: tuple[str, ...] = ()


class _Explain(ExplainRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mapped: bool = False
    ruleset: str | None = None


def _check(context: Context) -> Exit:
    checked = _checked(Path(context.arguments(_File).file))
    show(context, checked, _told)
    return Exit.OK if checked.sound else Exit.FAILED


def _checked(path: Path) -> _Checked:
    try:
        ruleset = _ruleset(path)
    except RulesetError as error:
        return _Checked(sound=False, digest=None, problem=str(error), matrix={})
    matrix = {
        source.value: {
            memory_class.value: ruleset.cell(source, memory_class).value
            for memory_class in MemoryClass
        }
        for source in SourceKind
    }
    wider = wider_rules(ruleset)
    return _Checked(sound=True, digest=ruleset.digest, problem=None, matrix=matrix, wider=wider)


def _told(context: Context, checked: _Checked) -> None:
    terminal = context.terminal
    if checked.problem is not None:
        terminal.say(f"{inert(context.arguments(_File).file)}: {inert(checked.problem)}")
        return
    classes = [memory_class.value for memory_class in MemoryClass]
    terminal.table(
        ("source \\ class", *classes),
        [(source, *(row[name] for name in classes)) for source, row in checked.matrix.items()],
    )
    for one in checked.wider:
        terminal.say(f"wider than as shipped: {one}")
    terminal.say(f"digest {checked.digest}")


def _ruleset(path: Path) -> Ruleset:
    data = read_file(path, "the ruleset", RULESET_BYTES_MAX)
    try:
        return parse_ruleset(data.decode())
    except UnicodeDecodeError as error:
        raise RulesetError(f"not UTF-8 at byte {error.start}") from error


async def _explain(context: Context) -> Exit:
    asked = given(context, _EXPLAINED)
    if len(str(asked["text"])) > TEXT_LEN_MAX:
        raise CommandFailed(Exit.USAGE, f"--text is longer than {TEXT_LEN_MAX} characters")
    asked["class_named"] = not asked.pop("mapped")
    if "source" in asked:
        # A source that a client names counts only if the client's claims are trusted.
        asked.setdefault("claims", Claims.TRUSTED)
    rules = asked.pop("ruleset", None)
    if rules is None:
        async with operator(context) as api:
            view = await api.ask(EXPLAIN, **asked)
    else:
        view = _offline(_received(asked), Path(str(rules)))
    show(context, view, _explained)
    return Exit.OK


def _offline(request: ExplainRequest, file: Path) -> ExplainView:
    """Judge a hypothetical write by a ruleset's file, without a sidecar and without anchors."""
    try:
        rules = _ruleset(file)
    except RulesetError as error:
        raise CommandFailed(
            Exit.FAILED, str(error), then="`mnemogate policy check` shows where"
        ) from error
    view = Explainer(gate=GATE, probe=_no_anchors).explain(request, rules, 0)
    return with_words(view, request)


def _received(asked: Asked) -> ExplainRequest:
    """The hypothetical write, decoded as a sidecar would decode the request.

    Raises:
        CommandFailed: A sidecar would reject the request as malformed.
    """
    with as_text():
        sent = msgspec.json.encode(asked)
    try:
        return decode_as(sent, ExplainRequest)
    except MalformedRequest as error:
        raise CommandFailed(Exit.USAGE, str(error)) from error


def _active(context: Context, view: PolicyView) -> None:
    context.terminal.copy(view.text.rstrip())
    context.terminal.say(f"# digest {view.digest}, epoch {view.epoch}")


def _reloaded(done: PolicyReloadView) -> tuple[str, ...]:
    what = "in force" if done.changed else "in force already, unchanged"
    return (f"{what}: digest {done.digest}, epoch {done.epoch}",)


def _no_anchors(_tenant: Tenant, _text: str, _margin: float) -> tuple[AnchorProbe, ...]:
    """Report that there are no anchors, for a dry run without a store."""
    return ()


def _explained(context: Context, view: ExplainView) -> None:
    _STEPS(context, view)
    why = "" if view.reason is None else f": {view.reason} (step {view.step})"
    context.terminal.say(f"{view.decision}{why}")
    _EXPLAIN(context, view)


_STEPS: Final = table("steps", {"step": "step", "check": "name", "outcome": "outcome"})
_EXPLAIN: Final = pairs(
    {
        "lands in": "memory_class",
        "source": "source",
        "label rests on": "basis",
        "agent sees": "observation",
        "words that fired": "fired",
        "if that is wrong": "remedy",
    }
)
_EXPLAINED: Final[Options] = (
    option("--text", "what would be written", required=True),
    option("--class", "default: L3", field="memory_class"),
    option("--mapped", "as if a rule had chosen the class, not the client"),
    option("--source", "what the client says it is"),
    option("--channel", "default: agent"),
    option("--claims", "whether what the client says is believed (default: trusted with --source)"),
    option("--tenant", f"whose anchors (default: {DEFAULT_TENANT})"),
    option("--token", "as if a valid promotion token came along"),
    option("--trust", "default: trusted", choices=("trusted", "degraded", "untrusted")),
    option("--called", "as if a model front had seen a model make the call"),
    option(
        "--ruleset",
        "judge by this ruleset, offline and without anchors, instead of the sidecar's",
        metavar="FILE",
    ),
)
COMMANDS = (
    Command(
        words=("policy", "check"),
        summary="parse a ruleset; print its digest and matrix",
        act=_check,
        options=(option("file", "a ruleset in TOML", metavar="FILE"),),
        form=_File,
    ),
    asking("policy show", "print the ruleset in force", POLICY, _active),
    asking(
        "policy reload",
        "put the ruleset's file in force, or keep the last good one and say why",
        RELOAD,
        lines(_reloaded),
        options=(
            option(
                "--digest",
                "what `policy check` said of the file; anything else is refused",
                metavar="SHA256",
            ),
        ),
    ),
    Command(
        words=("policy", "explain"),
        summary="judge a write that never happens, step by step",
        act=_explain,
        options=_EXPLAINED,
        form=_Explain,
    ),
)
