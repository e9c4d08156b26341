"""Draws comments and docstrings for a fresh reader to judge: `python -m tests.words SEED`.

The question about each is: can I say what this means without opening the code? A place is drawn by
a hash of the seed and of where it stands, so the same seed shows the same places after a rewrite.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import re
import sys
import tokenize
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tests import commands_page, settings_page

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("policy", "proxy", "storage", "telemetry")
DRAWN = 60
_PRAGMA = re.compile(r"#!|#\s*(?:noqa|type:|pyright:|fmt:|pragma)")
# Words that this project used where its field has others (docs/glossary.md).
PRIVATE = ("goes on", "stands", "told", "says", "behind", "nobody")
# The headings of each page whose tables are printed from the code.
PRINTED = {
    "commands.md": frozenset(commands_page.tables()),
    "settings.md": frozenset(settings_page.ROWS),
}
Documented: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Wording(NamedTuple):
    """One docstring, or one block of comment lines, and where it stands."""

    file: str
    # The dotted name of what is documented, and for a comment of what it stands in.
    name: str
    # How many of the same kind come before it under this name.
    number: int
    kind: str
    line: int
    text: str


def _named(tree: ast.Module) -> list[tuple[str, Documented]]:
    """Every module, class and function of a file, with its dotted name; "" of the module."""
    found: list[tuple[str, Documented]] = []
    ahead: list[tuple[str, ast.AST]] = [("", tree)]
    for name, node in ahead:
        if isinstance(node, Documented):
            found.append((name, node))
        for child in ast.iter_child_nodes(node):
            own = "" if not isinstance(child, Documented) else getattr(child, "name", "")
            ahead.append((".".join(filter(None, (name, own))), child))
    return found


def _docstrings(file: str, tree: ast.Module) -> list[Wording]:
    return [
        Wording(file, name, 0, "docstring", node.body[0].lineno, text)
        for name, node in _named(tree)
        if (text := ast.get_docstring(node))
    ]


def _comments(file: str, source: str, tree: ast.Module) -> list[Wording]:
    blocks: list[tuple[int, list[str]]] = []
    # The line on which the last block could go on; 0 after a comment that stands behind code.
    goes_on = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or _PRAGMA.match(token.string):
            continue
        line, text = token.start[0], token.string.lstrip("# ")
        alone = token.line.lstrip().startswith("#")
        if alone and line == goes_on:
            blocks[-1][1].append(text)
        else:
            blocks.append((line, [text]))
        goes_on = line + 1 if alone else 0
    spans = [
        (node.lineno, node.end_lineno or node.lineno, name)
        for name, node in _named(tree)
        if not isinstance(node, ast.Module)
    ]
    found: list[Wording] = []
    for first, lines in blocks:
        inside = [one for one in spans if one[0] <= first <= one[1]]
        name = max(inside)[2] if inside else ""
        number = sum(one.name == name for one in found)
        found.append(Wording(file, name, number, "comment", first, "\n".join(lines)))
    return found


@cache
def wordings(packages: tuple[str, ...] = SHIPPED) -> tuple[Wording, ...]:
    """Every docstring and every comment of the packages, linters' pragmas left out."""
    found: list[Wording] = []
    for path in sorted(one for package in packages for one in (ROOT / package).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        file, tree = path.relative_to(ROOT).as_posix(), ast.parse(source)
        found += [*_docstrings(file, tree), *_comments(file, source, tree)]
    return tuple(found)


def private_words() -> dict[str, int]:
    """How often each private word is in comments, docstrings and pages, records left out."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = [one.text for one in wordings()] + [page.read_text("utf-8") for page in pages]
    everything = re.sub(r"\s+", " ", "\n".join(texts)).lower()
    return {word: len(re.findall(rf"\b{word}\b", everything)) for word in PRIVATE}


def document_words(root: Path = ROOT) -> dict[str, int]:
    """The words of each page of `docs`, without the tables that are printed from the code."""
    return {
        page.name: len(_written(page.name, page.read_text("utf-8")).split())
        for page in sorted((root / "docs").glob("*.md"))
    }


def _written(page: str, text: str) -> str:
    """The text of a page without its printed tables."""
    printed = PRINTED.get(page, frozenset[str]())
    sections = re.split(r"(?m)^(?=## )", text)
    return "".join(
        re.sub(r"(?m)^\|.*\n", "", one) if one.partition("\n")[0] in printed else one
        for one in sections
    )


def drawn(seed: str, count: int = DRAWN) -> list[Wording]:
    """As many of them as asked for, by this seed."""

    def lot(one: Wording) -> bytes:
        place = f"{seed}:{one.file}:{one.name}:{one.kind}:{one.number}"
        return hashlib.sha256(place.encode()).digest()

    return sorted(wordings(), key=lot)[:count]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.words", description=__doc__)
    parser.add_argument("seed", help="any text; write it down beside the result")
    parser.add_argument("--count", type=int, default=DRAWN)
    asked = parser.parse_args()
    for number, one in enumerate(drawn(asked.seed, asked.count), start=1):
        sys.stdout.write(f"\n{number}. {one.kind} of {one.file} {one.name}\n")
        sys.stdout.write("".join(f"    {line}\n" for line in one.text.splitlines()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
