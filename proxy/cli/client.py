"""The client of the operator API: it sends typed requests, and completes ids."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from socket import socket
from types import SimpleNamespace
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from proxy.admin.wire.route import BEGINNING_LEN_MIN, IDS, IMPORTED_AT_ONCE, IdKind, IdList, Route
from proxy.cli.exits import CommandFailed, Exit
from proxy.cli.terminal import inert
from proxy.dialects.described import ARGUMENT
from proxy.seams.faults import OF_DATA, why_unreached
from proxy.seams.guard import Item
from proxy.seams.tenants import DEFAULT_TENANT, TENANT_PATTERN

_Answer = TypeVar("_Answer", bound=msgspec.Struct)

QUICK_S: Final = 30.0
PATIENT_S: Final = 3600.0
"""The timeout of calls that rewrite or read the whole store."""
_SUCCESS: Final = range(200, 300)
_WHICH: Final = "--admin takes the admin listener, whose address each start prints as `admin`"


class _ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an RFC 9457 problem that are printed for a person."""

    title: str = ""
    detail: str = ""


_MEANING: Final[Mapping[int, tuple[Exit, str]]] = {
    400: (Exit.USAGE, "the command's --help says what it takes"),
    401: (Exit.REFUSED, "set MNEMOGATE_OPERATOR_KEY to an operator's key"),
    403: (Exit.REFUSED, "use an operator's key, or run as the sidecar's user"),
    404: (Exit.NOT_FOUND, ""),
    # The sidecar's own words name what to change.
    409: (Exit.REFUSED, ""),
    422: (Exit.USAGE, ""),
    429: (Exit.REFUSED, "wait a minute"),
    503: (Exit.UNREACHABLE, "look at `/readyz` and the sidecar's log, then try again"),
}


_INCIDENTS: Final = (
    "`mnemogate incident list` shows those of wrong answers, `mnemogate isolate --list` the others"
)
# For each first segment of an API path, how a person finds the valid names; printed if a name is
# unknown.
_THERE_IS: Final[Mapping[str, str]] = {
    "memories": "`mnemogate memory list` shows them; check --tenant",
    "review": "`mnemogate review list` shows what waits; what was decided before has its verdict "
    "in the log: `mnemogate audit export`",
    "groups": "`mnemogate review list` shows what waits",
    "unsettled": "`mnemogate review unsettled` lists them",
    "sessions": "`mnemogate session list` shows them",
    "incidents": _INCIDENTS,
    "recalls": "`mnemogate recall list` shows the newest",
    "replies": "`mnemogate recall list` says since when reads are kept; check --tenant",
    "keys": "`mnemogate key list` has them",
    "trust": "`mnemogate key list` and `mnemogate trust show` name the principals",
    "audit": "`mnemogate audit checkpoint` says how many leaves there are",
}
# Patterns that the API demands of its fields, with words for a person whose value does not match.
_RULES: Final = (
    (TENANT_PATTERN, "lower-case letters, digits, `.`, `_` and `-`, 63 at most"),
    ("^[0-9a-f]{32}$", "32 of the digits 0-9 and a-f"),
    ("^[0-9a-f]{64}$", "64 of the digits 0-9 and a-f"),
)


