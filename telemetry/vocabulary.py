"""The permitted forms of a string in a span, a label or a log line.

The event structs have no field for content, but their fields are strings, and a caller's mistake or
a peer's header could put anything into a string. So every value is checked here before it is
written: against a closed list or a fixed form where there is one; otherwise it is made short and
printable.
"""

from __future__ import annotations

import re
from typing import Final

from policy.model import Basis, MemoryClass, SourceKind
from policy.verdict import Reason

PRINTABLE_LEN_MAX: Final = 256
OTHER: Final = "other"
NONE: Final = "none"

DECISIONS: Final = frozenset({"admit", "hold", "reject", "error"})
REASONS: Final = frozenset(reason.value for reason in Reason)
MEMORY_CLASSES: Final = frozenset(memory_class.value for memory_class in MemoryClass)
SOURCE_KINDS: Final = frozenset(kind.value for kind in SourceKind)
BASES: Final = frozenset(basis.value for basis in Basis)
OUTCOMES: Final = frozenset({"passed", "failed", "not_reached"})
LISTENERS: Final = frozenset({"data", "admin", "health", "guard"})
TRUST_LEVELS: Final = frozenset({"trusted", "degraded", "untrusted"})
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
WRITE_OPERATIONS: Final = frozenset(
    {"create_memory", "update_memory", "delete_memory", "upsert_memory", "purge_memory"}
)
READ_OPERATIONS: Final = frozenset(
    {
        "search_memory",
        "get_memory",
        "list_memories",
        "get_history",
        "export_memories",
        "list_entities",
    }
)

PROVIDERS: Final = frozenset({"anthropic", "gemini", "openai"})
MODEL_APIS: Final = frozenset({"anthropic", "chat", "gemini", "responses"})
INCIDENT_SIGNALS: Final = frozenset({"operator", "person", "anchor", "canary", "judge"})
INCIDENT_STEPS: Final = frozenset(
    {
        "opened",
        "reproduced",
        "not_reproduced",
        "not_memory_caused",
        "convicted",
        "needs_person",
        "healed",
        "closed",
    }
)
INCIDENT_MODES: Final = frozenset({"retrieval", "judge", "model"})
INCIDENT_REASONS: Final = frozenset(
    {
        "anchor",
        "blast",
        "budget",
        "fault",
        "incomplete",
        "label",
        "no_judge",
        "nothing_kept",
        "proposed",
        "request_gone",
        "restarted",
        "rounds",
        "still_wrong",
        "tokens",
        "trusted_memory",
        "undecided",
        "unknown",
    }
)
ASK_OUTCOMES: Final = frozenset({"fails", "passes", "unknown"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9_.:/@\-]{1,64}", re.ASCII)
_SERVED: Final = range(200, 300)
_CALL_ID = re.compile(r"[A-Za-z0-9_.:\-]{1,64}", re.ASCII)
_HEX_ID = re.compile(r"[0-9a-f\-]{1,64}", re.ASCII | re.IGNORECASE)


def known(value: str, vocabulary: frozenset[str]) -> str:
    """`value` if it is in the closed list `vocabulary`; "none" if it is empty, else "other"."""
    if value in vocabulary:
        return value
    return OTHER if value else NONE


def name(value: str) -> str:
    """`value` if it has the form of a name in code (step, dialect, exception class), or "other"."""
    return value if _NAME.fullmatch(value) else OTHER


def call_id(value: str) -> str:
    """`value` if it has the form of hosts' ids of tool calls, else "other"."""
    return value if _CALL_ID.fullmatch(value) else OTHER


def model_name(value: str, status: int) -> str:
    """`value` if it has the form of a model's name, and its provider served the request.

    Else "other": an agent may write any text as the name, such as a refused one, but no provider
    serves a model of that name.
    """
    return value if status in _SERVED and _MODEL.fullmatch(value) else OTHER


def hex_id(value: str) -> str:
    """`value` if it consists of hex digits and dashes, as the sidecar's ids do, else "other".

    A client that chooses its own memory ids could spell content in one.
    """
    return value if _HEX_ID.fullmatch(value) else OTHER


def printable(value: str) -> str:
    """The value in a form that is safe for terminals and encoders, of 256 characters at most.

    Control, format (bidi, tag), surrogate and unassigned characters become escapes; a value that
    was cut ends in an ellipsis.
    """
    if len(value) <= PRINTABLE_LEN_MAX and value.isprintable():
        return value
    shown = "".join(
        character if character.isprintable() else _escaped(character)
        for character in value[: PRINTABLE_LEN_MAX + 1]
    )
    if len(value) <= PRINTABLE_LEN_MAX and len(shown) <= PRINTABLE_LEN_MAX:
        return shown
    return shown[: PRINTABLE_LEN_MAX - 1] + "…"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - end of BMP
