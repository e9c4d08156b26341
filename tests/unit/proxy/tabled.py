"""Tables of a settings file, as a start reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proxy.settings.table import Settings
from proxy.settings.values import value_of


def settings_with(**tables: object) -> Settings:
    places = {"state": Path("/state"), "checkpoint": Path("/checkpoint")}
    return value_of({**places, **tables}, Settings)


def tables_of(name: str, tables: object) -> tuple[Any, ...]:
    found: tuple[Any, ...] = getattr(settings_with(**{name: tables}), name)
    return found
