"""Tool maps: what each tool of a memory server does, and where its texts and keys are.

A map is data (TOML), shipped for known servers and writable by operators (docs/mcp-maps.md). A call
of a memory server's tool that the map lacks is refused; a string that the map lacks is judged like
any other.
"""

from __future__ import annotations

import enum
import functools
import tomllib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from policy.model import ChangeKind
from policy.places import (
    Patterns,
    Places,
)
from policy.text.paths import BadPattern
from proxy.dialects.files.shipped_places import places_with
from proxy.dialects.mcp.effects import EffectRule
from proxy.dialects.mcp.file_rules import FileRule
from proxy.dialects.mcp.in_model import InModel
from proxy.dialects.mcp.paths import ELEMENT, PathError, Pattern, parse_path

MAP_BYTES_MAX: Final = 1024 * 1024
FORMAT: Final = 1
# For each key that maps no longer have: the successor, which the error for the old key names.
_SUCCESSORS: Final = {
    "class_rules": "places (what decides is where a text goes, and no type or tag)",
    "memory_class": "places (what decides is where a text goes, and no type or tag)",
    "memory_paths": "instruction_paths, fact_paths",
    "adopts": "imports",
    "says": "nothing (an answer decides no label)",
}
_OF_A_WRITE: Final = frozenset({None, ChangeKind.CREATE, ChangeKind.UPDATE})

# Fields that only a tool which writes or deletes may have (`required` also an admin tool).
_OF_A_CHANGE: Final = (
    *("change", "update_if", "delete_if", "pass_if", "aliases", "items", "required"),
    *("absent", "texts", "labels", "plain"),
    *("joined", "key", "user", "places", "instructions", "reconcile", "effect", "done"),
)

Path = Annotated[str, Meta(min_length=1, max_length=256)]
Word = Annotated[str, Meta(min_length=1, max_length=128)]
Paths = Annotated[tuple[Path, ...], Meta(max_length=64)]


class MapError(ValueError):
    """The error for a text that is no tool map.

    Its message, for operators, names the place in the map and the reason.
    """


class ToolKind(enum.Enum):
    """What a call of a tool can do to memory."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    ADMIN = "admin"  # a call of the tool is refused on an agent's channel
    CONTEXT = "context"  # the tool touches no memory; its result counts as a tool's result


class Posture(enum.Enum):
    """The kind of server that a map describes; it decides about tools that the map lacks."""

    MEMORY = "memory"  # a memory server: an unlisted tool is refused
    CONTEXT = "context"  # the server keeps no memory: every tool passes
    # The server works on files: changes of places (`policy.places`) are judged, other calls pass.
    FILES = "files"


class KeyForm(enum.Enum):
    """How a server normalises the keys of its memories."""

    PLAIN = "plain"
    PATH = "path"  # the server takes `a//b`, `a/./b` and `a/c/../b` for one key
    # Keys are in lower case, with hyphens for spaces, without `memory://` and `.md`.
    PERMALINK = "permalink"
    # The key is the first of several arguments that is not empty; a long key becomes its digest.
    FIRST = "first"


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reference by name; an element is removed together with the element that it refers to.

    If an element at `target` is removed, so is each element at `unit` of which one of `fields`
    contains the value of the target's member `name`.
    """

    unit: Path
    fields: Annotated[tuple[Word, ...], Meta(min_length=1, max_length=8)]
    target: Path
    name: Word


class ElementCount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number in an answer, at `path`, that is the count of the elements at `unit`."""

    path: Path
    unit: Path


class JoinedFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields that form one statement: of each element at `unit`, they are looked up as one text."""

    unit: Path
    fields: Annotated[tuple[Word, ...], Meta(min_length=2, max_length=8)]


class AnswerShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The structure of a server's answers, so that one memory can be removed from them.

    By default the innermost array element around a withheld string is removed.
    """

    # Elements that are removed whole if a string anywhere inside them is withheld.
    whole: Paths = ()
    # Arrays without which an element is pointless: once such an array is empty, the element is
    # removed.
    hollow: Paths = ()
    # Parallel arrays: if an element is removed from one, the elements of that index are removed
    # from the others.
    columns: Annotated[tuple[Paths, ...], Meta(max_length=16)] = ()
    links: Annotated[tuple[Link, ...], Meta(max_length=16)] = ()
    counts: Annotated[tuple[ElementCount, ...], Meta(max_length=16)] = ()
    joined: Annotated[tuple[JoinedFields, ...], Meta(max_length=16)] = ()
    # Paths of short strings that many memories share, such as types. These strings are never
    # withheld.
    labels: Paths = ()


class Reconcile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The read that shows whether a write was carried out, if the answer to the write was lost.

    A string in `arguments` may be a placeholder: `$key`, `$text` (the first piece that is no
    label), or `$arg:PATH` (the value at that path of the write's arguments). A placeholder is
    always the whole string.
    """

    tool: Word
    arguments: dict[Word, str | int | bool | list[str]] = {}
    # Whether an empty result proves that nothing is stored; a search by similarity proves nothing.
    proves_absence: bool = False


class ImportRead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to list all memories that a server stores, and the write as which each is judged.

    The answer of `tool`, called with `arguments`, has the elements at the path `found`. Each
    element is judged as a call of the tool `write` whose array `into` has that one element. If the
    element has an array named `each`, every element of that array is judged by a call of its own.
    """

    tool: Word
    arguments: dict[Word, str | int | bool] = {}
    found: Path
    write: Word
    into: Word
    each: Word | None = None


KeyPart = Path | Annotated[tuple[Path, ...], Meta(min_length=2, max_length=4)]


class Indirect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments with which a tool calls another: that tool's name, and its arguments."""

    name: Word
    arguments: Word


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One tool of a server. Paths begin at a call's `arguments`. `kind` or `switch` is given."""

    kind: ToolKind | None = None
    change: ChangeKind | None = None
    # The change is an update if one of these arguments is neither absent, false nor empty.
    update_if: Paths = ()
    # An item is a deletion if the argument at one of these paths is one of the path's words.
    delete_if: dict[Path, Annotated[tuple[Word, ...], Meta(min_length=1, max_length=16)]] = {}
    # An item changes nothing if the argument at one of these paths is one of the path's words, such
    # as "NONE", with which a model only repeats a memory. Only maps of a model's replies have this.
    pass_if: dict[Path, Annotated[tuple[Word, ...], Meta(min_length=1, max_length=16)]] = {}
    # A mapping of arguments to other names under which the server accepts them. A call that gives
    # an argument under two names is refused.
    aliases: dict[Word, Annotated[tuple[Word, ...], Meta(min_length=1, max_length=8)]] = {}
    # Paths of arrays whose elements are items; several arrays are parallel, with an item per index.
    items: Paths = ()
    # Arguments that must be there, and not null.
    required: Paths = ()
    # Arguments that must be absent, null or empty, because with such an argument the tool would do
    # something that the map does not describe.
    absent: Paths = ()
    # Arguments that are strings, or absent. A value of another type is refused.
    texts: Paths = ()
    # Arguments that are short strings and name something shared (an entity, a type, a tag).
    labels: Paths = ()
    # Arguments whose strings are not judged if they have the given form: a mapping of paths to
    # `id`, `time`, or a list of the allowed words.
    plain: dict[Path, str | Annotated[tuple[Word, ...], Meta(max_length=64)]] = {}
    # Arguments that form one statement, such as a relation and its two ends. Their values, joined
    # in this order, are judged as one more string.
    joined: Paths = ()
    key: Annotated[tuple[KeyPart, ...], Meta(max_length=8)] = ()
    key_form: KeyForm = KeyForm.PLAIN
    effect: EffectRule | None = None
    user: Path | None = None
    # Arguments that name the file or block which the call changes.
    places: Paths = ()
    # Arguments with which a call changes, or may change, what a host puts into prompts as
    # instructions.
    instructions: Paths = ()
    reconcile: Reconcile | None = None
    # Where the answer lists what was done: a path to the elements, each with the strings of one
    # item as it was sent. An item that is not among them had no effect.
    done: Path | None = None
    shown: AnswerShape | None = None
    # Whether answers contain texts that the server fetches elsewhere, beside those that it stores.
    fetches: bool = False
    # In a map of file tools: the arguments with which the tool reads, writes or moves a file. A
    # tool without `file` touches no file.
    file: FileRule | None = None
    # In a map of file tools: a tool that calls another one, and a tool that runs the program in
    # this argument. A program is not parsed, because it can compute what it calls.
    indirect: Indirect | None = None
    program: Word | None = None
    switch: Switch | None = None

    @property
    def cases(self) -> tuple[Tool, ...]:
        """The cases of the tool's switch; the tool itself if it has none."""
        return (self,) if self.switch is None else (*self.switch.cases.values(),)

    # What each call is read by, and a map never changes.
    @cached_property
    def argument_names(self) -> dict[Pattern, set[str]]:
        """The argument names that a map mentions, keyed by the path of the object that has them."""
        names: dict[Pattern, set[str]] = {Pattern(()): set()}
        for text in _named_paths(self):
            steps = path(text)
            for at, step in enumerate(steps):
                if step != ELEMENT:
                    names.setdefault(Pattern(steps[:at]), set()).add(step)
        for name, others in self.aliases.items():
            names[Pattern(())].update((name, *others))
        return names

    @cached_property
    def described(self) -> frozenset[Pattern]:
        """The path of each argument whose meaning the map describes, and of what is around it."""
        told = [*self.items, *self.required, *self.texts, *self.labels, *self.plain]
        told += key_paths(self)
        told += (self.user,) if self.user else ()
        told += () if self.effect is None else self.effect.paths
        told += () if self.file is None else self.file.named
        return frozenset(
            Pattern(known[:end]) for known in map(path, told) for end in range(1, len(known) + 1)
        )

    @cached_property
    def of_labels(self) -> frozenset[Pattern]:
        """`labels` as paths."""
        return frozenset(map(path, self.labels))

    @cached_property
    def of_plain(self) -> dict[Pattern, str | tuple[str, ...]]:
        """`plain`, keyed by paths."""
        return {path(text): shape for text, shape in self.plain.items()}


