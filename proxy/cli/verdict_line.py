"""Words a verdict in one line for a person; `run` and `log` print such lines. Without content."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from policy.verdict import Reason
from proxy.cli.terminal import inert
from proxy.seams.observations import WHY
from telemetry import vocabulary
from telemetry.events import Event, VerdictRecorded
from telemetry.logs import Field, event_name, fields_of, level_of

_NAME_LEN: Final = 40
ID_SHOWN: Final = 8
DECISIONS: Final = {"admit": "stored", "hold": "held", "reject": "refused", "error": "failed"}
_WOULD: Final = {"hold": "would wait", "reject": "would be refused"}
"""What an enforcing gate would have done, by its decision."""
_CHANGES: Final = {"update_memory": "update", "delete_memory": "delete"}
_CODES: Final = {one.value: WHY[one] for one in Reason}
# The fields of other events that are printed, in this order.
_PRINTED: Final = (
    *("method", "route", "provider", "operation", "incident_id", "signal", "step", "why"),
    *("status", "error_type"),
)


class VerdictLine(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a line about one verdict; names may be an attacker's."""

    at: str
    decision: str
    reason: str  # "" if there is none
    memory_class: str  # "" for a tool call that was not judged
    change: str  # "" for a new memory
    principal: str
    # The tool, and the host or server, that the text came from; "" if unknown.
    tool: str
    resource: str = ""
    candidate_id: str
    # If observe mode admitted the text: the decision of an enforcing gate.
    observed: str = ""

    def __str__(self) -> str:
        """The line, in which no name can add a row, move the cursor or change the direction."""
        names = [self.tool, self.resource] if self.tool or self.resource else [self.principal]
        source = " ".join(_short(one) for one in names if one)
        word = DECISIONS.get(self.decision, self.decision)
        what = " ".join(filter(None, (self.memory_class, self.change, "from", source)))
        parts = [f"{self.at} {word:<8} {what}"]
        if self.observed:
            parts.append(_WOULD.get(self.observed, self.observed))
        if self.reason:
            parts.append(f'"{_CODES.get(self.reason, self.reason)}"')
        verb = {"hold": "review show", "reject": "trace"}.get(self.decision)
        if verb is not None and self.candidate_id:
            parts.append(f"{verb} {self.candidate_id[:ID_SHOWN]}")
        return " · ".join(parts)


def clock(at_s: float) -> str:
    """A Unix time as the local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def _short(name: str) -> str:
    return inert(name if len(name) <= _NAME_LEN else name[: _NAME_LEN - 1] + "…")


class PersonLines:
    """The wording of log lines for a person: a line for each verdict, and for what goes wrong."""

    def of_event(self, event: Event) -> str:
        """The line about a verdict, or about another event that is at least a warning."""
        at = clock(event.ended_ns / 1e9)
        if isinstance(event, VerdictRecorded):
            line = VerdictLine(
                at=at,
                decision=vocabulary.known(event.decision, vocabulary.DECISIONS),
                reason=event.reason and vocabulary.known(event.reason, vocabulary.REASONS),
                memory_class=event.memory_class
                and vocabulary.known(event.memory_class, vocabulary.MEMORY_CLASSES),
                change=_CHANGES.get(event.operation, ""),
                principal=event.principal,
                tool=event.culprit_tool,
                resource=event.culprit_resource or event.culprit_server,
                candidate_id=event.candidate_id and vocabulary.hex_id(event.candidate_id),
                observed=event.observed and vocabulary.known(event.observed, frozenset(_WOULD)),
            )
            return (
                f"{line} · {vocabulary.name(event.error_type)}" if event.error_type else str(line)
            )
        if level_of(event) < logging.WARNING:
            return ""
        fields = fields_of(event)
        told = " ".join(inert(str(fields[one])) for one in _PRINTED if fields.get(one))
        return f"{at} warning  {event_name(event)} {told}"

    def of_record(self, at_s: float, fields: Mapping[str, Field]) -> str:
        """The line about a log record: its level, its message, and its fields."""
        level, event = fields["level"], fields["event"]
        more = ", ".join(f"{name} {inert(str(value))}" for name, value in tuple(fields.items())[4:])
        return f"{clock(at_s)} {level:<8} {event}{f' · {more}' if more else ''}"
