"""The bare baseline: decode the body, group-commit one durable LMDB put of the same bytes, answer.

No gate, no index, no audit, no trace, no identity. What the sidecar adds is measured against this
in the same run.

    python tests/benchmarks/bare.py --port 7099 --directory /some/dir
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import secrets
import threading
from pathlib import Path

import lmdb
import msgspec
from aiohttp import web

_Item = tuple[bytes, "asyncio.Future[None]"]


class Body(msgspec.Struct):
    text: str
    user_id: str


def _writer(env: lmdb.Environment, waiting: queue.SimpleQueue[_Item]) -> None:
    while True:
        batch = [waiting.get()]
        while True:
            try:
                batch.append(waiting.get_nowait())
            except queue.Empty:
                break
        with env.begin(write=True) as txn:
            for data, _future in batch:
                txn.put(secrets.token_bytes(16), data)
        loop = batch[0][1].get_loop()
        loop.call_soon_threadsafe(_resolve, [future for _data, future in batch])


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--directory", type=Path, required=True)
    options = parser.parse_args()
    env = lmdb.open(str(options.directory), map_size=1 << 34)
    waiting: queue.SimpleQueue[_Item] = queue.SimpleQueue()
    threading.Thread(target=_writer, args=(env, waiting), daemon=True).start()
    decoder = msgspec.json.Decoder(Body)

    async def write(request: web.Request) -> web.Response:
        data = await request.read()
        decoder.decode(data)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.put((data, future))
        await future
        return web.json_response({"ok": True}, status=201)

    app = web.Application()
    app.router.add_post("/v1/memories", write)
    web.run_app(app, host="127.0.0.1", port=options.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