class Switch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cases of a tool whose meaning depends on one argument; any other value is refused."""

    path: Path
    cases: Annotated[dict[Word, Tool], Meta(min_length=1, max_length=64)]
    # The value whose case applies if the argument is absent or null. If `absent` is None, a call
    # without the argument is refused.
    absent: Word | None = None


class ToolMap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool map: the description of one server's tools, its places and its answers."""

    format: int
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    # The server version from which the tools were read, for comparison.
    read_from: Annotated[str, Meta(min_length=1, max_length=2_048)]
    posture: Posture = Posture.MEMORY
    # Whether the server loses an update if two calls write at once. Then one write at a time is
    # sent to it, and the next one after its answer.
    one_write_at_a_time: bool = False
    # The `serverInfo.name` by which a shipped map is chosen.
    server_names: Annotated[tuple[Word, ...], Meta(max_length=16)] = ()
    # Places of this server, in addition to the shipped places (`policy.places`).
    instruction_paths: Patterns = ()
    fact_paths: Patterns = ()
    # How to list all memories that the server stores, for `mnemogate backend import` and
    # `mnemogate backend check`: one entry for each kind of memory, all of one read.
    imports: Annotated[tuple[ImportRead, ...], Meta(max_length=8)] = ()
    shown: AnswerShape = AnswerShape()
    model: InModel = InModel()
    tools: Annotated[dict[Word, Tool], Meta(max_length=1_024)] = {}

    @property
    def keeps_memory(self) -> bool:
        """Whether the server keeps memories, except in files."""
        return self.posture is Posture.MEMORY

    @property
    def all_places(self) -> Places:
        """The shipped places, and those of the map."""
        return places_with(self.instruction_paths, self.fact_paths)

    def tool(self, name: str) -> Tool | None:
        """The map's description of a tool; None if the map does not list the tool."""
        return self.tools.get(name)


