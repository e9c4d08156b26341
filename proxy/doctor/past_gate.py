"""Probes of a memory server behind the gate: whether the agent reaches it past the gate.

Whoever reaches a server that asks for no credential, or takes the agent's key, writes there what
the gate has refused. So no request may be answered but with 401 or 403. A connection that cannot be
made is as good, if the server is known to run: one that is down cannot be reached by anybody.
"""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from proxy.doctor.finding import (
    Attempt,
    BackendTarget,
    DoctorTarget,
    Finding,
    ProbeRequest,
    forbidden,
)
from proxy.doctor.network import REFUSED, connection

_ANSWER_LEN_MAX: Final = 65_536
_ALIVE: Final = range(200, 300)
_CURE: Final = (
    "whoever is here writes past the gate. Have the server ask for a credential that stands in the "
    "table's headers_file alone; where it asks for none, as Chroma and LangGraph's server do as "
    "they come, put it into a network, or under a user, that only the sidecar can connect to"
)
ESSENTIAL: Final = ("backend.anonymous.read", "backend.anonymous.write")
"""Nothing is proven of a server while one of these could not be tried."""


def probe_backend(aim: DoctorTarget, target: BackendTarget) -> Iterator[Finding]:
    """Ask the server past the gate, without a credential and with the agent's key."""
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
    """Why nobody knows whether the server runs; "" if the gate gets an answer of it."""
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
    """Connect; None once that is done, else what it means that it cannot be done."""
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
    """The status of the answer. The connection is closed."""
    headers = {"Accept": "application/json"}
    if request.body:
        headers["Content-Type"] = "application/json"
    if key is not None:
        # Servers look for a credential under different names.
        headers |= dict.fromkeys(("x-api-key", "x-chroma-token"), key)
        headers["Authorization"] = f"Bearer {key}"
    try:
        path = urlsplit(url).path + request.target
        opened.request(request.method, path, body=request.body or None, headers=headers)
        reply = opened.getresponse()
        reply.read(_ANSWER_LEN_MAX)
        return reply.status
    finally:
        opened.close()
