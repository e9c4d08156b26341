"""memward: quarantine on, its JSON file store, and recall in the privileged (gated) mode."""

from __future__ import annotations

import os

from memward import Memward, SourceType
from memward.adapters.json_file import JsonFileStore
from serving import Reply, Request, place, serve, unsupported

SOURCES = {
    "user_input": SourceType.USER,
    "operator": SourceType.USER,
    "tool_result": SourceType.TOOL_OUTPUT,
    "model_inference": SourceType.AGENT_REFLECTION,
    "agent_self_edit": SourceType.AGENT_REFLECTION,
}
CHANNELS = {"person": "user_input", "operator": "operator"}


class Drive:
    def __init__(self) -> None:
        self.reset({})

    def reset(self, _request: Request) -> Reply:
        self.place = place()
        self.open()
        return {}

    def open(self) -> None:
        self.memory = Memward(JsonFileStore(os.path.join(self.place, "memories.json")))  # noqa: PTH118

    def restart(self, _request: Request) -> Reply:
        self.open()
        return {}

    def hello(self, _request: Request) -> Reply:
        return {"name": "memward"}

    def remember(self, request: Request) -> Reply:
        missing = unsupported(request, "nonce", "promotion_token", "id", "target")
        if missing is not None or request.get("as") == "stranger":
            return missing or {"na": "it has no tenants"}
        said = request.get("source") or CHANNELS.get(request.get("as", "agent"), "")
        done = self.memory.add(
            request["text"],
            source=SOURCES.get(said, SourceType.UNKNOWN),
            metadata=request.get("metadata"),
            derived_from=request.get("derived_from"),
        )
        return {"decision": "held" if done.quarantined else "admitted", "id": done.record.id}

    def recall(self, request: Request) -> Reply:
        hits = self.memory.search(request["query"], k=100, privileged=True)
        return {"items": [{"text": f"{hit.record.content} {hit.record.metadata}"} for hit in hits]}

    def purge(self, request: Request) -> Reply:
        self.memory.rollback(request["id"])
        return {"decision": "admitted"}

    def files(self, _request: Request) -> Reply:
        return {"files": [self.place]}


if __name__ == "__main__":
    drive = Drive()
    names = ("hello", "reset", "restart", "remember", "recall", "purge", "files")
    serve({name: getattr(drive, name) for name in names})
