"""Composition of the model front: one upstream per `[[model]]` table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.fronts.model import ModelFront, ModelParts
from proxy.model.sending import Behind

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from proxy.model_settings import ModelUpstream


async def open_model_front(
    upstreams: tuple[ModelUpstream, ...], parts: ModelParts, stack: AsyncExitStack
) -> ModelFront:
    """The front before these upstreams; nothing is sent to any of them before it is asked."""
    behind = {one.name: await Behind.opened(one, stack) for one in upstreams}
    return ModelFront(behind, parts)
