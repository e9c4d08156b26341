"""Maps incidents of wrong answers to Detection Findings of OCSF. Pure.

The fields are a closed list, and none of them contains content. Source: Open Cybersecurity Schema
Framework 1.5, class 2004; the technique is one of MITRE ATLAS.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.after.closure import CaseStep
from storage.audit import IncidentLeaf

SCHEMA_VERSION: Final = "1.5.0"
CLASS_UID: Final = 2004
CATEGORY_UID: Final = 2
_CREATE, _UPDATE, _CLOSE = 1, 2, 3
_NEW, _IN_PROGRESS, _RESOLVED = 1, 2, 4
_INFORMATIONAL, _MEDIUM, _HIGH = 1, 3, 4
_ENDED: Final = frozenset(
    {CaseStep.HEALED, CaseStep.CLOSED, CaseStep.NOT_REPRODUCED, CaseStep.NOT_MEMORY_CAUSED}
)
_NOBODY: Final = frozenset({CaseStep.NOT_REPRODUCED, CaseStep.NOT_MEMORY_CAUSED})


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """The program that made the finding."""

    name: str = "Mnemogate"
    vendor_name: str = "Mnemogate"


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The finding's id and product; `uid` is the same each time the finding is reported."""

    uid: str
    version: str = SCHEMA_VERSION
    product: Product = Product()


class Technique(msgspec.Struct, frozen=True, kw_only=True):
    """The technique of an attack, with its number in MITRE ATLAS."""

    uid: str = "AML.T0080"
    name: str = "AI Agent Context Poisoning"


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """The attack that a finding is about, as a technique of MITRE ATLAS."""

    technique: Technique = Technique()


class FindingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The incident that the finding is about: its id, and the signal (`types`) that opened it."""

    uid: str
    title: str = "A stored memory may have made an answer wrong"
    types: tuple[str, ...]
    created_time: int | msgspec.UnsetType = msgspec.UNSET
    attacks: tuple[Attack, ...] = (Attack(),)


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that an incident names, by the id that incidents use."""

    uid: str
    type: str = "memory"
    labels: tuple[str, ...]


class Unmapped(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of an incident that the schema has no place for; counts cover the incident so far."""

    state: str
    mode: str
    why: str
    suspects: int
    asks: int
    culprits: int
    by: str


class DetectionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an incident, or an incident at its current step. `time`: Unix milliseconds."""

    activity_id: int
    category_uid: int = CATEGORY_UID
    class_uid: int = CLASS_UID
    type_uid: int
    severity_id: int
    status_id: int
    time: int
    metadata: Metadata
    finding_info: FindingInfo
    resources: tuple[Resource, ...] | msgspec.UnsetType = msgspec.UNSET
    unmapped: Unmapped


def finding_of(leaf: IncidentLeaf) -> DetectionFinding:
    """The finding about the step of an incident that a leaf records."""
    return finding(
        incident_id=leaf.case_id,
        step=leaf.step,
        signal=leaf.signal.value,
        at_ms=leaf.at_ms,
        unmapped=Unmapped(
            state=leaf.step.value,
            mode="" if leaf.mode is None else leaf.mode.value,
            why=leaf.why or "",
            suspects=leaf.suspects,
            asks=leaf.asks,
            culprits=leaf.culprits,
            by=leaf.by,
        ),
    )


def finding(
    *,
    incident_id: str,
    step: CaseStep,
    signal: str,
    at_ms: int,
    unmapped: Unmapped,
    opened_at_ms: int | None = None,
    resources: tuple[Resource, ...] | None = None,
) -> DetectionFinding:
    """The finding about an incident at one step; an argument that is None is left out of it."""
    activity_id = _CREATE if step is CaseStep.OPENED else _CLOSE if step in _ENDED else _UPDATE
    severity_id = _HIGH if step is CaseStep.NEEDS_PERSON else _MEDIUM
    return DetectionFinding(
        activity_id=activity_id,
        type_uid=CLASS_UID * 100 + activity_id,
        severity_id=_INFORMATIONAL if step in _NOBODY else severity_id,
        status_id={_CREATE: _NEW, _UPDATE: _IN_PROGRESS, _CLOSE: _RESOLVED}[activity_id],
        time=at_ms,
        metadata=Metadata(uid=f"{incident_id}-{step.value}"),
        finding_info=FindingInfo(
            uid=incident_id,
            types=(signal,),
            created_time=msgspec.UNSET if opened_at_ms is None else opened_at_ms,
        ),
        resources=msgspec.UNSET if resources is None else resources,
        unmapped=unmapped,
    )
