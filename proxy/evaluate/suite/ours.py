"""This very system behind the adapter protocol: what `run` serves, asked over its sockets."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from policy.model import Channel, Claims
from proxy.evaluate.attacks import Tamperer
from proxy.evaluate.canary import new_canary
from proxy.evaluate.suite.protocol import ADMITTED, HELD, REFUSED, Item, Reply, Request
from proxy.evaluate.systems import ADMITTED as LANDED
from proxy.evaluate.systems import BY_NAME, Extras, at
from proxy.version import version

if TYPE_CHECKING:
    from proxy.evaluate.systems import Bench, Json, System, Tried

_HELD: Final = 202


class OurAdapter:
    """A sidecar of its own for each scenario."""

    def __init__(self, system: System = BY_NAME["S4"]) -> None:
        self._system = system
        self._stack = AsyncExitStack()
        self._running = AsyncExitStack()
        self._place = Path()
        self._bench: Bench
        self._tamperer = Tamperer()
        self._canary: str | None = None
        self._keys: dict[str, str] = {}
        # The same before and after a restart.
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
            "quarantine": self._operate,
            "purge": self._operate,
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
        """The next candidate's bytes are exchanged inside staging, as its writer could not."""
        self._canary = request.query
        return Reply()

    async def _delete(self, request: Request) -> Reply:
        key = await self._key(request)
        return _told(await self._bench.call("DELETE", f"/v1/memories/{request.id}", key))

    async def _operate(self, request: Request) -> Reply:
        path = f"/memories/{request.id}/{request.op}"
        return _told(await self._bench.operate("POST", path, {}))

    async def _anchor(self, request: Request) -> Reply:
        body: Json = {"statement": request.statement, "questions": [request.query]}
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
        self._tamperer.bench = self._bench

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
        body: Json = {
            name: value
            for name, value in (
                ("text", request.text),
                ("class", request.memory_class),
                ("source", request.source),
                ("nonce", request.nonce),
                ("target", request.target),
                ("metadata", request.metadata),
                ("derived_from", list(request.derived_from) or None),
                ("promotion_token", request.promotion_token),
            )
            if value is not None
        }
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
        items: list[Item] = []
        asked: Json = {"query": request.query or "memory", "limit": 100}
        for answer, name in (
            (await self._bench.call("POST", "/v1/search", key, asked), "results"),
            (await self._bench.call("GET", "/v1/memories?limit=1000", key), "memories"),
        ):
            items += [_item(one) for one in answer.body.get(name, ())]
        return Reply(items=tuple(items))


def _item(shown: dict[str, Any]) -> Item:
    return Item(text=str(shown), source=shown.get("source"), memory_class=shown.get("class"))


def _told(answer: Tried) -> Reply:
    body = answer.body
    decision = REFUSED
    if answer.status in LANDED:
        decision = ADMITTED
    elif answer.status == _HELD:
        decision = HELD
    # An admitted memory is shown to the one who wrote it; what is stopped never is.
    said = "" if decision == ADMITTED else str(body)
    return Reply(decision=decision, id=body.get("id"), said=said)
