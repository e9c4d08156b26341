"""agent-memory-guard: `Policy.strict()`, its default detectors, its own in-memory store."""

from __future__ import annotations

from agent_memory_guard import Action, MemoryGuard, Policy, PolicyViolation, SourceClass
from serving import Reply, Request, serve, unsupported

SPACES = {"L1": "system.policy", "L2": "preferences", "L3": "facts", "L4": "scratch"}
SOURCES = {
    "user_input": SourceClass.USER_INPUT,
    "tool_result": SourceClass.EXTERNAL_TOOL,
    "model_inference": SourceClass.AGENT_AUTHORED,
    "agent_self_edit": SourceClass.AGENT_AUTHORED,
    "operator": SourceClass.SYSTEM,
}
CHANNELS = {"person": "user_input", "operator": "operator"}


class Drive:
    def __init__(self) -> None:
        self.reset({})

    def reset(self, _request: Request) -> Reply:
        self.guard = MemoryGuard(policy=Policy.strict())
        self.keys: list[str] = []
        return {}

    def hello(self, _request: Request) -> Reply:
        return {"name": "agent-memory-guard"}

    def remember(self, request: Request) -> Reply:
        missing = unsupported(request, "nonce", "promotion_token", "derived_from")
        if missing is not None or request.get("as") == "stranger":
            return missing or {"na": "it has no tenants"}
        space = SPACES[request.get("class", "L3")]
        key = request.get("id") or f"{space}.note{len(self.keys)}"
        said = request.get("source") or CHANNELS.get(request.get("as", "agent"), "")
        value = request["text"]
        if request.get("metadata") or request.get("target"):
            value = {
                "text": value,
                "metadata": request.get("metadata"),
                "in": request.get("target"),
            }
        try:
            action = self.guard.write(
                key, value, source_class=SOURCES.get(said, SourceClass.UNKNOWN)
            )
        except PolicyViolation as refused:
            return {"decision": "refused", "said": str(refused)}
        if action is Action.QUARANTINE:
            return {"decision": "held"}
        self.keys.append(key)
        return {"decision": "admitted", "id": key}

    def recall(self, _request: Request) -> Reply:
        shown = [self.guard.read(key) for key in dict.fromkeys(self.keys)]
        return {"items": [{"text": str(one)} for one in shown if one is not None]}

    def delete(self, request: Request) -> Reply:
        try:
            self.guard.delete(request["id"])
        except PolicyViolation as refused:
            return {"decision": "refused", "said": str(refused)}
        return {"decision": "admitted"}

    def files(self, _request: Request) -> Reply:
        return {"na": "its own store is in memory"}


if __name__ == "__main__":
    drive = Drive()
    names = ("hello", "reset", "remember", "recall", "delete", "files")
    serve({name: getattr(drive, name) for name in names})
