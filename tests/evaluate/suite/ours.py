"""This system behind the suite's adapter protocol: what `run` serves, asked over its sockets."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from policy.model import Channel, Claims
from proxy.admin.wire.registered import AnchorRequest
from proxy.admin.wire.store import (
    PurgeRequest,
)
from proxy.admin.wire.upkeep import QuarantineRequest
from proxy.version import version
from tests.evaluate.attacks import Tamperer
from tests.evaluate.canary import new_canary
from tests.evaluate.suite.protocol import ADMITTED, HELD, REFUSED, Item, Reply, Request
from tests.evaluate.systems import ADMITTED as LANDED
from tests.evaluate.systems import BY_NAME, Bench, Extras, System, at
from tests.evaluate.wire import Question, Tried, Write, shown_in

_HELD: Final = 202


class OurAdapter:
    """The adapter for this system; each scenario gets a sidecar of its own."""

    def __init__(self, system: System = BY_NAME["S4"]) -> None:
        self._system = system
        self._stack = AsyncExitStack()
        self._running = AsyncExitStack()
        self._place = Path()
        self._bench: Bench
        self._tamperer = Tamperer()
        self._canary: str | None = None
        self._keys: dict[str, str] = {}
        # The agent's and the operator's key, which stay the same over a restart.
        self._first_keys = (f"agent-{new_canary()}", f"operator-{new_canary()}")

    async def close(self) -> None:
        """Stop the sidecar and forget its files."""
        await self._running.aclose()
        await self._stack.aclose()

    async def do(self, request: Request) -> Reply:
        """Perform one operation."""
        act = {
            "hello": self._hello,
            "reset": self._reset,
            "restart": self._restart,
            "remember": self._remember,
            "recall": self._recall,
            "files": self._files,
            "version": self._version,
            "tamper": self._tamper,
            "delete": self._delete,
            "quarantine": self._quarantine,
            "purge": self._purge,
            "anchor": self._anchor,
        }.get(request.op)
        return Reply(na="no such operation") if act is None else await act(request)

    async def _hello(self, _request: Request) -> Reply:
        return Reply(name=f"mnemogate {version()}")

    async def _restart(self, _request: Request) -> Reply:
        await self._running.aclose()
        await self._start()
        return Reply()

    async def _files(self, _request: Request) -> Reply:
        return Reply(files=(str(self._place),))

    async def _version(self, _request: Request) -> Reply:
        return Reply(version=self._bench.observed().version)

    async def _tamper(self, request: Request) -> Reply:
        """Exchange the next candidate's bytes inside staging, which no client could do."""
        self._canary = request.query
        return Reply()

    async def _delete(self, request: Request) -> Reply:
        key = await self._key(request)
        return _told(await self._bench.call("DELETE", f"/v1/memories/{request.id}", key))

    async def _quarantine(self, request: Request) -> Reply:
        path = f"/memories/{request.id}/quarantine"
        return _told(await self._bench.operate("POST", path, QuarantineRequest()))

    async def _purge(self, request: Request) -> Reply:
        path = f"/memories/{request.id}/purge"
        return _told(await self._bench.operate("POST", path, PurgeRequest()))

    async def _anchor(self, request: Request) -> Reply:
        body = AnchorRequest(statement=request.statement or "", questions=(request.query or "",))
        return _told(await self._bench.operate("POST", "/anchors", body))

    async def _reset(self, _request: Request) -> Reply:
        await self.close()
        name = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemogate-suite-"))
        self._place = Path(name)
        self._keys = {}
        await self._start()
        return Reply()

    async def _start(self) -> None:
        extras = Extras(failpoint=self._tamperer)
        self._bench = await self._running.enter_async_context(
            at(self._system, self._place, extras, self._first_keys)
        )
        self._tamperer.sidecar = self._bench.sidecar

    async def _key(self, request: Request) -> str:
        bench = self._bench
        actor = request.actor
        if actor == "operator":
            return bench.operator_key
        if actor not in self._keys:
            self._keys[actor] = await bench.key(
                actor,
                channel=Channel.USER if actor.endswith("person") else Channel.AGENT,
                claims=Claims.TRUSTED if actor in {"harness", "vouched-person"} else Claims.IGNORED,
                tenant="other" if actor == "stranger" else "default",
            )
        return self._keys[actor]

    async def _remember(self, request: Request) -> Reply:
        body = Write(
            text=request.text or "",
            memory_class=request.memory_class,
            source=request.source,
            nonce=request.nonce,
            target=request.target,
            metadata=request.metadata,
            derived_from=request.derived_from,
            promotion_token=request.promotion_token,
        )
        key = await self._key(request)
        self._tamperer.canary, self._canary = self._canary, None
        if request.id is not None:
            answer = await self._bench.call("PATCH", f"/v1/memories/{request.id}", key, body)
        else:
            answer = await self._bench.write(key, body)
        self._tamperer.canary = None
        return _told(answer)

    async def _recall(self, request: Request) -> Reply:
        key = await self._key(request)
        asked = Question(query=request.query or "memory", limit=100)
        found = await self._bench.call("POST", "/v1/search", key, asked)
        listed = await self._bench.call("GET", "/v1/memories?limit=1000", key)
        shown = (*found.body.results, *listed.body.memories)
        return Reply(items=tuple(_item(one) for one in shown))


def _item(raw: msgspec.Raw) -> Item:
    shown = shown_in(raw)
    # Every string of an item is judged, the names under which it is filed as well as its text.
    return Item(text=bytes(raw).decode(), source=shown.source, memory_class=shown.memory_class)


def _told(answer: Tried) -> Reply:
    decision = REFUSED
    if answer.status in LANDED:
        decision = ADMITTED
    elif answer.status == _HELD:
        decision = HELD
    # The caller may be shown an admitted memory, so only other answers are searched for the text.
    said = "" if decision == ADMITTED else answer.raw.decode()
    return Reply(decision=decision, id=answer.body.id, said=said)
