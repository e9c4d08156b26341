"""The search for a text in every byte, as the evaluation ships it."""

from __future__ import annotations

from tests.evaluate.canary import disguises, new_canary, traces, traces_in

__all__ = ["disguises", "new_canary", "traces", "traces_in"]