class Operator:
    """A client of one sidecar's operator API; `where` names the sidecar's address in messages.

    Each request has a connection of its own. An HTTP library would take longer to import than most
    commands take to run.
    """

    def __init__(
        self,
        url: str,
        where: str,
        *,
        headers: Mapping[str, str] | None = None,
        path: Path | None = None,
    ) -> None:
        """`headers` are sent with each request; `path` is the Unix socket of a sidecar here."""
        self._url = url
        self._headers = headers or {}
        self._path = path
        self.where = where

    async def ask(
        self, row: Route[Any, _Answer], argument: str = "", /, **asked: object
    ) -> _Answer:
        """Send one request to the API; return its answer. Fields that are None are left out.

        Raises:
            CommandFailed: The sidecar could not be reached, refused the request, or gave an answer
                of another form.
        """
        given = {name: value for name, value in asked.items() if value is not None}
        path, data = ARGUMENT.sub(part(argument), row.template), b""
        with as_text():
            if row.asks is not None:
                data = msgspec.json.encode(given)
            elif given:
                path += f"?{urlencode(given)}"
        answer = await self._sent(row.method, path, data, PATIENT_S if row.slow else QUICK_S)
        try:
            return msgspec.json.decode(answer, type=row.answers)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CommandFailed(
                Exit.UNREACHABLE,
                f"the sidecar at {self.where} answered something else than this version expects",
                then="stop it, and start it again with this version",
            ) from error

    async def _sent(self, method: str, path: str, data: bytes, timeout_s: float) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._exchanged(method, path, data)
            status, ours, body = answer.status, _is_ours(answer.headers), answer.read()
        except TimeoutError as error:
            raise self._unreachable(f"did not answer within {timeout_s:g} s") from error
        except (OSError, ValueError, HTTPException) as error:
            raise self._unreachable(f"cannot be reached ({why_unreached(error)})") from error
        if not ours:
            raise CommandFailed(
                Exit.UNREACHABLE,
                f"what answers at {self.where} is not Mnemogate ({status})",
                then=_WHICH,
            )
        if status not in _SUCCESS:
            raise self._refusal(status, body, path)
        return body

    async def _exchanged(self, method: str, path: str, data: bytes) -> HTTPResponse:
        url = urlsplit(f"{self._url}/api/v1{path}")
        if url.scheme not in {"http", "https"} or not url.hostname:
            raise ValueError(self._url)
        headers = {
            "Host": url.netloc.rpartition("@")[2],
            "Connection": "close",
            "Content-Length": f"{len(data)}",
            **({"Content-Type": "application/json"} if data else {}),
            **self._headers,
        }
        head = [f"{name}: {value}" for name, value in headers.items()]
        line = f"{method} {url._replace(scheme='', netloc='').geturl()} HTTP/1.1"
        if self._path is not None:
            reader, writer = await asyncio.open_unix_connection(self._path)
        else:
            tls = url.scheme == "https"
            port = url.port or (443 if tls else 80)
            reader, writer = await asyncio.open_connection(url.hostname, port, ssl=tls or None)
        try:
            writer.write("\r\n".join([line, *head, "", ""]).encode() + data)
            received = io.BytesIO(await reader.read())
        finally:
            writer.close()
        # It reads from the file that its socket makes.
        made = SimpleNamespace(makefile={"rb": received}.get)
        answer = HTTPResponse(cast("socket", made), method=method)
        answer.begin()
        return answer

    def _refusal(self, status: int, body: bytes, path: str) -> CommandFailed:
        try:
            problem = msgspec.json.decode(body, type=_ProblemDetails)
        except (msgspec.DecodeError, UnicodeDecodeError):
            problem = _ProblemDetails()
        if OF_DATA in problem.detail:
            return CommandFailed(
                Exit.USAGE,
                f"{self.where} is the data listener, where agents write ({status})",
                then=_WHICH,
            )
        code, then = _MEANING.get(status, (Exit.UNREACHABLE, "look at the sidecar's log"))
        if code is Exit.NOT_FOUND:
            then = _THERE_IS.get(path.split("/")[1].partition("?")[0], then)
        said = (problem.detail or problem.title or "no reason given").removeprefix("$.")
        for pattern, words in _RULES:
            said = said.replace(f"Expected `str` matching regex '{pattern}'", words)
        return CommandFailed(code, f"{inert(said)} ({status})", then=then)

    def _unreachable(self, what: str) -> CommandFailed:
        return CommandFailed(
            Exit.UNREACHABLE,
            f"the sidecar at {self.where} {what}",
            then="check that it runs, and --state or --admin",
        )


def part(name: str) -> str:
    """A name percent-encoded as one segment of a path.

    Raises:
        CommandFailed: The name is not valid UTF-8.
    """
    with as_text():
        return quote(name, safe="")


