"""Filters over memories, as a small closed tree; dialects build it, stores evaluate it."""

from __future__ import annotations

import enum

import msgspec

FILTER_DEPTH_MAX = 8
FILTER_NODES_MAX = 64


class Field(enum.Enum):
    """What a filter may look at. `METADATA` compares one top-level key of the client's metadata."""

    USER_ID = "user_id"
    AGENT_ID = "agent_id"
    RUN_ID = "run_id"
    APP_ID = "app_id"
    TARGET = "target"
    MEMORY_ID = "memory_id"
    MEMORY_CLASS = "memory_class"
    SOURCE = "source"
    CREATED_AT_MS = "created_at_ms"
    UPDATED_AT_MS = "updated_at_ms"
    TEXT = "text"
    METADATA = "metadata"


class Compare(enum.Enum):
    """Comparisons a leaf of the tree can make."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    CONTAINS = "contains"
    ICONTAINS = "icontains"
    PRESENT = "present"  # any value at all (Mem0's "*")


Scalar = str | int | float | bool | None


class Test(msgspec.Struct, frozen=True, kw_only=True, tag="test"):
    """One comparison. `values` holds one scalar, or several for `Compare.IN`."""

    field: Field
    compare: Compare
    values: tuple[Scalar, ...] = ()
    key: str | None = None  # the metadata key, for `Field.METADATA`


class AllOf(msgspec.Struct, frozen=True, kw_only=True, tag="all"):
    """Every part matches; with no parts, everything does."""

    parts: tuple[Filter, ...]


class AnyOf(msgspec.Struct, frozen=True, kw_only=True, tag="any"):
    """At least one part matches; with no parts, nothing does."""

    parts: tuple[Filter, ...]


class Not(msgspec.Struct, frozen=True, kw_only=True, tag="not"):
    """The part does not match."""

    part: Filter


Filter = Test | AllOf | AnyOf | Not

EVERYTHING = AllOf(parts=())
