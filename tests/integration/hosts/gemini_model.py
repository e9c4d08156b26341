"""A scripted model behind Google's Gemini API, streamed, as Gemini CLI asks for it."""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import web

from tests.integration.hosts.script import GEMINI, HostModel, ToolResult
from tests.integration.models.gemini import SIGNATURE

Json = dict[str, Any]
_STREAMS: Final = ":streamGenerateContent"


class GeminiModel(HostModel):
    api = GEMINI

    def routes(self, application: web.Application) -> None:
        application.router.add_post("/v1beta/models/{verb}", self._generate)

    def results(self) -> list[ToolResult]:
        """What the tools told the model, in order, of the longest conversation."""
        if not self.requests:
            return []
        return _results(max(self.requests, key=lambda body: len(body["contents"])))

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        self.requests.append(body)
        parts = self._parts(body)
        chunks = [_chunk([one], "STOP" if one is parts[-1] else "") for one in parts]
        if not request.path.endswith(_STREAMS):
            return web.json_response(_chunk(parts, "STOP"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for one in chunks:
            await response.write(f"data: {json.dumps(one)}\r\n\r\n".encode())
        await response.write_eof()
        return response

    def _parts(self, body: Json) -> list[Json]:
        """The parts of the answer. Requests without tools are about titles and routes."""
        if not body.get("tools"):
            return [{"text": "{}"}]
        contents = body["contents"]
        said = [part["text"] for one in contents if one["role"] == "user" for part in _texts(one)]
        begun = any(one["role"] == "model" for one in contents)
        move = self._script.next(said, _results(body), begun=begun)
        if move.call is None:
            return [{"text": move.text}]
        call_id = f"call_{self._script.made():04d}"
        called = {"id": call_id, "name": move.call.tool, "args": json.loads(move.arguments)}
        return [{"text": move.text}, {"functionCall": called, "thoughtSignature": SIGNATURE}]


def _chunk(parts: list[Json], reason: str) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    ended = {"finishReason": reason} if reason else {}
    return {"candidates": [candidate | ended], "usageMetadata": usage, "modelVersion": "scripted"}


def _texts(content: Json) -> list[Json]:
    return [part for part in content["parts"] if "text" in part]


def _results(body: Json) -> list[ToolResult]:
    found = [
        part["functionResponse"]
        for one in body["contents"]
        for part in one["parts"]
        if "functionResponse" in part
    ]
    return [
        ToolResult(
            one["name"], "\n".join(map(str, one["response"].values())), "error" in one["response"]
        )
        for one in found
    ]
