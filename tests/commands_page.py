"""The tables of docs/commands.md, printed from the parser.

`python -P -m tests.commands_page` writes them into the page; all else in it stays as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from proxy.cli.exits import Exit
from proxy.cli.parser import commands
from tests.settings_page import with_table

PAGE: Final = Path(__file__).parents[1] / "docs" / "commands.md"


def tables() -> dict[str, str]:
    """The tables of the page, by their headings."""
    does = "".join(
        f"| `mnemogate {' '.join((*command.words, *below))}` | {summary} |\n"
        for command in commands()
        for *below, summary in ((command.summary,), *command.below)
    )
    means = "".join(
        f"| {code.value} | {code.meaning.replace('|', chr(92) + '|')} |\n" for code in Exit
    )
    return {
        "## Commands": f"| command | what it does |\n|---|---|\n{does}",
        "## Exit codes": f"| code | meaning |\n|---|---|\n{means}",
    }


def printed(text: str) -> str:
    """The page with its tables as the parser has them."""
    for heading, table in tables().items():
        text = with_table(text, heading, table)
    return text


if __name__ == "__main__":
    PAGE.write_text(printed(PAGE.read_text("utf-8")), "utf-8")
