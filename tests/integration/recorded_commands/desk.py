"""An operator's desk: runs command lines beside a sidecar, and keeps what each of them printed."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec

from proxy.cli.entry import main
from tests.integration.recorded.world import World

BETWEEN_LINES_S: Final = 1.25
_COLUMNS: Final = "100"
# Ids, digests, hashes and codes, and their beginnings: what a change of the code draws anew.
_DRAWN: Final = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b(?=g?\d*[a-f])g?[0-9a-f]{12,}\b|(?<![A-Za-z0-9+/_.-])[A-Za-z0-9+/_.-]{40,}=*"
)
_BEGINNING: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{1,4})?\b(?!-)")
_FRACTION: Final = re.compile(r"\b\d+\.\d{5,}\b")
_SIZE: Final = re.compile(r"\b\d+ (bytes|B|KB|MB)\b")
_SIZES: Final = re.compile(r'("bytes_\w+": )\d+')


class Printed(msgspec.Struct, frozen=True, kw_only=True):
    """How one command line ended, and what it printed."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:  # noqa: ANN401 - the lines know what they asked for
        return json.loads(self.out)


class Desk:
    """Runs one command line after the other. `places` are texts that another run has others for."""

    def __init__(self, base: Path, world: World, places: Mapping[str, str]) -> None:
        self._base = base
        self._world = world
        self._places = dict(places)
        self._numbers: dict[str, str] = {}
        self._lines: list[Printed] = []

    async def run(self, *words: str, stdin: str = "", keep: bool = True) -> Printed:
        self._world.clock.passes(BETWEEN_LINES_S)
        done = await asyncio.to_thread(self._run, words, stdin)
        if keep:
            self._lines.append(done)
        return done

    async def both(self, *words: str) -> Any:  # noqa: ANN401 - the lines know what they asked for
        """One command line for a person, and again for a program: what it printed for that."""
        await self.run(*words)
        done = await self.run(*words, "--json")
        return done.data if done.out.startswith("{") else None

    def name(self, drawn: str, word: str) -> None:
        """Keep a drawn text that is no hexadecimal number as this word, of its length."""
        self._places[drawn] = word.ljust(len(drawn), "~")

    def text(self) -> str:
        """All lines, each with what it printed, without what chance put into it."""
        return "\n".join(map(self._told, self._lines))

    def _told(self, line: Printed) -> str:
        words = " ".join(json.dumps(one) if " " in one else one for one in line.words)
        told = [f"$ mnemogate {words}", line.out]
        if line.err:
            told.append("--- stderr\n" + line.err)
        return self._plain("\n".join(told).rstrip("\n")) + f"\n--- exit {line.code}\n"

    def _plain(self, text: str) -> str:
        for place, word in self._places.items():
            text = text.replace(place, word)
        text = _SIZES.sub(r"\g<1>0", _SIZE.sub(r"N \1", text))
        # Sums of single precision are not the same on every processor.
        text = _FRACTION.sub(_rounded, text)
        return _BEGINNING.sub(self._begun, _DRAWN.sub(self._numbered, text))

    def _numbered(self, found: re.Match[str]) -> str:
        """A number for a drawn text, of its length: tables keep their widths."""
        number = self._numbers.setdefault(found[0], f"<{len(self._numbers)}>")
        return number.ljust(len(found[0]), "~")

    def _begun(self, found: re.Match[str]) -> str:
        """The number of the drawn text that begins so; other text stays."""
        numbers = (number for drawn, number in self._numbers.items() if drawn.startswith(found[0]))
        number = next(numbers, None)
        return found[0] if number is None else number.ljust(len(found[0]), "~")

    def _run(self, words: tuple[str, ...], stdin: str) -> Printed:
        out, err = _stream(), _stream()
        places = ["--state", str(self._base / "state"), "--config"]
        places.append(str(self._base / "mnemogate.toml"))
        with (
            mock.patch.dict(os.environ, {"COLUMNS": _COLUMNS, "HOME": str(self._base)}),
            mock.patch.object(sys, "stdin", io.StringIO(stdin)),
            mock.patch.object(sys, "stdout", out),
            mock.patch.object(sys, "stderr", err),
            mock.patch.object(time, "time_ns", self._world.clock.wall_ns),
        ):
            for name in [one for one in os.environ if one.startswith("MNEMOGATE_")]:
                del os.environ[name]
            code = _ended(lambda: main([*words, *places]))
        return Printed(words=words, code=code, out=_written(out), err=_written(err))


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.3f}"


def helped(*words: str) -> str:
    """The help of one command, in a hundred columns."""
    out = _stream()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": _COLUMNS}),
        mock.patch.object(sys, "stdout", out),
    ):
        _ended(lambda: main([*words, "--help"]))
    return f"$ mnemogate {' '.join((*words, '--help'))}\n{_written(out)}"


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def _ended(command: Callable[[], int]) -> int:
    try:
        return int(command())
    except SystemExit as ending:
        return int(str(ending.code or 0))
