"""Probes of the listeners: their answers without a credential, and with the agent's key.

Requests that are accepted change nothing either, because their empty bodies are refused as
malformed. The exception is a write to L1, which tests that an agent cannot set policy; its fixed
nonce makes it one candidate per key, however often doctor runs.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from proxy.doctor.finding import (
    Attempt,
    BackendTarget,
    DoctorTarget,
    Finding,
    ProbeRequest,
    ProbeResult,
    forbidden,
)
from proxy.seams.readiness import Readiness
from storage.values import STAGED_IN_MEMORY

_ANSWER_LEN_MAX: Final = 65_536
_ALIVE: Final = range(200, 300)
# The headers, beside `Authorization`, in which memory servers look for a credential.
_KEY_NAMES: Final = ("x-api-key", "x-chroma-token")
_CURE: Final = (
    "whoever is here writes past the gate. Have the server ask for a credential that stands in the "
    "table's headers_file alone; where it asks for none, as Chroma and LangGraph's server do as "
    "they come, put it into a network, or under a user, that only the sidecar can connect to"
)
ESSENTIAL: Final = ("backend.anonymous.read", "backend.anonymous.write")
"""The probes of a memory server without which nothing is proven about it."""


def probe_backend(aim: DoctorTarget, target: BackendTarget) -> Iterator[Finding]:
    """Send requests to a memory server directly: without a credential, and with the agent's key."""
    if target.headers_file is not None:
        yield _credential(target.headers_file)
    unknown = _why_unknown(aim, target)
    for what, request in (("read", target.read), ("write", target.write)):
        yield _tried(target, f"backend.anonymous.{what}", request, None, unknown)
        if aim.agent_key is not None:
            key = aim.agent_key
            yield _tried(target, f"backend.agent_key.{what}", request, key, unknown)


def _credential(path: Path) -> Finding:
    attempt = Attempt("backend.credential", f"open {path} to read", "permission denied")

    def act() -> str:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        return "opened"

    return forbidden(attempt, act)


def _why_unknown(aim: DoctorTarget, target: BackendTarget) -> str:
    """Ask the server through the gate; return why it is unknown whether it runs, "" if it does."""
    if aim.agent_key is None:
        return "only the agent's key shows through the gate that it runs: --agent-key-file"
    try:
        opened = connection(aim.data_url)
        status = _asked(opened, aim.data_url, target.alive, aim.agent_key)
    except (OSError, http.client.HTTPException) as error:
        return f"the gate cannot be asked whether it runs ({type(error).__name__})"
    return "" if status in _ALIVE else f"the gate gets no answer of it either ({status})"


def _tried(
    target: BackendTarget,
    probe_id: str,
    request: ProbeRequest,
    key: str | None,
    unknown: str,
) -> Finding:
    credential = "no credential" if key is None else "the agent's key"
    tried = f"{request.method} {target.url}{request.target} past the gate with {credential}"
    attempt = Attempt(probe_id, tried, "no connection, 401 or 403")
    opened = connection(target.url)
    unreached = _unreached(opened, attempt, unknown)
    if unreached is not None:
        return unreached
    try:
        status = _asked(opened, target.url, request, key)
    except (OSError, http.client.HTTPException) as error:
        return attempt.fail(f"connected, but no answer ({type(error).__name__}): {_CURE}")
    if status in REFUSED:
        return attempt.ok(f"{status}")
    return attempt.fail(f"{status} from {target.name}: {_CURE}")


def _unreached(
    opened: http.client.HTTPConnection, attempt: Attempt, unknown: str
) -> Finding | None:
    """Connect; return None if connected, else the finding that follows from the failure."""
    try:
        opened.connect()
    except ssl.SSLCertVerificationError:
        return attempt.skipped("its certificate is not trusted here")
    except ssl.SSLError:
        return attempt.ok("the TLS handshake was refused")
    except OSError as error:
        if unknown:
            return attempt.skipped(f"cannot connect ({type(error).__name__}), and {unknown}")
        return attempt.ok(f"cannot connect ({type(error).__name__}), and the gate can")
    return None


