"""Labels through the real ledger: what enters can lower them, and only a person's words raise."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from policy.labels.derive import derive_provenance
from policy.labels.endorsement import Asked
from policy.labels.taint import LabelRule
from policy.model import Basis, Candidate, ChangeKind, Provenance, SourceKind
from proxy.seams.guard import Join
from tests.unit.proxy.ledgers import ADA, Ledger, assistant, call, reply, result, user

if TYPE_CHECKING:
    from proxy.dialects.strict_json.tolerant import Json

# Each says the same wherever it stands: none points back at the one before it.
SENTENCES = (
    "I prefer green tea in the morning.",
    "The harbour office keeps an archive in Rotterdam.",
    "Ada Bryn never eats meat.",
    "Every invoice goes to the quay office.",
    "Bob owns three wooden boats.",
)
TEXTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=3, unique=True).map(" ".join)
VOICES = st.sampled_from(("user", "tool", "model"))
ENTERING = st.lists(st.tuples(VOICES, TEXTS), max_size=4)
RULES = st.sampled_from(LabelRule)


async def _labelled(entering: list[tuple[str, str]], text: str, rule: LabelRule) -> Provenance:
    """The label of a text that a model writes after these entered its context, one by one."""
    ledger = Ledger()
    messages: list[Json] = [user("Good morning.")]
    for number, (voice, said) in enumerate(entering):
        if voice == "user":
            messages.append(user(said))
            continue
        asked = await ledger.ask(*messages)
        if voice == "model":
            await ledger.answer(asked, reply(said))
            messages += [assistant(said), user("Go on.")]
            continue
        fetch = call(f"fetch-{number}", "fetch", url="https://example.org/")
        await ledger.answer(asked, reply("", fetch))
        messages += [assistant("", fetch), result(fetch.call_id, said)]
    asked = await ledger.ask(*messages)
    await ledger.answer(asked, reply("", call("write", text=text)))
    seen = ledger.sessions.seen(
        ADA.principal_id,
        (text,),
        Join(tool_use_id="write"),
        Asked(texts=(text,), sayable=True),
    )
    candidate = Candidate(
        change=ChangeKind.CREATE,
        principal_id=ADA.principal_id,
        tenant=ADA.tenant,
        nonce="n",
        text=text,
    )
    return derive_provenance(ADA, candidate, None, (), seen, rule)


def labelled(entering: list[tuple[str, str]], text: str, rule: LabelRule) -> Provenance:
    return asyncio.run(_labelled(entering, text, rule))


def _stated(text: str) -> set[str]:
    return {sentence for sentence in SENTENCES if sentence in text}


@settings(deadline=None)
@given(ENTERING, TEXTS, RULES, st.sampled_from(("tool", "model")), TEXTS, st.integers(0, 4))
@example(
    [("tool", " ".join(SENTENCES[:3]))],
    SENTENCES[0],
    LabelRule.CONTAINMENT,
    "model",
    " ".join(SENTENCES[:3]),
    0,
)
def test_whatever_else_enters_a_context_never_raises_a_label(
    entering: list[tuple[str, str]], text: str, rule: LabelRule, voice: str, more: str, at: int
) -> None:
    if rule is LabelRule.CONTAINMENT and not any(
        who != "user" and _stated(text) <= _stated(words) for who, words in entering
    ):
        # A text of several is found by its words, and one that many say tells less of any.
        rule = LabelRule.TAINT
    before = labelled(entering, text, rule)
    after = labelled([*entering[:at], (voice, more), *entering[at:]], text, rule)
    assert after.source.trust <= before.source.trust


@settings(deadline=None)
@given(ENTERING, TEXTS, RULES)
@example([("user", f"{SENTENCES[0]} {SENTENCES[2]}")], SENTENCES[2], LabelRule.TAINT)
@example(
    [("tool", SENTENCES[0]), ("user", f"{SENTENCES[0]} {SENTENCES[2]}")],
    f"{SENTENCES[0]} {SENTENCES[2]}",
    LabelRule.TAINT,
)
@example(
    [("user", SENTENCES[0]), ("tool", SENTENCES[0])],
    SENTENCES[0],
    LabelRule.TAINT,
)
def test_endorsed_is_only_a_whole_turn_of_which_nobody_else_said_any_sentence_before(
    entering: list[tuple[str, str]], text: str, rule: LabelRule
) -> None:
    provenance = labelled(entering, text, rule)
    hers: set[str] = set()
    elsewhere: set[str] = set()
    said = False
    for voice, words in entering:
        spoken = _stated(words)
        if voice != "user":
            elsewhere |= spoken - hers
        elif not spoken & elsewhere:
            said = said or words == text
            hers |= spoken
    if provenance.basis is Basis.ENDORSEMENT:
        assert said
    if said:
        assert provenance.source is SourceKind.USER_INPUT
    if rule is LabelRule.TAINT and not said and any(voice == "tool" for voice, _ in entering):
        assert provenance.source.trust <= SourceKind.TOOL_RESULT.trust
