"""cmgl: the strict profile, a guarded backend, structured authority for every write."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from cmgl import (
    ContaminationLane,
    GovernanceLayer,
    GuardedMemoryBackend,
    ProtectedAction,
    authorize_bundle,
    make_declared_scope,
    make_protected_action_request,
)
from cmgl.time import now_utc
from serving import Reply, Request, place, serve, unsupported

SCOPE = "user:demo"
LANES = {
    "user_input": ContaminationLane.USER_CLAIM,
    "operator": ContaminationLane.USER_CLAIM,
    "tool_result": ContaminationLane.TOOL_OBSERVATION,
    "model_inference": ContaminationLane.MODEL_INFERENCE,
    "agent_self_edit": ContaminationLane.MODEL_INFERENCE,
}
CHANNELS = {"person": "user_input", "operator": "operator"}


class Drive:
    def __init__(self) -> None:
        self.reset({})

    def reset(self, _request: Request) -> Reply:
        self.place = Path(place())
        self.open()
        return {}

    def open(self) -> None:
        layer = GovernanceLayer(ledger=self.place / "ledger.jsonl", profile="strict")
        self.guarded = GuardedMemoryBackend(layer=layer, write=self.keep)

    def keep(self, content: object, **_more: object) -> str:
        with (self.place / "memories.jsonl").open("a") as file:
            file.write(json.dumps(content) + "\n")
        return "kept"

    def restart(self, _request: Request) -> Reply:
        self.open()
        return {}

    def hello(self, _request: Request) -> Reply:
        return {"name": "cmgl"}

    def remember(self, request: Request) -> Reply:
        missing = unsupported(
            request, "nonce", "promotion_token", "derived_from", "id", "target", "metadata"
        )
        if missing is not None or request.get("as") == "stranger":
            return missing or {"na": "tenants are the application's"}
        said = request.get("source") or CHANNELS.get(request.get("as", "agent"), "")
        lane = LANES.get(said, ContaminationLane.EXTERNAL_DOC)
        if request.get("class") == "L1":
            lane = ContaminationLane.POLICY_MEMORY
        done = self.guarded.write_memory(
            request["text"], lane=lane, authority_scope=SCOPE, authority_bundle=self.authority()
        )
        if done.decision.value == "admit":
            return {"decision": "admitted"}
        return {"decision": "refused", "said": done.decision.value}

    def authority(self) -> object:
        scope = make_declared_scope(
            actor="agent.local",
            authority_scope=SCOPE,
            permitted_actions=[ProtectedAction.PERSISTENT_MEMORY_WRITE],
            expires_at=now_utc() + timedelta(minutes=10),
        )
        asked = make_protected_action_request(
            action=ProtectedAction.PERSISTENT_MEMORY_WRITE,
            actor="agent.local",
            authority_scope=SCOPE,
            source_record="structured local authority scope",
            declared_scope=scope,
        )
        return authorize_bundle(asked, declared_scope=scope)

    def recall(self, _request: Request) -> Reply:
        kept = self.place / "memories.jsonl"
        lines = kept.read_text().splitlines() if kept.exists() else []
        return {"items": [{"text": str(json.loads(line))} for line in lines]}

    def files(self, _request: Request) -> Reply:
        return {"files": [str(self.place)]}


if __name__ == "__main__":
    drive = Drive()
    names = ("hello", "reset", "restart", "remember", "recall", "files")
    serve({name: getattr(drive, name) for name in names})
