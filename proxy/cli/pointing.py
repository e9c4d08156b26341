"""How an agent is pointed at what the sidecar serves; `mnemogate run` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.settings.model import Api

if TYPE_CHECKING:
    from proxy.settings.model import ModelUpstream


def pointed(model: ModelUpstream, data: str, key: str) -> str:
    """How an agent is pointed at a model API; without a credential of ours it keeps its own."""
    url = f"{data}/{model.name}"
    if model.api is Api.ANTHROPIC:
        given = f"ANTHROPIC_BASE_URL={url}"
        if model.headers:
            return f"{given} ANTHROPIC_API_KEY={key}"
        return f"{given} ANTHROPIC_CUSTOM_HEADERS='Mnemogate-Key: {key}'"
    given = f"OPENAI_BASE_URL={url}/v1"
    if model.headers:
        return f"{given} OPENAI_API_KEY={key}"
    return f"{given} and the header `Mnemogate-Key: {key}` beside the agent's own OPENAI_API_KEY"
