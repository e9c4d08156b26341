"""The whole command line as one table, and the parser made from it."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import Final, Protocol

from proxy.cli.command import Command
from proxy.cli.exits import Exit
from proxy.version import version

_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "--version": (),
    "run": ("run",),
    "mcp": ("mcp",),
    "doctor": ("doctor",),
    "evaluate": ("evaluate",),
    "memory": ("memory", "memory_export"),
    "check": ("memory",),
    "isolate": ("isolate",),
    "rewind": ("isolate",),
    "blame": ("incident",),
    "incident": ("incident",),
    "recall": ("recall",),
    "provenance": ("show_provenance",),
    "review": ("review", "review_watch", "adopt"),
    "trust": ("trust",),
    "session": ("session",),
    "token": ("tokens",),
    "anchor": ("anchors",),
    "canary": ("anchors",),
    "judge": ("anchors",),
    "key": ("keys",),
    "audit": ("audit", "export"),
    "policy": ("policy",),
    "retention": ("retention",),
    "backend": ("backend", "backend_check", "backend_adopt"),
    "backup": ("backup",),
    "restore": ("backup",),
}
"""By the first word of a command, the modules of `proxy.cli` that have it, in the order of help."""

_GROUPS: Final = {
    "memory": "what is stored",
    "provenance": "where memories came from",
    "incident": "wrong answers, and who was to blame",
    "recall": "which memories reads showed, and which a model saw",
    "review": "held candidates that wait for a person",
    "trust": "the trust of each principal",
    "session": "what entered an agent's context, and what followed",
    "token": "promotion tokens",
    "anchor": "statements that memories are held against",
    "canary": "questions whose answers are watched",
    "judge": "programs and servers that say whether an answer fails",
    "key": "API keys and their principals",
    "audit": "the tamper-evident log",
    "policy": "the ruleset",
    "retention": "how long memories are kept",
    "backend": "memory servers behind the gate",
}


class _Words(Protocol):
    """argparse's type for subcommands, which is private there."""

    def add_parser(
        self,
        name: str,
        *,
        help: str,  # noqa: A002 - argparse's name
        description: str,
        parents: Sequence[argparse.ArgumentParser] = ...,
        allow_abbrev: bool = ...,
    ) -> argparse.ArgumentParser: ...


def commands(first: str | None = None) -> tuple[Command, ...]:
    """The commands that begin with this word; all commands if none does.

    What one command needs is loaded for that command alone: most ask a running sidecar, and load
    neither an index nor the patterns of a language.
    """
    known = _MODULES.get(first or "")
    every = dict.fromkeys(name for each in _MODULES.values() for name in each)
    names = every if known is None else known
    found: list[Command] = []
    for name in names:
        found += importlib.import_module(f"proxy.cli.{name}").COMMANDS
    return tuple(each for each in found if known is None or each.words[0] == first)


def build_parser(first: str | None = None) -> argparse.ArgumentParser:
    """The parser for a line that begins with this word, or for every line.

    The parsed command stands under `command`, each argument under its own name.
    """
    parser = argparse.ArgumentParser(
        prog="mnemogate",
        description="A sidecar in front of an unmodified agent: a rejected memory never forms.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mnemogate {version()}")
    common = _common()
    words: _Words = parser.add_subparsers(metavar="COMMAND", required=True)
    groups: dict[str, _Words] = {}
    for command in commands(first):
        *group, name = command.words
        if group:
            if group[0] not in groups:
                above = words.add_parser(
                    group[0], help=_GROUPS[group[0]], description=_GROUPS[group[0]]
                )
                groups[group[0]] = above.add_subparsers(metavar="COMMAND", required=True)
            beside = groups[group[0]]
        else:
            beside = words
        leaf = beside.add_parser(
            name,
            help=command.summary,
            description=command.summary,
            parents=[common],
            allow_abbrev=False,
        )
        if command.arguments is not None:
            command.arguments(leaf)
        for one in command.options:
            one.add(leaf, command.form)
        leaf.set_defaults(command=command)
    return parser


def _common() -> argparse.ArgumentParser:
    """The options that every command has."""
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = common.add_argument_group("everywhere")
    group.add_argument("--json", action="store_true", help="one JSON document, stable keys")
    group.add_argument("--state", metavar="DIR", help="the sidecar's state directory")
    group.add_argument("--config", metavar="FILE", help="mnemogate.toml to read")
    group.add_argument("--checkpoint", metavar="FILE", help="the checkpoint outside the store")
    group.add_argument(
        "--admin",
        metavar="URL",
        help="the admin listener, instead of the socket in --state; "
        "for `run`: the HOST:PORT to listen on",
    )
    group.add_argument(
        "--progress", action="store_true", help="show progress although stderr is no terminal"
    )
    return common


def _epilog() -> str:
    codes = "\n".join(f"  {code.value:>3}  {code.meaning}" for code in Exit)
    return (
        "Flags win over MNEMOGATE_* variables, those over mnemogate.toml.\n"
        "Operator commands use the socket in the state directory (as the sidecar's user or root),\n"
        "or --admin URL with MNEMOGATE_OPERATOR_KEY. Where no sidecar runs, they open the state\n"
        "themselves.\n\n"
        f"exit codes:\n{codes}"
    )
