"""Builds the parser of the command line from one table of commands."""

from __future__ import annotations

import argparse
import gc
import importlib
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn, Protocol, cast

from proxy.cli.command import Command
from proxy.cli.exits import CommandFailed, Exit
from proxy.version import version

_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "--version": (),
    "run": ("run",),
    "status": ("status",),
    "log": ("verdict_log",),
    "version": ("status",),
    "mcp": ("mcp",),
    "hook": ("hook",),
    "doctor": ("doctor",),
    "evaluate": ("evaluate",),
    "memory": ("memory",),
    "memory export": ("memory_export",),
    "insight": ("insight_views",),
    "rank": ("insight_views",),
    "check": ("memory",),
    "erase": ("retention",),
    "isolate": ("isolate",),
    "rewind": ("isolate",),
    "blame": ("incident",),
    "incident": ("incident",),
    "recall": ("session",),
    "provenance": ("show_provenance",),
    "places": ("places",),
    "review": ("review",),
    "review watch": ("review_watch",),
    "trust": ("principals",),
    "session": ("session",),
    "token": ("principals",),
    "anchor": ("anchors",),
    "canary": ("anchors",),
    "judge": ("anchors",),
    "key": ("principals",),
    "audit": ("audit",),
    "audit export": ("export",),
    "trace": ("export",),
    "policy": ("policy",),
    "retention": ("retention",),
    "backend approve": ("backend",),
    "backend check": ("backend_check",),
    "backend import": ("backend_import",),
    "shard": ("shard_commands",),
    "backup": ("backup",),
    "restore": ("backup",),
}
"""A mapping of a command's first words to the modules of `proxy.cli` that define it."""

_RENAMED: Final = {
    "memory parole": "memory unhide",
    "review vouch": "memory confirm",
    "review settle": "review resolve",
    "review adopt": "backend import",
    "backend adopt": "backend import",
}
"""A mapping of the words of a removed command to its successor."""

_GROUPS: Final = {
    "memory": "what is stored",
    "insight": "what memories are about, and where they came from",
    "rank": "what feedback says of the order of memories",
    "provenance": "where memories came from",
    "incident": "wrong answers, and who was to blame",
    "recall": "which memories reads showed, and which a model saw",
    "places": "files that hosts put into model requests",
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
    "shard": "a store of several processes, one of which holds it",
}


class _Words(Protocol):
    """The interface of argparse's class for subcommands, which is private in argparse."""

    def add_parser(
        self,
        name: str,
        *,
        help: str,  # noqa: A002 - argparse's name
        description: str,
        parents: Sequence[argparse.ArgumentParser] = ...,
        allow_abbrev: bool = ...,
    ) -> argparse.ArgumentParser: ...


def commands(*words: str) -> tuple[Command, ...]:
    """The command that these words name; else the commands of its group; else all commands.

    Only the modules of these commands are imported, because most commands call a running sidecar
    and need neither an index nor the patterns of a language.
    """
    typed = (*words[:1], *(word for word in words[1:2] if not word.startswith("-")))
    first = typed[0] if typed else ""
    group = [key for key in _MODULES if key.split(" ")[0] == first]
    for keys in ([" ".join(typed)], [first], group):
        found = tuple(one for one in _of(keys) if one.words == typed[: len(one.words)])
        if found:
            return found
    return tuple(one for one in _of(group) if one.words[0] == first) if group else _of(_MODULES)


def _of(keys: Iterable[str]) -> tuple[Command, ...]:
    names = dict.fromkeys(name for key in keys for name in _MODULES.get(key, ()))
    gc.disable()
    modules = [importlib.import_module(f"proxy.cli.{name}") for name in names]
    # Modules live as long as the process, so no collection needs to visit what they made.
    gc.freeze()
    gc.enable()
    return tuple(one for module in modules for one in module.COMMANDS)


class _JsonErrors(argparse.ArgumentParser):
    """A parser that raises `CommandFailed` for a wrong command line, to be printed as JSON."""

    def error(self, message: str) -> NoReturn:
        """Raise `CommandFailed` for a wrong command line, in place of argparse's exit."""
        raise CommandFailed(Exit.USAGE, message, then=f"see {self.prog} --help")


def build_parser(*words: str) -> argparse.ArgumentParser:
    """The parser for a command line with these words; without words, for every command line.

    The parsed namespace has the command as `command`, and each argument under its own name.

    Raises:
        CommandFailed: The words name a removed command.
    """
    old = " ".join(words[:2])
    if (new := _RENAMED.get(old)) is not None:
        raise CommandFailed(
            Exit.USAGE, f"there is no `{old}`: it is `{new}`", then=f"see mnemogate {new} --help"
        )
    kind: type[argparse.ArgumentParser] = (
        _JsonErrors if "--json" in words else argparse.ArgumentParser
    )
    parser = kind(
        prog="mnemogate",
        description="A sidecar in front of an unmodified agent: a rejected memory never forms.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    number = version() if "--version" in words else ""
    parser.add_argument("--version", action="version", version=f"mnemogate {number}")
    common = _common()
    firsts = cast("_Words", parser.add_subparsers(metavar="COMMAND", required=True))
    groups: dict[str, _Words] = {}
    for command in commands(*words):
        *group, name = command.words
        if group:
            if group[0] not in groups:
                above = firsts.add_parser(
                    group[0], help=_GROUPS[group[0]], description=_GROUPS[group[0]]
                )
                groups[group[0]] = above.add_subparsers(metavar="COMMAND", required=True)
            beside = groups[group[0]]
        else:
            beside = firsts
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
    """The options that every command takes, such as `--json` and `--state`."""
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
