"""What `kubectl port-forward` is for a pod: 127.0.0.1:7078 of this machine is the gate's own.

`python3 forward.py [COMMAND ...]`, beside compose.yaml, until Ctrl-C. The command is one that joins
its stdin and stdout to the gate's admin listener; by default a process in the gate's container.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE
from typing import Final

PORT: Final = 7078
INSIDE: Final = f"""
import os, socket, threading
gate = socket.create_connection(("127.0.0.1", {PORT}))
def answered():
    while data := gate.recv(65536):
        while data:
            data = data[os.write(1, data):]
    os._exit(0)
threading.Thread(target=answered).start()
while data := os.read(0, 65536):
    gate.sendall(data)
gate.shutdown(socket.SHUT_WR)
"""
_EXEC: Final = ("docker", "compose", "exec", "-T", "mnemogate", "/app/bin/python", "-I", "-c")
COMMAND: Final = (*_EXEC, INSIDE)


async def copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy a stream to its end, or to that of its reader."""
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    sink.close()


async def forwarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection of a browser."""
    child = await asyncio.create_subprocess_exec(
        *(sys.argv[1:] or COMMAND), stdin=PIPE, stdout=PIPE
    )
    if child.stdin is not None and child.stdout is not None:
        await asyncio.gather(copied(reader, child.stdin), copied(child.stdout, writer))
    await child.wait()


async def main() -> None:
    """Serve until the process is ended."""
    server = await asyncio.start_server(forwarded, "127.0.0.1", PORT)
    print(f"http://127.0.0.1:{PORT}/review is the gate's", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
