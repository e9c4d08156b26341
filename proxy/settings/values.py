"""From the text of a setting to its value, or to an error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import msgspec.inspect

SECRET_LEN_MIN: Final = 20
_SECRET_LEN_MAX: Final = 256
_PORT_MAX: Final = 65_535
EMBEDDERS: Final = ("static", "minilm")
CLIENT_EMBEDDER: Final = "client"

Raw = str | int | float | bool | list[str]
"""What a flag, an environment variable or the TOML file can hold."""


T = TypeVar("T", bound=msgspec.Struct)


class BadValue(Exception):  # noqa: N818 - always turned into a SettingsError that names the setting
    """The error for a value that is not allowed.

    The message says what is allowed, and never quotes the text, which may be a secret.
    """


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a listener binds; port 0 lets the kernel choose."""

    host: str
    port: int


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


def text(raw: Raw) -> str:
    """Read a text that must not be empty."""
    if not isinstance(raw, str) or not raw.strip():
        raise BadValue("a text that is not empty")
    return raw.strip()


def path(raw: Raw) -> Path:
    """Read the path of a file or directory; `~` is the home directory."""
    name = text(raw)
    if "\0" in name:  # TOML can spell a NUL, and no file name has one
        raise BadValue("a path")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise BadValue("a path; ~ and ~NAME only for a user who has a home directory") from error


def address(raw: Raw) -> Address:
    """Read an address `HOST:PORT`, with an IPv6 host in brackets."""
    allowed = "HOST:PORT with a port from 0 to 65535, like 127.0.0.1:7077 or [::1]:7077"
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", text(raw))
    if found is None or int(found[2]) > _PORT_MAX:
        raise BadValue(allowed)
    return Address(host=found[1].strip("[]"), port=int(found[2]))


def boolean(raw: Raw) -> bool:
    """Read `true` or `false`."""
    if isinstance(raw, bool):
        return raw
    spelled = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(raw, str) and raw.strip().lower() in spelled:
        return spelled[raw.strip().lower()]
    raise BadValue("true or false")


def names(raw: Raw) -> tuple[str, ...]:
    """Read a list of names, separated by commas if it comes from the environment."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list) or not all(type(part) is str for part in parts):
        raise BadValue("a list of texts (in the environment: separated by commas)")
    return tuple(part.strip() for part in parts if part.strip())


def whole(low: int, high: int) -> Callable[[Raw], int]:
    """A reader of whole numbers within the given bounds."""

    def parse(raw: Raw) -> int:
        allowed = f"a whole number from {low} to {high}"
        if isinstance(raw, str) and re.fullmatch(r"[0-9]{1,18}", raw.strip()):
            number = int(raw)
        elif isinstance(raw, int) and not isinstance(raw, bool):
            number = raw
        else:
            raise BadValue(allowed)
        if not low <= number <= high:
            raise BadValue(allowed)
        return number

    return parse


def number(low: float, high: float) -> Callable[[Raw], float]:
    """A reader of numbers within the given bounds."""

    def parse(raw: Raw) -> float:
        allowed = f"a number from {low:g} to {high:g}"
        try:
            value = math.nan if isinstance(raw, bool | list) else float(raw)
        except ValueError:
            raise BadValue(allowed) from None
        if not low <= value <= high:  # The comparison with bounds also refuses NaN.
            raise BadValue(allowed)
        return value

    return parse


def embedder(raw: Raw) -> str:
    """Read the name of an embedding model, or `client:` and a number of dimensions."""
    if isinstance(raw, str):
        if raw in EMBEDDERS:
            return raw
        kind, _, dimension = raw.partition(":")
        if kind == CLIENT_EMBEDDER and re.fullmatch(r"[1-9][0-9]{0,3}", dimension):
            return raw
    names = ", ".join(EMBEDDERS)
    raise BadValue(f"{names}, or {CLIENT_EMBEDDER}:DIMENSION (1 to 9999)")


def one_of(*allowed: str) -> Callable[[Raw], str]:
    """A reader of one word of a closed list."""

    def parse(raw: Raw) -> str:
        if not isinstance(raw, str) or raw not in allowed:
            raise BadValue("one of " + ", ".join(allowed))
        return raw

    return parse


def secret(raw: Raw) -> Secret:
    """A secret of at least 20 printable ASCII characters without spaces.

    Blanks and line ends around the secret are taken off: they were pasted with it.
    """
    return exact_secret(raw.strip() if isinstance(raw, str) else raw)


def exact_secret(raw: Raw) -> Secret:
    """Read a secret of at least 20 printable ASCII characters without spaces."""
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
    """A key without the quotation marks that a person pasted around it."""
    bare = key[1:-1]
    return bare if len(key) > 1 and key[0] == key[-1] and key[0] in "\"'" else key


def uids(raw: Raw) -> tuple[int, ...]:
    """Read a list of numeric user ids."""
    parse = whole(0, 2**32 - 2)
    if isinstance(raw, int):
        return (parse(raw),)
    if not isinstance(raw, str | list):
        raise BadValue("a list of numeric user ids")
    parts = raw.split(",") if isinstance(raw, str) else raw
    return tuple(parse(part) for part in parts if part != "")


_UNKNOWN: Final = "Object contains unknown field `"
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
    "retry_days": "`mnemogate memory parole` tries a memory again",
    "outbox_max": "/readyz names a receiver from 10000 steps on",
}


def no_such(name: str) -> str:
    """The line about a key that does not exist; about a removed one it names the successor."""
    successor = _SUCCESSORS.get(name)
    return f"{name}: no such setting" + ("" if successor is None else f"; {successor}")


def table_of(table: object, kind: type[T]) -> T:
    """One TOML table of a settings file as its struct.

    Raises:
        BadValue: The message names the key and what is allowed.
    """
    try:
        return msgspec.convert(table, kind, strict=True)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        unknown = rule.removeprefix(_UNKNOWN).rstrip("`")
        if unknown in _SUCCESSORS:
            raise BadValue(no_such(unknown)) from None
        words = ", ".join(_words_of(kind, key)) if rule.startswith("Invalid enum value") else ""
        raise BadValue(f"{key}: one of {words}" if words else str(error)) from None


def _words_of(kind: type[msgspec.Struct], key: str) -> list[str]:
    """The words that a key allows; an empty list if it is no choice of words."""
    for field in msgspec.structs.fields(kind):
        if field.encode_name == key:
            told = msgspec.inspect.type_info(field.type)
            of = told.types if isinstance(told, msgspec.inspect.UnionType) else (told,)
            return [
                str(one.value)
                for part in of
                if isinstance(part, msgspec.inspect.EnumType)
                for one in part.cls
            ]
    return []
