"""A model API that answers at once: what is measured in front of it is not its own time.

    python tests/benchmarks/model_upstream.py

It prints its port. Every request gets the same streamed message, whatever it says.
"""

from __future__ import annotations

import asyncio
import json
import sys


def _event(kind: str, **more: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


def _stream() -> bytes:
    message: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
    }
    block = {"type": "text", "text": ""}
    said = "Of course, that is done now."
    return b"".join(
        (
            _event("message_start", message={**message, "usage": {"input_tokens": 1}}),
            _event("content_block_start", index=0, content_block=block),
            _event("content_block_delta", index=0, delta={"type": "text_delta", "text": said}),
            _event("content_block_stop", index=0),
            _event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1}),
            _event("message_stop"),
        )
    )


BODY = _stream()
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=64 * 1024 * 1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