def parse_map(text: str, where: str = "map") -> ToolMap:
    """Parse the TOML text of a tool map, and check every part of the map.

    Raises:
        MapError: A part is missing, unknown, contradictory or out of range.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAP_BYTES_MAX:
        raise MapError(f"{where}: larger than {MAP_BYTES_MAX} bytes")
    try:
        document = tomllib.loads(text)
    # not TOML, or with a number or date that Python cannot represent
    except ValueError as error:
        raise MapError(f"{where}: not TOML: {error}") from None
    except RecursionError:
        raise MapError(f"{where}: nested too deeply") from None
    try:
        found = msgspec.convert(document, ToolMap)
    except msgspec.ValidationError as error:
        gone = next((one for one in _SUCCESSORS if f"unknown field `{one}`" in str(error)), None)
        told = "" if gone is None else f"; its successor: {_SUCCESSORS[gone]}"
        raise MapError(f"{where}: {error}{told}") from None
    if found.format != FORMAT:
        raise MapError(f"{where}: format: must be {FORMAT}")
    if found.posture is Posture.CONTEXT and found.tools:
        raise MapError(f"{where}: tools: a context server's tools all pass; remove them")
    try:
        _ = found.all_places
    except BadPattern as error:
        raise MapError(f"{where}: instruction_paths, fact_paths: {error}") from None
    _check_shown(found.shown, f"{where}: shown")
    _check_imports(found, f"{where}: imports")
    _check_model(found, f"{where}: model")
    for name, tool in found.tools.items():
        if found.posture is Posture.FILES:
            _check_file_tool(tool, f"{where}: tools.{name}")
        else:
            _check_tool(tool, f"{where}: tools.{name}", found.tools)
    return found


@functools.lru_cache(maxsize=4_096)
def path(text: str) -> Pattern:
    """The parsed form of a path from a map; the path is valid, because the map was checked."""
    return parse_path(text)


def key_paths(tool: Tool) -> Iterator[str]:
    """The paths of all arguments that make up an item's key."""
    for part in tool.key:
        yield from (part,) if isinstance(part, str) else part


def _check_imports(found: ToolMap, where: str) -> None:
    for imports in found.imports:
        _check_paths((imports.found,), f"{where}: found")
        read, write = found.tools.get(imports.tool), found.tools.get(imports.write)
        if read is None or read.kind is not ToolKind.READ:
            raise MapError(f"{where}: tool: {imports.tool!r} is not a read of this map")
        if write is None or f"{imports.into}[]" not in write.items:
            raise MapError(f"{where}: into: not the items of a write of this map")
        first = found.imports[0]
        if (imports.tool, imports.arguments) != (first.tool, first.arguments):
            raise MapError(f"{where}: all have the same tool and arguments")


def _check_model(found: ToolMap, where: str) -> None:
    for name in found.model.named_tools():
        if name not in found.tools:
            raise MapError(f"{where}: {name!r} is not a tool of this map")
    for name in found.model.outputs:
        # Without a required argument, any reply would have the form of this tool's arguments.
        if not found.tools[name].required:
            raise MapError(f"{where}.outputs: {name!r} requires nothing")
    if found.model.schema and not found.model.outputs:
        raise MapError(f"{where}.schema: needs outputs, as whose arguments the answer is read")
    if not found.model.has_empty():
        raise MapError(f"{where}.empty: must be a JSON object")


