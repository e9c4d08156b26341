"""What reading a turn takes and gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policy.model import SourceKind, meet

if TYPE_CHECKING:
    from policy.labels.endorsement import UserTurns
    from policy.model import Origin
    from proxy.ledger.records import Entry, Row
    from proxy.ledger.ring import Ring
    from proxy.ledger.state import Book, SessionState


class LabelledSpan(NamedTuple):
    """A part of one string, and the label of whoever is accountable for it."""

    start: int
    end: int
    label: SourceKind
    # Whether it stands in the turn of a person, whoever said it first.
    typed: bool = False


class TurnRead(NamedTuple):
    """A turn as it was read: its lowest label, and the spans of each of its strings, in order."""

    label: SourceKind
    spans: tuple[tuple[LabelledSpan, ...], ...]


class TurnGround(NamedTuple):
    """What a turn is read against."""

    book: Book
    session: SessionState
    ring: Ring
    digest: int
    root: int
    now_ms: int
    # The most that a user turn of this conversation can be, and whether history before it is lost.
    most: SourceKind
    lost: bool
    # What a summary of an earlier context inherits.
    inherited: SourceKind
    # Whether the conversation goes on by now: the agent's program speaks between the turns.
    begun: bool = False
    user_turns: UserTurns | None = None
    # Whether it is a conversation that a model began: no person has a turn in it.
    by_model: bool = False
    # Whether a text of its program has to be known by now: it is not the first one.
    settled: bool = False
    # The name of the model that is asked.
    model: str = ""
    # Calls that the conversation went on without: nobody waits for their results any more.
    given_up: tuple[int, ...] = ()


class Text(NamedTuple):
    """A text to be searched later for what was made of it."""

    text: str
    origin: Origin
    # What the model said is no source by itself; what it was made of is.
    by_model: bool = False
    # Nobody here can read it, so nothing can be found in it.
    sealed: bool = False


class Told(NamedTuple):
    """Prints of what somebody said; `long` is told to everybody of the tenant, the rest to one."""

    short: tuple[int, ...]
    long: tuple[int, ...] = ()


class Read(NamedTuple):
    """A turn that was read."""

    entry: Entry
    read: TurnRead
    texts: tuple[Text, ...]


class TurnSum:
    """What one turn adds up to."""

    def __init__(self, speaker: str = "") -> None:
        self.speaker = speaker
        self.rows: list[Row] = []
        self.typed: list[str] = []
        # Whether any of what was typed is part of a longer text, or came from elsewhere.
        self.mixed = False
        self.own: list[int] = []
        self.host: list[int] = []
        self.foreign: dict[int, list[int]] = {}
        self.shared: dict[int, list[int]] = {}
        self.answers: list[int] = []
        self.texts: list[Text] = []
        self.spans: list[tuple[LabelledSpan, ...]] = []
        self.lowest = SourceKind.OPERATOR

    def row(self, row: Row) -> None:
        """One more row of what entered."""
        self.rows.append(row)
        self.lowest = meet(self.lowest, row.label)

    def heard(self, told: Told, label: SourceKind) -> None:
        """What others said, of whom nobody has more trust than that."""
        self.foreign.setdefault(label.trust, []).extend(told.short)
        self.shared.setdefault(label.trust, []).extend(told.long)
