"""The dialects that are served, and a check that no model API has one of their paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from policy.ruleset import ClassMap, Ruleset
from proxy.admin.rules_in_force import MEM0
from proxy.dialects.langgraph import LangGraphStore
from proxy.dialects.mem0 import Mem0Oss, Mem0Platform
from proxy.dialects.native.dialect import Native
from proxy.seams.operation import Dialect
from proxy.settings.model import ModelUpstream
from proxy.settings.table import SettingsError


def dialects_of(rules: Callable[[], Ruleset]) -> tuple[Dialect, ...]:
    """Every dialect that is served; the first one that claims a request answers it.

    `rules` returns the rules in force, which map types of Mem0's APIs to memory classes.
    """

    def classes() -> ClassMap:
        return rules().classes[MEM0]

    return (Native(), Mem0Platform(classes), Mem0Oss(classes), LangGraphStore())


def unhidden(dialects: tuple[Dialect, ...], models: Iterable[ModelUpstream]) -> tuple[Dialect, ...]:
    """The same dialects, after a check that no model API hides one of their paths.

    Raises:
        SettingsError: A model API has a dialect's path segment; model APIs are matched first.
    """
    taken = {segment: dialect.name for dialect in dialects for segment in dialect.segments}
    for model in models:
        if model.name in taken:
            raise SettingsError(
                f"model: name {model.name!r}: the dialect {taken[model.name]} is served below it"
            )
    return dialects