def _check_file_tool(tool: Tool, where: str) -> None:
    """Check a file tool: it reads a file, writes one, or (`context`) touches none."""
    apart = (tool.file, tool.indirect, tool.program)
    if tool != Tool(kind=tool.kind, file=apart[0], indirect=apart[1], program=apart[2]):
        raise MapError(f"{where}: a map of files has kind, file, indirect and program alone")
    if tool.indirect is not None and (tool.file, tool.program) != (None, None):
        raise MapError(f"{where}: indirect: beside neither file nor program")
    if tool.kind not in {ToolKind.READ, ToolKind.WRITE, ToolKind.CONTEXT}:
        raise MapError(f"{where}: kind: read, write or context in a map of files")
    rule = tool.file
    if (tool.kind is ToolKind.CONTEXT) != (rule is None):
        raise MapError(f"{where}: file: for a read or a write, and for nothing else")
    if rule is not None and (not rule.fits or (rule.writes and tool.kind is ToolKind.READ)):
        raise MapError(f"{where}: file: one of text, to, or old and new; none for a read")


def _check_tool(tool: Tool, where: str, tools: dict[str, Tool]) -> None:
    if (tool.kind is None) == (tool.switch is None):
        raise MapError(f"{where}: needs either kind or switch")
    if tool.switch is not None:
        _check_switch(tool, tool.switch, where, tools)
        return
    _check_paths(tool.items, f"{where}: items")
    for text in tool.items:
        if not text.endswith("[]") or text.count("[]") != 1:
            raise MapError(f"{where}: items: {text!r} must end in its only []")
    for name, given in (
        ("required", tool.required),
        ("texts", tool.texts),
        ("labels", tool.labels),
        ("plain", tool.plain),
        ("joined", tool.joined),
        ("update_if", tool.update_if),
        ("delete_if", tool.delete_if),
        ("pass_if", tool.pass_if),
        ("absent", tool.absent),
        ("key", key_paths(tool)),
        ("user", (tool.user,) if tool.user else ()),
        ("effect", tool.effect.paths if tool.effect else ()),
        ("done", (tool.done,) if tool.done else ()),
    ):
        _check_paths(given, f"{where}: {name}")
    if tool.effect is not None and not (tool.effect.fits and tool.key):
        raise MapError(f"{where}: effect: needs a key, `old` to replace, `line` only to insert")
    if tool.shown is not None:
        _check_shown(tool.shown, f"{where}: shown")
    _check_kind(tool, where)
    _check_one_item(tool, where)
    if tool.reconcile is not None:
        if len(tool.key) != 1 and "$key" in _said(tool.reconcile):
            raise MapError(f"{where}: reconcile: $key needs a key of one part")
        _check_reconcile(tool.reconcile, f"{where}: reconcile", tools)


def _check_kind(tool: Tool, where: str) -> None:
    if any(one is not None for one in (tool.file, tool.indirect, tool.program)):
        raise MapError(f'{where}: file, indirect, program: only with posture = "files"')
    if tool.kind not in {ToolKind.WRITE, ToolKind.DELETE}:
        for name in _OF_A_CHANGE:
            if name == "required" and tool.kind is ToolKind.ADMIN:
                continue
            if getattr(tool, name):
                raise MapError(f"{where}: {name}: only for a write or a delete")
    elif tool.kind is ToolKind.DELETE and tool.change not in {None, ChangeKind.DELETE}:
        raise MapError(f"{where}: change: a delete tool deletes")
    elif tool.kind is ToolKind.WRITE and tool.change not in _OF_A_WRITE:
        raise MapError(f"{where}: change: a write creates or updates")


