"""`mnemogate policy`: shows a ruleset, and its answer to one write."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from policy.facts import AnchorProbe
from policy.gate import GATE
from policy.model import TEXT_LEN_MAX, Channel, Claims, MemoryClass, SourceKind, Tenant
from policy.ruleset import Ruleset, RulesetError, parse_ruleset
from proxy.admin.dry_run import Explainer, with_words
from proxy.admin.wire.dry_run import ExplainRequest, ExplainView
from proxy.admin.wire.store import PolicyView
from proxy.admin.wire.upkeep import PolicyReloadRequest, PolicyReloadView
from proxy.cli.client import as_text
from proxy.cli.command import Command, Context, read_file
from proxy.cli.connect import operator
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import Terminal, inert
from proxy.dialects.strict_json.strict import decode_as
from proxy.seams.faults import MalformedRequest
from proxy.seams.tenants import DEFAULT_TENANT
from proxy.settings.load import RULESET_BYTES_MAX
from proxy.settings.wider import wider_rules


class _File(msgspec.Struct, frozen=True, kw_only=True):
    file: str


class _Reload(msgspec.Struct, frozen=True, kw_only=True):
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None


class _Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of `policy check --json`."""

    sound: bool
    digest: str | None
    problem: str | None
    matrix: dict[str, dict[str, str]]
    # Keys of the ruleset that let in more than the shipped ruleset does.
    wider: tuple[str, ...] = ()


