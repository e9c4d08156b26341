"""The values that go into reading one turn of a conversation, and those that come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policy.model import SourceKind, meet

if TYPE_CHECKING:
    from policy.labels.who_writes import UserTurns
    from policy.model import MemoryId, Origin
    from proxy.ledger.records import Entry, Row
    from proxy.ledger.ring import Ring
    from proxy.ledger.state import Book, SessionState


class LabelledSpan(NamedTuple):
    """A part of one string, and its label."""

    start: int
    end: int
    label: SourceKind
    # Whether the part stands in a person's turn, whoever said it first.
    typed: bool = False


class RecalledSpan(NamedTuple):
    """A part of one string of a turn in which a memory stands that was served before."""

    said: int  # the place of the string among the turn's strings
    start: int
    end: int
    memory_id: MemoryId


class TurnRead(NamedTuple):
    """A turn after reading: its lowest label, and the spans of each of its strings, in order."""

    label: SourceKind
    spans: tuple[tuple[LabelledSpan, ...], ...]
    # The served memories that stand in the turn.
    recalled: tuple[RecalledSpan, ...] = ()
    # Whether a person types these turns, and this turn counts as the person's own words for
    # endorsement.
    by_person: bool = False


class TurnGround(NamedTuple):
    """What has to be known of a conversation before one of its turns can be read."""

    book: Book
    session: SessionState
    ring: Ring
    digest: int
    root: int
    now_ms: int
    # The highest label for a user turn of this conversation, and whether earlier history is lost.
    most: SourceKind
    lost: bool
    # The label that a summary of an earlier context has.
    inherited: SourceKind
    # Whether the conversation is under way, so that the agent's program may add text between the
    # turns.
    begun: bool = False
    user_turns: UserTurns | None = None
    # Whether a model began this conversation, so that no person has a turn in it.
    by_model: bool = False
    # Whether the text of the agent's program must be known already, because it is not the first
    # such text.
    settled: bool = False
    # The name of the model that the request is for.
    model: str = ""
    # Calls that got no result although the conversation went on, so that no result is expected.
    given_up: tuple[int, ...] = ()


class Text(NamedTuple):
    """A text to be indexed, so that later copies of it are found."""

    text: str
    origin: Origin
    # Whether these are a model's own words: they are no source, but the texts they were made of
    # are.
    by_model: bool = False
    # Whether the content cannot be read here, so that nothing can be found in it.
    sealed: bool = False


class Told(NamedTuple):
    """Fingerprints of one speaker's words; the tenant is told of the `long` ones only."""

    short: tuple[int, ...]
    long: tuple[int, ...] = ()


class Read(NamedTuple):
    """What the ledger keeps of a turn that was read."""

    entry: Entry
    read: TurnRead
    texts: tuple[Text, ...]


class TurnSum:
    """The summary of one turn, built up while the turn is read."""

    def __init__(self, speaker: str = "") -> None:
        self.speaker = speaker
        self.rows: list[Row] = []
        self.typed: list[str] = []
        # Whether some typed text is part of a longer text of others, or came from another speaker.
        self.mixed = False
        self.own: list[int] = []
        self.host: list[int] = []
        self.foreign: dict[int, list[int]] = {}
        self.shared: dict[int, list[int]] = {}
        self.answers: list[int] = []
        # The calls, by their ids, that the gate itself answered.
        self.by_gate: set[str | None] = set()
        self.texts: list[Text] = []
        self.spans: list[tuple[LabelledSpan, ...]] = []
        self.recalled: dict[RecalledSpan, None] = {}
        self.lowest = SourceKind.OPERATOR

    def row(self, row: Row) -> None:
        """Add one segment to the list that an operator is shown."""
        self.rows.append(row)
        self.lowest = meet(self.lowest, row.label)

    def heard(self, told: Told, label: SourceKind) -> None:
        """Note the words of somebody else, under the highest label that they may have."""
        self.foreign.setdefault(label.trust, []).extend(told.short)
        self.shared.setdefault(label.trust, []).extend(told.long)
