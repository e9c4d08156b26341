"""Converts the text of a setting to its value, or to an error of one line with what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, get_args

import msgspec
from msgspec import inspect

SECRET_LEN_MIN: Final = 20
_SECRET_LEN_MAX: Final = 256
_PORT_MAX: Final = 65_535

Raw = str | int | float | bool | list[str]
"""The types of value that a flag, an environment variable or the TOML file can give."""


T = TypeVar("T")


class BadValue(ValueError):  # noqa: N818 - always turned into a SettingsError that names the setting
    """The error for a value that is not allowed.

    The message names what is allowed, and never quotes the value, which may be a secret.
    """


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address that a listener binds; with port 0 the kernel chooses the port."""

    host: str
    port: int

    def url(self, scheme: str) -> str:
        """The URL of a listener at this address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"


class Secret:
    """A text that no log, repr or error message shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The secret text itself."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def path(raw: object) -> Path:
    """Parse the path of a file or directory; `~` is the home directory.

    Raises:
        BadValue: The value is not a path.
    """
    # A TOML string can contain a NUL, and a file name cannot.
    if not isinstance(raw, str) or not raw.strip() or "\0" in raw:
        raise BadValue("a path")
    try:
        return Path(raw.strip()).expanduser()
    except RuntimeError as error:
        raise BadValue("a path; ~ and ~NAME only for a user who has a home directory") from error


def address(raw: object) -> Address:
    """Parse an address `HOST:PORT`, with an IPv6 host in brackets.

    Raises:
        BadValue: The value is not an address.
    """
    text = raw.strip() if isinstance(raw, str) else ""
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", text)
    if found is None or int(found[2]) > _PORT_MAX:
        raise BadValue("HOST:PORT with a port from 0 to 65535, like 127.0.0.1:7077 or [::1]:7077")
    return Address(host=found[1].strip("[]"), port=int(found[2]))


def secret(raw: object) -> Secret:
    """Parse a secret of 20 to 256 printable ASCII characters without spaces.

    Raises:
        BadValue: The value is not such a text.
    """
    if (
        not isinstance(raw, str)
        or not SECRET_LEN_MIN <= len(raw) <= _SECRET_LEN_MAX
        or re.fullmatch(r"[\x21-\x7e]+", raw) is None
    ):
        raise BadValue(
            f"{SECRET_LEN_MIN} to {_SECRET_LEN_MAX} printable ASCII characters without spaces"
        )
    return Secret(raw)


def unquoted(key: str) -> str:
    """The key without a pair of quotation marks that a person pasted around it."""
    bare = key[1:-1]
    return bare if len(key) > 1 and key[0] == key[-1] and key[0] in "\"'" else key


_UNKNOWN: Final = "Object contains unknown field `"
_MISSING: Final = "Object missing required field `"
_ABOVE: Final = "; it belongs above the first [table] of the file"
_NOT_IN_CHAT: Final = (
    "a person decides on the page, with `mnemogate review` or through `[review.webhook]`"
)
_SUCCESSORS: Final = {
    "confirm": _NOT_IN_CHAT,
    "confirm_tools": _NOT_IN_CHAT,
    "user_turns": "a key of channel `user` makes a text a person's",
    "system_text": "no text of a conversation raises a label",
    "memory_paths": "instruction_paths and fact_paths add",
    "mcp_answer_seconds": "a write without an answer counts as unknown after 60 seconds",
    "mcp_person_seconds": "a call waits 120 seconds for a person",
    "otel_headers": "set OTEL_EXPORTER_OTLP_HEADERS",
    "idle_seconds": "an unused session ends after 1800 seconds",
    "env_file": "`env` takes a variable of the sidecar as `${NAME}`",
    "hosted_state": "what writes memory at the provider is refused",
    "deadline_seconds": "an answer has 30 seconds",
    "retry_days": "`mnemogate memory unhide` tries a memory again",
    "outbox_max": "/readyz names a receiver from 10000 steps on",
    "total_seconds": "a whole answer has 3600 seconds",
    "reply_bytes_max": "an answer has 64 MiB at most",
    "vouch": "--confirm",
}


