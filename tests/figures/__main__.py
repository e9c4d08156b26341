"""`make figures`: how much there is to know, counted.

Statements are those of the syntax trees, without docstrings. A path is the calls of our own Python
functions for one request, with the distinct functions and the files that they are in.
"""

from __future__ import annotations

import argparse
import sys

import msgspec

from tests.figures.counting import Figures, figures
from tests.figures.path import BARS, RequestPath, paths


class _Printed(msgspec.Struct, frozen=True, kw_only=True):
    """The figures as JSON; no paths where none were asked for."""

    counted: Figures
    paths: dict[str, RequestPath]


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="make figures", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-path", action="store_true", help="do not run a sidecar (seconds)")
    asked = parser.parse_args()
    found = _Printed(counted=figures(), paths={} if asked.no_path else paths())
    if asked.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    else:
        sys.stdout.write("\n".join(_lines(found)) + "\n")
    return 0


def _lines(found: _Printed) -> list[str]:
    counted, named = found.counted, found.counted.names
    rooms = [f"  {name:24} {count:6}" for name, count in counted.statements_by_room.items()]
    rows = {
        "lines": counted.lines,
        "files": counted.files,
        "lines of tests": counted.test_lines,
        "lines of the evaluation": counted.evaluation_lines,
        "lines of mutants": counted.mutant_lines,
        "words of documents": counted.document_words,
        "classes": named.classes,
        "Protocols": named.protocols,
        "struct fields": named.struct_fields,
        "LMDB tables": counted.lmdb_tables,
        "routes": counted.routes,
        "commands": counted.commands,
        "settings": counted.settings,
    }
    lines = [f"{'statements':26} {counted.statements:6}", *rooms]
    lines += [f"{name:26} {count:6}" for name, count in rows.items()]
    for kind, path in found.paths.items():
        shown = f"{path.calls:6} calls, {path.functions} functions, {path.files} files"
        bar = f" (bar: {BARS[kind]})" if kind in BARS else ""
        lines.append(f"{f'path of {kind}':26} {shown}{bar}")
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