def _asked(
    opened: http.client.HTTPConnection, url: str, request: ProbeRequest, key: str | None
) -> int:
    """Send a request and close the connection; return the status of the answer."""
    path = urlsplit(url).path + request.target
    return _exchange(opened, request.method, path, key, request.body, also=_KEY_NAMES).status


_TIMEOUT_S: Final = 5.0
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_OK: Final = 200
REFUSED: Final = frozenset({_UNAUTHORIZED, _FORBIDDEN})


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    body: bytes


class _Whoami(msgspec.Struct, frozen=True, kw_only=True):
    incarnation: str = ""


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    reason: str | None = None


def probe_network(aim: DoctorTarget) -> Iterator[Finding]:
    """Send requests to every listener, without a credential and with the agent's key."""
    yield _socket(aim.state / "admin.sock")
    for method, path in (("GET", "/api/v1/status"), ("POST", "/api/v1/keys")):
        yield _closed(f"admin.anonymous.{method}", aim.admin_url, method, path, None)
        if aim.agent_key is not None:
            yield _closed(f"admin.agent_key.{method}", aim.admin_url, method, path, aim.agent_key)
    yield _closed("data.anonymous", aim.data_url, "POST", "/v1/memories", None)
    modes = tuple(_modes(aim))
    failed = {one.id for one in modes if one.verdict is ProbeResult.FAIL}
    yield _policy_write(aim, observes="mode" in failed)
    yield from modes


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT_S)
        self.sock.connect(str(self._path))


def _socket(path: Path) -> Finding:
    attempt = Attempt("admin.socket", f"ask {path} for the status", "cannot connect, or 401/403")

    def act() -> str:
        answer = _exchange(_UnixConnection(path), "GET", "/api/v1/status", None, b"")
        if answer.status in REFUSED:
            raise PermissionError(1, f"answered {answer.status}")
        return f"answered {answer.status}: whoever reaches it can allow any write that waits"

    return forbidden(attempt, act)


def _closed(probe_id: str, url: str, method: str, path: str, key: str | None) -> Finding:
    credential = "no key" if key is None else "the agent's key"
    attempt = Attempt(probe_id, f"{method} {url}{path} with {credential}", "401 or 403")
    try:
        answer = _exchange(connection(url), method, path, key, b"{}" if method == "POST" else b"")
    except ssl.SSLCertVerificationError:
        return attempt.skipped("its certificate is not trusted here")
    except ssl.SSLError:
        return attempt.ok("the TLS handshake was refused")
    except (OSError, http.client.HTTPException) as error:
        return attempt.skipped(f"cannot be reached ({type(error).__name__})")
    if answer.status in REFUSED:
        return attempt.ok(f"{answer.status}")
    return attempt.fail(f"{answer.status}: the request was let through")


def _staged(attempt: Attempt, place: str) -> Finding:
    if place == STAGED_IN_MEMORY:
        return attempt.ok(f"in memory ({place})")
    # It is only a warning, because candidates on disk are encrypted with keys that exist only in
    # memory.
    return attempt.warned(f"not in memory: {place or 'nowhere, no file can be had'}")


def _relays(attempt: Attempt, unbound: tuple[int, ...]) -> Finding:
    if not unbound:
        return attempt.ok("none comes from a uid that is bound to nobody")
    # It is only a warning, because the call is judged again, though without its conversation.
    uids = ", ".join(map(str, unbound))
    return attempt.warned(
        f"uid {uids} is bound to no principal: a call that the model front let through is judged a "
        "second time, as nobody's conversation. In the file of settings, add a table "
        f"[[principals]] with the id and the tenant of the agent's key, and uid = {unbound[0]}"
    )