def _check_one_item(tool: Tool, where: str) -> None:
    """Check that key and user have one value per item, and that places are the tool's arguments."""
    if tool.done is not None and not tool.done.endswith("[]"):
        raise MapError(f"{where}: done: {tool.done!r} must end in []")
    for text, shape in tool.plain.items():
        if isinstance(shape, str) and shape not in {"id", "time"}:
            raise MapError(f"{where}: plain.{text}: must be id, time, or a list of words")
    for name, given in (("key", key_paths(tool)), ("user", (tool.user,) if tool.user else ())):
        for text in given:
            inside = any(text.startswith(items) for items in tool.items)
            if ("[]" in text and not inside) or text.count("[]") > 1:
                raise MapError(f"{where}: {name}: {text!r} has many values for one item")
    unknown = {*tool.places, *tool.instructions} - {*_named_paths(tool)}
    if unknown:
        # With a mistyped path, no call would ever count as a change of a place.
        raise MapError(f"{where}: places, instructions: no argument of the tool: {min(unknown)}")


def _check_switch(tool: Tool, switch: Switch, where: str, tools: dict[str, Tool]) -> None:
    if tool != Tool(switch=switch):
        raise MapError(f"{where}: beside switch nothing else is given; put it in the cases")
    _check_paths((switch.path,), f"{where}: switch.path")
    if "[]" in switch.path:
        raise MapError(f"{where}: switch.path: must be one argument")
    if switch.absent is not None and switch.absent not in switch.cases:
        raise MapError(f"{where}: switch.absent: {switch.absent!r} is no case")
    for name, case in switch.cases.items():
        if case.switch is not None:
            raise MapError(f"{where}: switch.cases.{name}: a case cannot switch again")
        _check_tool(case, f"{where}: switch.cases.{name}", tools)


def _check_reconcile(reconcile: Reconcile, where: str, tools: dict[str, Tool]) -> None:
    read = tools.get(reconcile.tool)
    if read is not None and read.switch is not None:
        chosen = reconcile.arguments.get(read.switch.path)
        read = read.switch.cases.get(chosen) if isinstance(chosen, str) else None
    if read is None or read.kind is not ToolKind.READ:
        raise MapError(f"{where}: tool: {reconcile.tool!r} is not a read of this map")
    for text in _said(reconcile):
        if text.startswith("$arg:"):
            _check_paths((text.removeprefix("$arg:"),), where)
        elif text.startswith("$") and text not in {"$key", "$text"}:
            raise MapError(f"{where}: {text!r}: use $key, $text or $arg:PATH")


def _said(reconcile: Reconcile) -> list[str]:
    return [
        text
        for given in reconcile.arguments.values()
        for text in (given if isinstance(given, list) else [given])
        if isinstance(text, str)
    ]


def _named_paths(tool: Tool) -> Iterator[str]:
    """The path of every argument that a tool's description, or one of its cases, mentions."""
    if tool.switch is not None:
        yield tool.switch.path
        for case in tool.switch.cases.values():
            yield from _named_paths(case)
    yield from (*tool.required, *tool.texts, *tool.labels, *tool.plain, *tool.joined, *tool.items)
    yield from (*tool.update_if, *tool.delete_if, *tool.pass_if, *tool.absent)
    yield from (tool.user,) if tool.user else ()
    yield from key_paths(tool)


def _check_shown(shown: AnswerShape, where: str) -> None:
    for name in ("whole", "labels", "hollow"):
        _check_paths(getattr(shown, name), f"{where}.{name}")
    for columns in shown.columns:
        _check_paths(columns, f"{where}.columns")
        if not all(text.endswith("[]") for text in columns):
            raise MapError(f"{where}.columns: each path must end in []")
    for link in shown.links:
        _check_paths((link.unit, link.target), f"{where}.links")
    _check_paths((joined.unit for joined in shown.joined), f"{where}.joined")
    for count in shown.counts:
        _check_paths((count.path, count.unit), f"{where}.counts")


def _check_paths(given: Iterable[str], where: str) -> None:
    for text in given:
        try:
            parse_path(text)
        except PathError as error:
            raise MapError(f"{where}: {error}") from None
