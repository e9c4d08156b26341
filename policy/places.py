"""The files and blocks that hosts read again, as their rules or as notes (`places.toml`)."""

from __future__ import annotations

import enum
import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from policy.model import MemoryClass
from policy.text.paths import PathPattern, readings_of_path

Pattern = Annotated[str, Meta(min_length=1, max_length=512)]
Patterns = Annotated[tuple[Pattern, ...], Meta(max_length=256)]
_BLOCK: Final = "block:"
_SETTINGS: Final = "settings"
_LINE_END: Final = r"[ \t\r]*$"
# A path of Linux or Windows, or an address. It reaches to the line's last fitting end, and `{*}`
# has no bracket, so that any line is searched in linear time.
_PATH: Final = r"(?P<path>(?:[/~\\]|[A-Za-z]:|https?://)[^\n]*)"


class PlaceKind(enum.Enum):
    """What a host does with the text of a place."""

    INSTRUCTIONS = "instructions"  # the host puts it into prompts as rules
    FACTS = "facts"  # the host shows it as notes, or only finds it in a search


class Place(msgspec.Struct, frozen=True):
    """A place that a host reads; `pattern` is the entry of the list that names it."""

    kind: PlaceKind
    host: str
    pattern: str


def is_instructions(place: Place | None) -> bool:
    """Whether a place is one that a host reads as instructions; False for None."""
    return place is not None and place.kind is PlaceKind.INSTRUCTIONS


def class_in(*, instructions: bool) -> MemoryClass:
    """The class that a change in a place asks for; no type, tag or name gives it another class."""
    return MemoryClass.L2 if instructions else MemoryClass.L3


class Marker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lines between which a host puts a file into a model request.

    `role` and `part` name the strings in which the lines count: who speaks, and what the string
    begins with. In `start` and `end`, `{path}` is a path and `{*}` any text; `end` may be the
    beginning of a line, and without it the file reaches to the end of the string.
    """

    role: Literal["system", "user", "result"]
    start: Pattern
    end: str = ""
    part: str = ""
    # The path of the file, if the line `start` has only a part of the path, or none.
    file: Pattern = "{path}"

    @property
    def starts(self) -> re.Pattern[str]:
        """The pattern of the line before the file; its group `path` is the path in it."""
        return _line(self.start, _PATH, _LINE_END)

    def ends(self, path: str | None = None) -> re.Pattern[str]:
        """The pattern of the beginning of the line after a file with this path, or (None) any."""
        return _line(self.end, r"[^\n]*" if path is None else re.escape(path))


@lru_cache(maxsize=1_024)
def _line(template: str, path: str, rest: str = "") -> re.Pattern[str]:
    spelled = re.escape(template).replace(r"\{path\}", path).replace(r"\{\*\}", r"[^\n()]*")
    spelled = spelled.replace(r"\{date\}", r"\d{4}-\d\d-\d\d")
    return re.compile(rf"(?m)^[ \t]*{spelled}{rest}")


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The places of one host. `version` is the release, or the page, that documents the places.

    A pattern `block:NAME` is a block of memory, any other a path (`policy.text.paths`). `markers`
    are the lines around places in model requests, and `root` the line with the folder in which the
    agent works. `own_lines`: lines that the host itself writes between a file and its end mark.
    """

    name: str
    version: str
    instructions: Patterns = ()
    facts: Patterns = ()
    # The facts places that the host asks for in the form of rules.
    as_rules: Patterns = ()
    markers: tuple[Marker, ...] = ()
    root: Marker | None = None
    own_lines: Patterns = ()


class _Hosts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: tuple[Host, ...]


def parse_hosts(text: str) -> tuple[Host, ...]:
    """The hosts of a TOML document.

    Raises:
        ValueError: The text is not TOML, or has an unknown key or a wrong type.
    """
    return msgspec.convert(tomllib.loads(text), _Hosts).host


class Places:
    """The places of all hosts, and those that an operator added. Safe for concurrent use."""

    def __init__(
        self, hosts: Iterable[Host], instructions: Patterns = (), facts: Patterns = ()
    ) -> None:
        """Compile the patterns of these hosts and of an operator's two lists.

        Raises:
            BadPattern: A pattern is no path, see `PathPattern`.
        """
        own = Host(name=_SETTINGS, version="", instructions=instructions, facts=facts)
        known = (*hosts, own)
        self.markers = tuple(marker for host in known for marker in host.markers)
        self.roots = tuple(host.root for host in known if host.root is not None)
        self.marks = (*self.markers, *self.roots)
        self._as_rules = [PathPattern(one) for host in known for one in host.as_rules]
        self.own_lines = tuple(
            _line(one, "", _LINE_END) for host in known for one in host.own_lines
        )
        """The patterns of lines that a host writes after the last file, before the end mark."""
        found = [
            (PathPattern(pattern.removeprefix(_BLOCK)), Place(kind, host.name, pattern))
            for host in known
            for kind, patterns in (
                (PlaceKind.INSTRUCTIONS, host.instructions),
                (PlaceKind.FACTS, host.facts),
            )
            for pattern in patterns
        ]
        # Of two patterns that fit, the more specific one counts; of equal ones, instructions.
        found.sort(key=lambda one: (-one[0].names, not is_instructions(one[1])))
        self.paths = [one for one in found if not one[1].pattern.startswith(_BLOCK)]
        self.blocks = [one for one in found if one[1].pattern.startswith(_BLOCK)]

    def of_path(self, path: str) -> Place | None:
        """The place at a file's path, in any reading of the path by a file system, or None."""
        return _first(self, path, block=False)

    def has_rules(self, path: str) -> bool:
        """Whether the host asks for the notes in a file in the form of rules."""
        return any(
            one.fits(reading) for one in self._as_rules for reading in readings_of_path(path)
        )

    def of_folder(self, path: str) -> Place | None:
        """The place at a path, or inside a folder at it: a moved folder moves all files in it."""
        readings = readings_of_path(path)
        inside = [place for one, place in self.paths if any(map(one.fits_folder, readings))]
        return max(inside, key=is_instructions, default=None)

    def of_block(self, name: str) -> Place | None:
        """The place of a memory block, by the block's name or the path under which it is stored."""
        return _first(self, name, block=True)


# The results are cached because each request repeats its whole conversation, with all paths in it.
@lru_cache(maxsize=4_096)
def _first(places: Places, path: str, *, block: bool) -> Place | None:
    """The most specific place of any reading of a path; of several, an instructions place."""
    among = places.blocks if block else places.paths
    readings = readings_of_path(path)
    found = (next((place for one, place in among if one.fits(path)), None) for path in readings)
    return max((place for place in found if place), key=is_instructions, default=None)