def _modes(aim: DoctorTarget) -> Iterator[Finding]:
    mode = Attempt("mode", "ask the sidecar whether it refuses anything", "enforce")
    maps = Attempt("model.memory_tools", "ask the sidecar which memory tools no map takes", "none")
    files = Attempt("places.read", "ask the sidecar which files of hosts it cannot read", "none")
    relays = Attempt("relay.uid", "ask the sidecar whose relays come to it", "uids that are bound")
    people = Attempt("keys.people", "ask the sidecar who uses keys of people", "people alone")
    wide = Attempt("settings.wider", "ask the sidecar what lets in more than as shipped", "nothing")
    staging = Attempt(
        "staging.undecided", "ask the sidecar where candidates are before a verdict", "in memory"
    )
    try:
        answer = _exchange(connection(aim.admin_url), "GET", "/readyz", None, b"")
        ready = msgspec.json.decode(answer.body, type=Readiness)
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        why = f"cannot be asked ({type(error).__name__})"
        yield from (one.skipped(why) for one in (mode, maps, files, relays, people, wide, staging))
        return
    yield _staged(staging, ready.staging)
    if ready.mode == "observe":
        yield mode.fail("observe: nothing is refused, every write lands")
    else:
        yield mode.ok(ready.mode)
    if ready.unmapped_tools:
        # It is only a warning: calls of these tools are not judged, but only a person can find out
        # whether one of the tools stores memories.
        yield maps.warned(f"see `mnemogate mcp map` for {', '.join(ready.unmapped_tools)}")
    else:
        yield maps.ok("none was seen")
    lost = f"{ready.unread_places} between no known marks: see `mnemogate places list`"
    yield files.fail(lost) if ready.unread_places else files.ok("none")
    yield _relays(relays, ready.unbound_uids)
    if ready.people_with_agents:
        # It is only a warning: the gate sees that a model calls tools with a person's key, but not
        # who has the key.
        yield people.warned(
            f"{ready.people_with_agents} of channel `user` have models that call tools: what those "
            "write counts as a person's words. Give the agent a key of its own; the log names whose"
        )
    else:
        yield people.ok("no model of theirs called a tool")
    if ready.wider:
        # It is only a warning, because an operator may have reasons for these settings.
        yield wide.warned("; ".join(ready.wider))
    else:
        yield wide.ok("nothing does")


def _policy_write(aim: DoctorTarget, *, observes: bool) -> Finding:
    attempt = Attempt(
        "data.agent_key.L1", "write a policy memory (L1) with the agent's key", "403, with a reason"
    )
    if aim.agent_key is None:
        return attempt.skipped("no agent key given (MNEMOGATE_AGENT_KEY or --agent-key-file)")
    if observes:
        return attempt.skipped("in observe mode it would land, and steer whoever reads it")
    try:
        who = _exchange(connection(aim.data_url), "GET", "/v1/whoami", aim.agent_key, b"")
        if who.status != _OK:
            return attempt.skipped(f"the data listener does not take this key ({who.status})")
        incarnation = msgspec.json.decode(who.body, type=_Whoami).incarnation
        answer = _exchange(
            connection(aim.data_url), "POST", "/v1/memories", aim.agent_key, _body(incarnation)
        )
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        return attempt.skipped(f"cannot be reached ({type(error).__name__})")
    reason = _reason(answer.body)
    if answer.status == _FORBIDDEN and reason:
        return attempt.ok(f"403 ({reason})")
    return attempt.fail(f"{answer.status}: it was not refused by the gate")


def _body(incarnation: str) -> bytes:
    prefix = f"{incarnation}:" if incarnation else ""
    return json.dumps(
        {
            "text": "Written by mnemogate doctor to show that an agent cannot set policy.",
            "class": "L1",
            "nonce": f"{prefix}mnemogate-doctor",
        }
    ).encode()


def _reason(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Problem).reason
    except msgspec.DecodeError:
        return None


def connection(url: str) -> http.client.HTTPConnection:
    """A connection object for the host of a URL, not connected yet; every wait has a deadline."""
    parts = urlsplit(url)
    host = parts.hostname or "127.0.0.1"
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, parts.port, timeout=_TIMEOUT_S)
    return http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    key: str | None,
    body: bytes,
    *,
    also: tuple[str, ...] = (),
) -> _Answer:
    headers = {"Accept": "application/json"}
    if body:
        headers["Content-Type"] = "application/json"
    if key is not None:
        headers |= {**dict.fromkeys(also, key), "Authorization": f"Bearer {key}"}
    try:
        connection.request(method, path, body=body or None, headers=headers)
        reply = connection.getresponse()
        return _Answer(status=reply.status, body=reply.read(_ANSWER_LEN_MAX))
    finally:
        connection.close()