class _Explain(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    memory_class: MemoryClass = MemoryClass.L3
    mapped: bool = False
    source: SourceKind | None = None
    channel: Channel = Channel.AGENT
    claims: Claims | None = None
    tenant: str = DEFAULT_TENANT
    token: bool = False
    trust: str = "trusted"
    called: bool = False
    ruleset: str | None = None


def _check(context: Context) -> Exit:
    path = Path(context.arguments(_File).file)
    terminal = context.terminal
    try:
        ruleset = _ruleset(path)
    except RulesetError as error:
        if terminal.as_json:
            terminal.data(_Checked(sound=False, digest=None, problem=str(error), matrix={}))
        else:
            terminal.say(f"{inert(str(path))}: {inert(str(error))}")
        return Exit.FAILED
    matrix = {
        source.value: {
            memory_class.value: ruleset.cell(source, memory_class).value
            for memory_class in MemoryClass
        }
        for source in SourceKind
    }
    if terminal.as_json:
        terminal.data(
            _Checked(
                sound=True,
                digest=ruleset.digest,
                problem=None,
                matrix=matrix,
                wider=wider_rules(ruleset),
            )
        )
        return Exit.OK
    classes = [memory_class.value for memory_class in MemoryClass]
    terminal.table(
        ("source \\ class", *classes),
        [(source, *(row[name] for name in classes)) for source, row in matrix.items()],
    )
    for one in wider_rules(ruleset):
        terminal.say(f"wider than as shipped: {one}")
    terminal.say(f"digest {ruleset.digest}")
    return Exit.OK


def _ruleset(path: Path) -> Ruleset:
    data = read_file(path, "the ruleset", RULESET_BYTES_MAX)
    try:
        return parse_ruleset(data.decode())
    except UnicodeDecodeError as error:
        raise RulesetError(f"not UTF-8 at byte {error.start}") from error


async def _explain(context: Context) -> Exit:
    asked = context.arguments(_Explain)
    if len(asked.text) > TEXT_LEN_MAX:
        raise CommandFailed(Exit.USAGE, f"--text is longer than {TEXT_LEN_MAX} characters")
    request = ExplainRequest(
        text=asked.text,
        memory_class=asked.memory_class,
        class_named=not asked.mapped,
        source=asked.source,
        channel=asked.channel,
        claims=_claims(asked),
        tenant=asked.tenant,
        token=asked.token,
        trust=asked.trust,
        called=asked.called,
    )
    if asked.ruleset is None:
        async with operator(context) as api:
            view = await api.post("/policy/explain", ExplainView, request)
    else:
        try:
            rules = _ruleset(Path(asked.ruleset))
        except RulesetError as error:
            raise CommandFailed(
                Exit.FAILED, str(error), then="`mnemogate policy check` shows where"
            ) from error
        explainer = Explainer(gate=GATE, probe=_no_anchors)
        view = explainer.explain(_received(request), rules, 0)
        view = with_words(view, request)
    _show(context.terminal, view)
    return Exit.OK


def _received(request: ExplainRequest) -> ExplainRequest:
    """The write in the form in which a sidecar would have decoded it.

    Raises:
        CommandFailed: A sidecar would refuse the write.
    """
    with as_text():
        sent = msgspec.json.encode(request)
    try:
        return decode_as(sent, ExplainRequest)
    except MalformedRequest as error:
        raise CommandFailed(Exit.USAGE, str(error)) from error


async def _show_active(context: Context) -> Exit:
    async with operator(context) as api:
        view = await api.get("/policy", PolicyView)
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(view)
        return Exit.OK
    terminal.quote(view.text)
    terminal.say(f"digest {view.digest}, epoch {view.epoch}")
    return Exit.OK


async def _reload(context: Context) -> Exit:
    asked = context.arguments(_Reload)
    async with operator(context) as api:
        done = await api.post(
            "/policy/reload", PolicyReloadView, PolicyReloadRequest(digest=asked.digest)
        )
    terminal = context.terminal
    if terminal.as_json:
        terminal.data(done)
        return Exit.OK
    what = "in force" if done.changed else "in force already, unchanged"
    terminal.say(f"{what}: digest {done.digest}, epoch {done.epoch}")
    return Exit.OK


def _claims(asked: _Explain) -> Claims:
    """How a client's claims are treated: a given source needs a channel with trusted claims."""
    if asked.claims is not None:
        return asked.claims
    return Claims.IGNORED if asked.source is None else Claims.TRUSTED


def _no_anchors(_tenant: Tenant, _text: str, _margin: float) -> tuple[AnchorProbe, ...]:
    """The answer about anchors for a dry run without a store: there are none."""
    return ()


def _show(terminal: Terminal, view: ExplainView) -> None:
    if terminal.as_json:
        terminal.data(view)
        return
    terminal.table(
        ("step", "check", "outcome"),
        [(str(step.step), step.name, step.outcome) for step in view.steps],
    )
    why = "" if view.reason is None else f": {view.reason} (step {view.step})"
    terminal.say(f"{view.decision}{why}")
    terminal.pairs(
        [
            ("lands in", view.memory_class.value),
            ("source", "-" if view.source is None else view.source.value),
            ("label rests on", "-" if view.basis is None else view.basis.value),
            ("agent sees", view.observation or "-"),
            *([] if view.fired is None else [("words that fired", view.fired)]),
            *([] if view.remedy is None else [("if that is wrong", view.remedy)]),
        ]
    )


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a ruleset in TOML")


def _reload_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--digest",
        metavar="SHA256",
        help="what `policy check` said of the file; anything else is refused",
    )


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    def words(kind: type[MemoryClass | SourceKind | Channel | Claims]) -> list[str]:
        return [member.value for member in kind]

    parser.add_argument("--text", required=True, help="what would be written")
    parser.add_argument(
        "--class", dest="memory_class", choices=words(MemoryClass), help="default: L3"
    )
    parser.add_argument(
        "--mapped", action="store_true", help="as if a rule had chosen the class, not the client"
    )
    parser.add_argument("--source", choices=words(SourceKind), help="what the client says it is")
    parser.add_argument("--channel", choices=words(Channel), help="default: agent")
    parser.add_argument(
        "--claims",
        choices=words(Claims),
        help="whether what the client says is believed (default: trusted with --source)",
    )
    parser.add_argument("--tenant", help=f"whose anchors (default: {DEFAULT_TENANT})")
    parser.add_argument(
        "--token", action="store_true", help="as if a valid promotion token came along"
    )
    parser.add_argument(
        "--trust", choices=["trusted", "degraded", "untrusted"], help="default: trusted"
    )
    parser.add_argument(
        "--called", action="store_true", help="as if a model front had seen a model make the call"
    )
    parser.add_argument(
        "--ruleset",
        metavar="FILE",
        help="judge by this ruleset, offline and without anchors, instead of the sidecar's",
    )


COMMANDS = (
    Command(
        words=("policy", "check"),
        summary="parse a ruleset; print its digest and matrix",
        act=_check,
        arguments=_check_arguments,
    ),
    Command(words=("policy", "show"), summary="print the ruleset in force", act=_show_active),
    Command(
        words=("policy", "reload"),
        summary="put the ruleset's file in force, or keep the last good one and say why",
        act=_reload,
        arguments=_reload_arguments,
    ),
    Command(
        words=("policy", "explain"),
        summary="judge a write that never happens, step by step",
        act=_explain,
        arguments=_explain_arguments,
    ),
)
