"""Lives by name, and how each is lived; one of them is recorded."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Final

from policy.gate import GATE
from proxy.compose.app import Composition
from storage.write.writer import EmbeddedWriter
from tests.integration.mcp_server import serving
from tests.integration.model_bench import MODEL_KEY
from tests.integration.models.server import scripted_model
from tests.integration.recorded.mcp_life import mcp_life
from tests.integration.recorded.mem0_life import mem0_life
from tests.integration.recorded.memory_server import MemoryServer
from tests.integration.recorded.model_life import SentTo, model_life
from tests.integration.recorded.native_life import native_life
from tests.integration.recorded.recorder import Recorder, places_of
from tests.integration.recorded.store_life import store_life
from tests.integration.recorded.world import lived
from tests.integration.running import running

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from policy.gate import Gate
    from storage.interfaces import Store
    from storage.values import Outcome, Submission
    from tests.integration.recorded.recording import Recording
    from tests.integration.recorded.world import World

    Life = Callable[[Path, World, Gate], Coroutine[None, None, Recording]]


# Of the loop, until all that one request proposes are in the writer's queue.
_TURNS: Final = 5


def _without_servers(
    life: Callable[[Recorder, World], Coroutine[None, None, None]],
) -> Life:
    async def live(base: Path, world: World, gate: Gate) -> Recording:
        async with running(base, composition(world, gate)) as on:
            recorder = Recorder(on, world, places_of(base))
            await life(recorder, world)
            return await recorder.recording()

    return live


class Together:
    """The store's writer, which takes what comes in one turn of the loop as one batch.

    Else it begins with the first of several, or with some of them, as chance has it; and which ids
    they get depends on that.
    """

    def __init__(self, writer: EmbeddedWriter) -> None:
        self._writer = writer
        self._holds: asyncio.Task[bool] | None = None

    async def submit(self, submission: Submission) -> Outcome:
        if self._holds is None:
            complete = threading.Event()
            # Tasks begin in the order in which they are made: the writer first waits.
            self._holds = asyncio.create_task(self._writer.run(complete.wait))
            asyncio.get_running_loop().call_soon(self._let_go, complete, _TURNS)
        return await asyncio.create_task(self._writer.submit(submission))

    def _let_go(self, complete: threading.Event, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._let_go, complete, turns - 1)
            return
        self._holds = None
        complete.set()


def _together(store: Store) -> Together:
    writer = store.writer
    assert isinstance(writer, EmbeddedWriter)
    return Together(writer)


def composition(world: World, gate: Gate) -> Composition:
    return Composition(
        gate=gate,
        clock_ns=world.clock.wall_ns,
        monotonic_ns=world.clock.monotonic_ns,
        placing=_together,
        wait=world.wait,
    )


async def _mcp(base: Path, world: World, gate: Gate) -> Recording:
    async with serving(MemoryServer()) as server:
        assert isinstance(server, MemoryServer)
        tables = f'[[mcp]]\nname = "memory"\nurl = "{server.url}"\nmap = "server-memory"\n'
        async with running(base, composition(world, gate), tables=tables) as on:
            places = {server.url.removesuffix("/mcp").removeprefix("http://"): "behind"}
            recorder = Recorder(on, world, {**places_of(base), **places}, server.take)
            await mcp_life(recorder, world, server)
            return await recorder.recording()


async def _store(base: Path, world: World, gate: Gate) -> Recording:
    # Else the peer is known by its uid, which is in every leaf.
    tables = f'[[principals]]\nid = "ann"\ntenant = "default"\nuid = {os.geteuid()}\n'
    async with running(base, composition(world, gate), tables=tables) as on:
        recorder = Recorder(on, world, places_of(base))
        await store_life(recorder, world)
        return await recorder.recording()


async def _model(base: Path, world: World, gate: Gate) -> Recording:
    secrets = base / "provider-headers"
    secrets.write_text(f"Authorization: Bearer {MODEL_KEY}\n")
    secrets.chmod(0o600)
    async with scripted_model() as model:
        tables = "".join(
            f'[[model]]\nname = "{name}"\napi = "{name}"\nurl = "{model.url}"\n'
            f'headers_file = "{secrets}"\n'
            for name in ("anthropic", "openai", "gemini")
        )
        async with running(base, composition(world, gate), tables=tables) as on:
            places = {model.url.removeprefix("http://"): "behind"}
            recorder = Recorder(on, world, {**places_of(base), **places}, SentTo(model))
            await model_life(recorder, model)
            return await recorder.recording()


# The one that is kept: it has every call of the agent's API and of the operator's.
KEPT: Final = "native"
LIVES: Final[dict[str, Life]] = {
    "native": _without_servers(native_life),
    "mem0": _without_servers(mem0_life),
    "mcp": _mcp,
    "store": _store,
    "model": _model,
}


def recorded(name: str, base: Path, gate: Gate = GATE) -> Recording:
    """The life of this name, lived anew below an empty folder; blocks until it is over."""
    return lived(name, lambda world: LIVES[name](base, world, gate))
