"""A text keeps at most the label of the door it came in by, whoever says it again and however.

One example draws a text, a door, the spellings it is written in there, the place it stands at, and
what becomes of it later: a person types it, at the same key or at another one of the tenant, and a
model writes it down; the memory is served in a later conversation, comes back in some shape, and is
written down there. `MNEMOGATE_DOORS` sets how many examples are drawn, and others are drawn in
each run with `MNEMOGATE_HEAVY=1`:

    MNEMOGATE_DOORS=20000 .venv/bin/pytest -n0 --timeout 0 tests/property/test_one_door.py

The last 20,000 of each of the three, on a busy machine in 52 minutes, found nothing.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from policy.labels.derive import derive_provenance
from policy.labels.taint import LabelRule
from policy.model import Candidate, ChangeKind, SourceKind
from policy.text.readings import readings_of
from policy.text.skeleton import skeleton
from policy.text.stems import is_nobodys
from proxy.ledger.printing import LED_IN_WORDS_MIN
from proxy.seams.guard import Join
from tests.conftest import HEAVY
from tests.unit.proxy.ledger.doors import (
    ASKED,
    DOORS,
    LABELS,
    PLACES,
    READINGS,
    Conversation,
    a_recall,
)
from tests.unit.proxy.ledgers import ADA, GRACE, TOOL, Ledger, call, reply, result, user

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.labels.taint import Seen
    from policy.model import Principal, Provenance
    from proxy.dialects.strict_json.tolerant import Json

# Two thousand examples take minutes.
pytestmark = pytest.mark.timeout(900)

EXAMPLES: Final = int(os.environ.get("MNEMOGATE_DOORS", "2000" if HEAVY else "60"))
_QUIET: Final = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
EVERY_DOOR: Final = {**DOORS, "recall": a_recall}
EVERY_LABEL: Final = {**LABELS, "recall": TOOL}
# How a person comes to type what she was shown.
TYPED: Final[dict[str, Callable[[str], str]]] = {
    "alone": str,
    "without its mark": lambda text: text.rstrip("."),
    "in capitals": str.upper,
    "behind her own words": lambda text: f"Sounds good to me at last. {text}",
    "after a request to remember": lambda text: f"Please remember that {text}",
    "in quotation marks": lambda text: f'"{text}"',
    "in two paragraphs": lambda text: f"Here is what I found.\n\n{text}",
}
# How a memory that was served comes into a conversation.
SHAPES: Final = {
    "system prompt": "You are a helpful assistant.\n\nRelevant memories:\n- {}\n",
    "memory context": "<memory-context>\n- {}\n</memory-context>\n\nSet up my profile.",
    "search answer": '{{"results": ["{}"]}}',
    "turn": "Set up my profile.\n\n{}",
}
_WHO: Final = ("Northwind", "The quay office", "Ada Bryn", "Our landlord", "The clinic", "I")
_DOES: Final = ("settles", "prefers", "arranges", "refuses", "books", "keeps", "signs", "pays")
_WHAT: Final = (
    *("wooden boats", "green tea", "every invoice", "the ferry tickets", "company cards"),
    *("window seats", "paper receipts", "the archive keys", "Friday deliveries"),
)
_WHERE: Final = (
    *("in the harbour of Rotterdam", "at the back entrance", "for the whole household"),
    *("on the first working day", "before the winter market", "with the old cooperative"),
)


@st.composite
def _sentences(draw: st.DrawFn) -> str:
    """A sentence of at least eight words, so that everybody of the tenant is told of it."""
    who, does = draw(st.sampled_from(_WHO)), draw(st.sampled_from(_DOES))
    what, where = draw(st.sampled_from(_WHAT)), draw(st.sampled_from(_WHERE))
    also = draw(st.sampled_from(_WHERE))
    return f"{who} {does} {what} {where} and {also}."


@st.composite
def _short(draw: st.DrawFn) -> str:
    """One of a few words, which only its own principal is told of."""
    who, does = draw(st.sampled_from(_WHO)), draw(st.sampled_from(_DOES))
    return f"{who} {does} {draw(st.sampled_from(_WHAT))}."


_LONG: Final = st.lists(_sentences(), min_size=1, max_size=2, unique=True).map(" ".join)
_TEXTS: Final = st.one_of(_LONG, _short())


class Drawn(NamedTuple):
    """What came in, and how."""

    door: str
    place: str
    spelled: tuple[str, str]
    text: str

    @property
    def shown(self) -> str:
        """The bytes that came in."""
        shown = PLACES[self.place](self.text)
        for one in self.spelled:
            shown = READINGS[one](shown)
        return shown

    @property
    def readable(self) -> bool:
        """Whether withholding would find it there: what it cannot read is no reading."""
        wanted = " ".join(skeleton(self.text).split())
        return any(wanted in " ".join(skeleton(one).split()) for one in readings_of(self.shown))


# First how it is set, then how that is encoded: a page is written before it is sent.
_SET: Final = frozenset(
    {"as it is", "with tags in words", "in a narrow column", "with numbers of lines", "in capitals"}
)
_SPELLED: Final = st.tuples(
    st.sampled_from(sorted(_SET)), st.sampled_from(["as it is", *sorted(READINGS.keys() - _SET)])
)


def _drawn(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Drawn]:
    return st.builds(
        Drawn,
        door=st.sampled_from(sorted(EVERY_DOOR)),
        place=st.sampled_from(sorted(PLACES)),
        spelled=_SPELLED,
        text=texts,
    )


class Ended(NamedTuple):
    """What became of it."""

    turn: SourceKind
    seen: Seen
    written: dict[LabelRule, Provenance]


def _written(seen: Seen, text: str, by: Principal) -> dict[LabelRule, Provenance]:
    candidate = Candidate(
        change=ChangeKind.CREATE,
        principal_id=by.principal_id,
        tenant=by.tenant,
        nonce="n",
        text=text,
    )
    return {rule: derive_provenance(by, candidate, None, (), seen, rule) for rule in LabelRule}


async def _opened(drawn: Drawn, *, door: bool) -> Conversation:
    talk = Conversation(Ledger(), [ASKED])
    await talk.says("Which page do you mean?")
    if door:
        await EVERY_DOOR[drawn.door](talk, drawn.shown)
    return talk


async def _typed(talk: Conversation, drawn: Drawn, way: str, by: Principal) -> Ended:
    """Somebody at this key types it, and the model writes it down."""
    messages: list[Json] = [*talk.messages] if by is ADA else []
    messages.append(user(TYPED[way](drawn.text)))
    entered = await talk.ledger.ask(*messages, by=by)
    await talk.ledger.answer(entered, reply("", call("w9", text=drawn.text)), by=by)
    seen = talk.ledger.seen(drawn.text, join=Join(tool_use_id="w9"), by=by)
    return Ended(entered.turns[-1].label, seen, _written(seen, drawn.text, by))


async def _noted(talk: Conversation, drawn: Drawn) -> dict[LabelRule, Provenance]:
    """The model writes it down, and nobody types anything."""
    call_id = await talk.calls("remember", text=drawn.text)
    return _written(talk.ledger.seen(drawn.text, join=Join(tool_use_id=call_id)), drawn.text, ADA)


async def _recalled(drawn: Drawn, stored: Provenance, shape: str, by: Principal) -> Ended:
    """A later conversation, of which the ledger knows no more than the memory that it is served."""
    ledger = Ledger()
    ledger.recall("m" * 32, drawn.text, stored.source, stored.ceiling)
    shown = SHAPES[shape].format(drawn.text)
    prompt = shown if shape == "system prompt" else ""
    messages: list[Json] = [user("Set up my profile.")]
    if shape == "search answer":
        talk = Conversation(ledger, messages)
        call_id = await talk.calls("search_memory", query="profile")
        messages.append(result(call_id, shown))
    elif not prompt:
        messages = [user(shown)]
    if by is GRACE:
        messages = [user(shown)]
        prompt = ""
    entered = await ledger.ask(*messages, by=by, system=prompt)
    await ledger.answer(entered, reply("", call("w9", text=drawn.text)), by=by)
    seen = ledger.seen(drawn.text, join=Join(tool_use_id="w9"), by=by)
    return Ended(entered.taint, seen, _written(seen, drawn.text, by))


def _not_above(ended: Ended, most: SourceKind) -> None:
    assert ended.turn.trust <= most.trust
    assert not ended.seen.endorsed
    _no_label_above(ended.written, most)


def _no_label_above(written: dict[LabelRule, Provenance], most: SourceKind) -> None:
    for rule, label in written.items():
        assert label.source.trust <= most.trust, rule
        assert label.ceiling.trust <= most.trust, rule


def _possible(drawn: Drawn) -> SourceKind:
    assume(not is_nobodys(drawn.text))
    assume(drawn.readable)
    return EVERY_LABEL[drawn.door]


@_QUIET
@given(_drawn(_TEXTS), st.sampled_from(sorted(TYPED)))
def test_typed_at_the_same_key_it_is_no_better_than_its_door(drawn: Drawn, way: str) -> None:
    most = _possible(drawn)

    async def life() -> None:
        ended = await _typed(await _opened(drawn, door=True), drawn, way, ADA)
        short = drawn.text.count(" ") < LED_IN_WORDS_MIN
        if not short or way != "after a request to remember":
            _not_above(ended, most)
            return
        # A few words that she leads in are no label of her whole turn: what is made of them has
        # one, but where a memory was served that stands nowhere in her conversation.
        assert not ended.seen.endorsed
        if drawn.door != "recall":
            _no_label_above(ended.written, most)

    asyncio.run(life())


@_QUIET
@given(_drawn(_LONG), st.sampled_from(sorted(TYPED)))
def test_typed_at_another_key_it_is_no_better_than_its_door(drawn: Drawn, way: str) -> None:
    most = _possible(drawn)

    async def life() -> None:
        _not_above(await _typed(await _opened(drawn, door=True), drawn, way, GRACE), most)

    asyncio.run(life())


@_QUIET
@given(_drawn(_LONG), st.sampled_from(sorted(SHAPES)), st.sampled_from((ADA, GRACE)))
def test_written_down_and_recalled_later_it_is_no_better_than_its_door(
    drawn: Drawn, shape: str, by: Principal
) -> None:
    most = _possible(drawn)
    assume(drawn.door != "recall")  # what is served enters by a shape, or not at all

    async def life() -> None:
        written = await _noted(await _opened(drawn, door=True), drawn)
        _no_label_above(written, most)
        for stored in written.values():
            _not_above(await _recalled(drawn, stored, shape, by), most)

    asyncio.run(life())


@settings(_QUIET, max_examples=60)
@given(_drawn(_LONG), st.sampled_from((ADA, GRACE)))
def test_control_without_its_door_it_is_hers(drawn: Drawn, by: Principal) -> None:
    async def life() -> None:
        ended = await _typed(await _opened(drawn, door=False), drawn, "alone", by)
        assert ended.turn is SourceKind.USER_INPUT
        assert ended.seen.endorsed
        assert {label.source for label in ended.written.values()} == {SourceKind.USER_INPUT}

    asyncio.run(life())


def test_control_a_ceiling_that_says_nothing_lets_a_recall_climb() -> None:
    """Without the second label, a paraphrase of a page would be a model's own words from then."""
    plain = ("as it is", "as it is")
    drawn = Drawn("result", "alone", plain, "Northwind settles every invoice by card.")

    async def life() -> None:
        (stored, *_) = (await _noted(await _opened(drawn, door=True), drawn)).values()
        own = SourceKind.MODEL_INFERENCE
        raised = msgspec.structs.replace(stored, source=own, ceiling=own)
        ended = await _recalled(drawn, raised, "memory context", ADA)
        assert ended.turn.trust > EVERY_LABEL[drawn.door].trust

    asyncio.run(life())
