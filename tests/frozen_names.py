"""Every name that a user types or parses, taken from the code, and the list that holds them.

`python -P -m tests.frozen_names` adds new names to the list. A name of the list that the code does
not have any more is refused: docs/compatibility.md says when one may go, and then the command takes
it by name, `--without NAME`.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from policy.verdict import Reason
from proxy.admin.wire.operator_routes import API, ROUTES
from proxy.cli import (
    audit,
    backend_check,
    backend_import,
    backup,
    incident,
    mcp_map,
    memory_export,
    policy,
    proven_memories,
    run,
    server_import,
    status,
)
from proxy.cli.exits import Exit
from proxy.cli.parser import build_parser
from proxy.dialects.native.decode import ROUTES as NATIVE_ROUTES
from proxy.dialects.openapi import document
from proxy.doctor.examine import Examination
from proxy.reporting.cloud_event import CloudEvent
from proxy.reporting.incident_notice import IncidentData, IncidentNotice
from proxy.reporting.ocsf import DetectionFinding
from proxy.reporting.review_notice import HeldNotice, ReviewData
from proxy.reporting.sentry import SentryEvent
from proxy.settings.table import SECRETS, variable_of
from storage.audit.verification import Verification
from storage.shard import ShardStatus
from storage.values import BackupSummary
from telemetry import vocabulary
from telemetry.events import StoreGauges
from telemetry.metrics import Metrics
from tests.settings_page import ROWS

ROOT: Final = Path(__file__).resolve().parents[1]
LIST: Final = Path(__file__).with_name("frozen_names.json")
_HEADER: Final = re.compile(r"(?:x-)?mnemogate-[a-z]+(?:-[a-z]+)*", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(r"(?:mnemogate|gen_ai|session|error|server)(?:\.[a-z_]+)+\.?")

_EVENT: Final = re.compile(r"(?:dev\.|urn:)mnemogate[.:][a-z0-9.:_]+")

# What a command prints or writes, where no API answers with it.
PRINTED: Final = (
    audit.Proven,
    backend_check.BackendCheckReport,
    backend_import.ImportedOfBackend,
    backup._Restored,
    incident.CaseList,
    mcp_map.MapView,
    mcp_map.SkeletonView,
    memory_export.ExportResult,
    policy._Checked,
    proven_memories.Head,
    proven_memories.ProofReport,
    proven_memories.ProvenMemory,
    run._Ready,
    server_import.ImportedList,
    status.VersionView,
    BackupSummary,
    Examination,
    status.StatusReport,
    Verification,
    ShardStatus,
)
# What a webhook, a SIEM or Sentry is sent.
SENT: Final = (
    CloudEvent[IncidentData],
    CloudEvent[ReviewData],
    DetectionFinding,
    HeldNotice,
    IncidentNotice,
    SentryEvent,
)

Names = Mapping[str, list[str]]


def names() -> Names:
    """The names of the code, by their kind, sorted."""
    found: dict[str, Iterator[str]] = {
        "commands": _commands(),
        "exit codes": (f"{code.value} {code.name}" for code in Exit),
        "settings": _settings(),
        "ruleset": _flat(tomllib.loads((ROOT / "policy" / "default.toml").read_text("utf-8"))),
        "reasons": (reason.value for reason in Reason),
        "values": _values(),
        "headers, markers and files": _strings("proxy", _HEADER),
        "routes and members": _members(),
        "metrics": _metrics(),
        "spans": _strings("telemetry", _ATTRIBUTE),
        "output of commands": _printed(),
        "records of exports": _keys(ROOT / "proxy" / "cli" / "export.py"),
        "events and findings": chain(
            _members_of(SENT),
            _keys(ROOT / "proxy" / "reporting" / "sentry.py", "SentryEvent: "),
            _strings("proxy", _EVENT),
        ),
    }
    return {kind: sorted(set(each)) for kind, each in found.items()}


def _commands() -> Iterator[str]:
    parsers = [build_parser()]
    everywhere = frozenset(_options(_below(parsers[0])["version"]))
    yield from (f"mnemogate COMMAND {option}" for option in everywhere)
    for parser in parsers:
        parsers += _below(parser).values()
        yield parser.prog
        yield from (f"{parser.prog} {one}" for one in _options(parser) if one not in everywhere)


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the words that may follow."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= cast("dict[str, argparse.ArgumentParser]", vars(action)["choices"])
    return found


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings or [f"<{action.dest}>"] * (action.nargs != "A...")


def _settings() -> Iterator[str]:
    for heading, fields in ROWS.items():
        for name in fields:
            yield f"{heading.removeprefix('## ')}: {name}"
    for name in ROWS["## Settings"] | dict.fromkeys(SECRETS):
        yield variable_of(name)


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in table.items():
        yield f"{above}{key}"
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value), f"{above}{key}.")


def _values() -> Iterator[str]:
    """The closed lists that verdicts, spans and labels draw from."""
    for name, value in vars(vocabulary).items():
        if isinstance(value, frozenset) and name.isupper() and name != "REASONS":
            yield from (f"{name.lower()}: {one}" for one in cast("frozenset[str]", value))


def _members() -> Iterator[str]:
    """The routes, parameters and JSON members of both APIs, as their documents have them."""
    for title, root, routes in (("", "", NATIVE_ROUTES), ("", API, ROUTES)):
        told = json.loads(document(title, root, routes))
        for path, methods in told["paths"].items():
            for method, operation in methods.items():
                yield f"{method.upper()} {path}"
                for one in operation.get("parameters", ()):
                    yield f"{method.upper()} {path} {one['name']}"
        for shape, schema in told["components"]["schemas"].items():
            for member in schema.get("properties", ()):
                yield f"{shape}.{member}"
            yield from (f"{shape}={value}" for value in schema.get("enum", ()))


def _members_of(types: Iterable[Any]) -> Iterator[str]:
    """The members and values of types, and of all that they contain."""
    _, shapes = msgspec.json.schema_components(types)
    for shape, schema in shapes.items():
        # The name of a generic type has its parameter in brackets.
        title = shape.partition("_")[0] if schema.get("title", shape) != shape else shape
        for member in schema.get("properties", ()):
            yield f"{title}.{member}"
        yield from (f"{title}={value}" for value in schema.get("enum", ()))


def _printed() -> Iterator[str]:
    """The members that no API answers, and those of an error."""
    yield from set(_members_of(PRINTED)) - set(_members())
    yield from _keys(ROOT / "proxy" / "cli" / "entry.py", "error.")


def _keys(path: Path, above: str = "") -> Iterator[str]:
    """The keys of every object that a module writes."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        for key in node.keys if isinstance(node, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield f"{above}{key.value}"