def no_such(name: str) -> str:
    """The error line about an unknown setting; for a removed one it names the successor."""
    return f"{name}: no such setting{successor_of(name)}"


def successor_of(name: str) -> str:
    """The advice on what replaces a removed setting, after a semicolon; "" for any other name."""
    return f"; {_SUCCESSORS[name]}" if name in _SUCCESSORS else ""


_READERS: Final[dict[object, Callable[[object], object]]] = {Path: path, Secret: secret}
_STEP: Final = re.compile(r"\.(\w+)(?:\[(\d+)\])?")


def value_of(raw: object, kind: type[T], *, strict: bool = True) -> T:
    """Convert a value, or a whole TOML table, to a type; return it.

    Without `strict`, a text is converted too, as of an environment variable.

    Raises:
        BadValue: The message is one line that names table and key, and what is allowed.
    """
    try:
        return msgspec.convert(raw, kind, strict=strict, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise BadValue(_line(error, kind)) from None


def _read(kind: type, given: object) -> object:
    try:
        return given if isinstance(given, kind) else _READERS[kind](given)
    except BadValue as error:
        raise BadValue(f"must be {error}") from None


def _line(error: msgspec.ValidationError, kind: object) -> str:
    """An error as one line: the tables, then the key, then what is allowed."""
    rule, _, place = str(error).partition(" - at `$")
    tables: list[str] = []
    root = table = struct_in(kind)
    key = ""
    for name, index in _STEP.findall(place):
        if table is None:
            break
        kind = next(one.type for one in msgspec.structs.fields(table) if one.name == name)
        table = struct_in(kind)
        if table is None:
            key = f"{name}: "
        else:
            tables.append(f"{name}, table {int(index) + 1}" if index else name)
    where = f"{'.'.join(tables)}: {key}" if tables else key
    if isinstance(error.__cause__, ValueError):
        return f"{where}{error.__cause__}"
    if rule.startswith(_UNKNOWN):
        name = rule.removeprefix(_UNKNOWN).rstrip("`")
        above = name in getattr(root, "__struct_fields__", ()) and name not in _SUCCESSORS
        return f"{where}{no_such(name)}{_ABOVE if above else ''}"
    if rule.startswith(_MISSING):
        return f"{where}{rule.removeprefix(_MISSING).rstrip('`')}: is missing"
    return f"{where}must be {_allowed(inspect.type_info(kind))}"


def struct_in(kind: object) -> type[msgspec.Struct] | None:
    """The struct in a type: the type itself, or that of a list of tables; None for plain types."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next(filter(None, map(struct_in, get_args(kind))), None)


def _allowed(info: inspect.Type) -> str:  # noqa: C901, PLR0911 - one case for each kind
    """The values that a type allows, in words; the `title` in its metadata if it has one."""
    match info:
        case inspect.Metadata(extra_json_schema={"title": str() as title}):
            return title
        case inspect.Metadata(type=inner):
            return _allowed(inner)
        case inspect.UnionType(types=types):
            return _allowed(next(one for one in types if not isinstance(one, inspect.NoneType)))
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}"
        case inspect.FloatType(ge=low, le=high):
            return f"a number from {low:g} to {high:g}"
        case inspect.BoolType():
            return "true or false"
        case inspect.EnumType(cls=words):
            return "one of " + ", ".join(str(one.value) for one in words)
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(map(str, values))
        case inspect.VarTupleType(item_type=inspect.StructType()):
            return "tables, each below its name in double brackets"
        case inspect.VarTupleType(item_type=item) | inspect.FrozenSetType(item_type=item):
            return f"a list, each of it {_allowed(item)}"
        case inspect.DictType() | inspect.StructType():
            return "a table"
        case _:
            return "a text"
