"""mnemosyne-guard: its bundled policy (fail closed, integrity on read), its SQLite store."""

from __future__ import annotations

import os
import secrets

from mnemosyne import MemoryGateway, MemorySurface, Provenance
from mnemosyne.core.config import Settings
from mnemosyne.store.sqlite import SqliteStore
from serving import Item, Reply, Request, place, serve, unsupported

SURFACES = {
    "L1": MemorySurface.INSTRUCTION,
    "L2": MemorySurface.KNOWLEDGE,
    "L3": MemorySurface.KNOWLEDGE,
    "L4": MemorySurface.EPISODIC,
}
SOURCES = {
    "user_input": Provenance.USER_DIRECT,
    "operator": Provenance.USER_DIRECT,
    "tool_result": Provenance.TOOL_OUTPUT,
    "model_inference": Provenance.AGENT_DERIVED,
    "agent_self_edit": Provenance.AGENT_DERIVED,
}
CHANNELS = {"person": "user_input", "operator": "operator"}


class Drive:
    def __init__(self) -> None:
        self.key = secrets.token_hex(32)
        self.reset({})

    def reset(self, _request: Request) -> Reply:
        self.place = place()
        self.ids: list[tuple[str, MemorySurface]] = []
        self.open()
        return {}

    def open(self) -> None:
        store = SqliteStore(os.path.join(self.place, "memories.db"))  # noqa: PTH118
        settings = Settings(integrity_key=self.key, log_level="CRITICAL")
        self.gateway = MemoryGateway(settings=settings, store=store)

    def restart(self, _request: Request) -> Reply:
        self.open()
        return {}

    def hello(self, _request: Request) -> Reply:
        return {"name": "mnemosyne-guard"}

    def remember(self, request: Request) -> Reply:
        missing = unsupported(request, "nonce", "promotion_token", "derived_from", "id", "target")
        if missing is not None:
            return missing
        said = request.get("source") or CHANNELS.get(request.get("as", "agent"), "")
        surface = SURFACES[request.get("class", "L3")]
        done = self.gateway.guard_write(
            content=request["text"],
            surface=surface,
            provenance=SOURCES.get(said, Provenance.UNKNOWN),
            namespace="other" if request.get("as") == "stranger" else "default",
            writer_id=request.get("as", "agent"),
            metadata=request.get("metadata"),
        )
        if not done.allowed:
            decision = "held" if done.decision.value == "quarantine" else "refused"
            return {"decision": decision, "said": " ".join(done.reasons)}
        self.ids.append((done.record.id, surface))
        return {"decision": "admitted", "id": done.record.id}

    def recall(self, _request: Request) -> Reply:
        items: list[Item] = []
        for record_id, surface in self.ids:
            read = self.gateway.guard_read(
                namespace="default", record_id=record_id, target_surface=surface
            )
            if read.allowed and read.record is not None:
                items.append({"text": f"{read.record.content} {read.record.metadata}"})
        return {"items": items}

    def files(self, _request: Request) -> Reply:
        return {"files": [self.place]}


if __name__ == "__main__":
    drive = Drive()
    names = ("hello", "reset", "restart", "remember", "recall", "files")
    serve({name: getattr(drive, name) for name in names})