def _metrics() -> Iterator[str]:
    metrics = Metrics()
    zeros: dict[str, Any] = dict.fromkeys(StoreGauges.__struct_fields__, 0)
    metrics.set_store(StoreGauges(**zeros))
    for line in metrics.render().decode().splitlines():
        if line.startswith("# TYPE "):
            yield line.removeprefix("# TYPE ")


def _strings(package: str, form: re.Pattern[str]) -> Iterator[str]:
    """The string constants of a package, parts of templates too, that have this form."""
    for path in (ROOT / package).rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if form.search(text) else ():
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and form.fullmatch(value):
                yield value


def listed() -> Names:
    """The names of the list."""
    held: Names = json.loads(LIST.read_text("utf-8"))
    return held


def gone(held: Names, now: Names) -> list[str]:
    """The names of the list that the code has no more."""
    return [
        f"{kind}: {one}"
        for kind, each in held.items()
        for one in each
        if one not in now.get(kind, ())
    ]


def main() -> int:
    """Write the list, unless a name of it is gone that was not named."""
    parser = argparse.ArgumentParser(prog="python -P -m tests.frozen_names", description=__doc__)
    parser.add_argument("--without", action="append", default=[], metavar="NAME")
    dropped: list[str] = parser.parse_args().without
    now = names()
    held = listed()
    missing = [one for one in gone(held, now) if one not in dropped]
    if missing:
        sys.stderr.write("".join(f"gone: {one}\n" for one in missing))
        return 1
    LIST.write_text(f"{json.dumps(now, indent=1, ensure_ascii=False)}\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