@contextmanager
def as_text() -> Generator[None]:
    """Convert the encoding error of an argument that is not UTF-8 to a `CommandFailed`.

    Raises:
        CommandFailed: A text in the block is not valid UTF-8, so no name, id or text can equal it.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        raise CommandFailed(
            Exit.USAGE, "an argument is not UTF-8", then="no name, id or text has such bytes"
        ) from error


def _is_ours(headers: Message) -> bool:
    """Whether a sidecar sent this answer.

    A proxy in between may replace the header `Server`, and the answer to a request that could not
    be read has no header `Mnemogate-Trace-Id`, so one of the two headers suffices.
    """
    return "Mnemogate-Trace-Id" in headers or headers.get("Server") == "mnemogate"


# The length of a complete id of each kind. A complete id is sent unchecked, because the call that
# uses it reports an unknown id.
_WHOLE_LEN: Final = {
    IdKind.HELD: 32,
    IdKind.REFUSED: 32,
    IdKind.UNSETTLED: 32,
    IdKind.MEMORY: 36,
    IdKind.SESSION: 32,
    IdKind.INCIDENT: 16,
    IdKind.RECALL: 16,
}
_NOUNS: Final = {
    IdKind.HELD: ("nothing that waits", "`mnemogate review list` shows what waits"),
    IdKind.REFUSED: (
        "nothing that is withheld",
        "its notice names a refused candidate; without a [[model]] table nothing is withheld",
    ),
    IdKind.MEMORY: ("no memory", "`mnemogate memory list` shows them; check --tenant"),
    IdKind.SESSION: ("no session", "`mnemogate session list` shows them"),
    IdKind.INCIDENT: ("no incident", _INCIDENTS),
    IdKind.RECALL: ("no recall", "`mnemogate recall list` shows the newest"),
    IdKind.KEY: ("no key", "`mnemogate key list` shows them"),
    IdKind.UNSETTLED: ("nothing that is not settled", "`mnemogate review unsettled` shows it"),
}


async def whole_id(api: Operator, kind: IdKind, given: str, tenant: str = DEFAULT_TENANT) -> str:
    """Complete an id of which `given` is the beginning; a complete id is returned unchanged.

    Raises:
        CommandFailed: No id has this beginning, or several ids have; the message contains the first
            ones.
    """
    if len(given) >= _WHOLE_LEN.get(kind, sys.maxsize):
        return given
    check_beginning(given)
    found = await api.ask(IDS, kind=kind.value, begins=given, tenant=tenant)
    return only_id(given, found, *_NOUNS[kind])


async def whole_ids(
    api: Operator, asked: Mapping[str, object], names: Mapping[str, IdKind]
) -> dict[str, object]:
    """Complete the ids in the fields of `asked` that `names` maps to a kind of id.

    Raises:
        CommandFailed: No id has a given beginning, or several ids have.
    """
    tenant = str(asked.get("tenant", DEFAULT_TENANT))
    whole = dict(asked)
    for field, kind in names.items():
        if field in asked:
            whole[field] = await whole_id(api, kind, str(asked[field]), tenant)
    return whole


def check_beginning(given: str) -> None:
    """Refuse a text that is too short to be the beginning of an id.

    Raises:
        CommandFailed: The text has fewer characters than `BEGINNING_LEN_MIN`.
    """
    if len(given) < BEGINNING_LEN_MIN:
        raise CommandFailed(
            Exit.USAGE,
            f"{inert(given)}: too short for the beginning of an id",
            then=f"write at least {BEGINNING_LEN_MIN} characters",
        )


def only_id(given: str, found: IdList, noun: str, then: str) -> str:
    """The only id in `found`, which all begin with `given`.

    Args:
        given: What a person typed.
        found: The ids with this beginning.
        noun: The subject of the message if there is none, such as "no memory".
        then: What to do next if no id has this beginning.

    Raises:
        CommandFailed: No id has this beginning, or several ids have; the message contains the first
            ones.
    """
    if found.total == 1:
        return found.ids[0]
    if found.total == 0:
        what = f"{noun} has an id that begins with {inert(given)}"
        raise CommandFailed(Exit.NOT_FOUND, what, then=then)
    named = ", ".join(map(inert, found.ids))
    more = f" and {found.total - len(found.ids)} more" if found.total > len(found.ids) else ""
    raise CommandFailed(
        Exit.USAGE,
        f"{found.total} ids begin with {inert(given)}: {named}{more}",
        then="write more of the one you mean",
    )


_CHARACTERS_AT_ONCE: Final = 65_536


def portions(items: Iterable[Item], at_once: int = IMPORTED_AT_ONCE) -> Iterator[tuple[Item, ...]]:
    """Yield the items in order, in groups that fit into one request of the operator API."""
    some: list[Item] = []
    room = _CHARACTERS_AT_ONCE
    for item in items:
        size = len(item.arguments) + sum(map(len, item.pieces))
        if some and (size > room or len(some) == at_once):
            yield tuple(some)
            some, room = [], _CHARACTERS_AT_ONCE
        some.append(item)
        room -= size
    if some:
        yield tuple(some)
