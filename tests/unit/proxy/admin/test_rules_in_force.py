"""Other rules while the sidecar runs: only good ones, and nobody judged by half of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from policy.model import PrincipalId
from policy.verdict import Reason
from proxy.admin.rules_in_force import Rules, parse_rules
from proxy.seams.faults import RulesetRefused
from proxy.settings.table import SettingsError
from storage.audit import Leaf, OperatorLeaf, VerdictLeaf, decode_leaf
from storage.embedded import EmbeddedStore
from tests.unit.storage.opening import RULESET_TEXT, Bench, candidate_of, submission_of

BY: Final = PrincipalId("operator-1")
STRICTER: Final = RULESET_TEXT.replace(
    'unknown         = { L1 = "refuse", L2 = "refuse",  L3 = "checked"',
    'unknown         = { L1 = "refuse", L2 = "refuse",   L3 = "refuse"',
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    opened = Bench(tmp_path).open()
    yield opened
    opened.close()


def rules_of(store: EmbeddedStore, read: Callable[[], str]) -> Rules:
    return Rules(
        RULESET_TEXT,
        read=read,
        writer=store.writer,
        in_force=lambda: store.ruleset,
        settle_s=0,
    )


def leaves(store: EmbeddedStore) -> list[Leaf]:
    return [decode_leaf(data) for data in store.audit.leaves(0, 10_000)]


def test_the_stricter_text_differs() -> None:
    assert STRICTER != RULESET_TEXT


async def test_a_write_is_judged_under_each_epoch_and_the_leaf_has_the_digest(
    store: EmbeddedStore,
) -> None:
    rules = rules_of(store, lambda: STRICTER)
    first = await store.writer.submit(submission_of(candidate_of("before")))
    done = await rules.reload(BY)
    second = await store.writer.submit(submission_of(candidate_of("after")))
    assert (first.reason, second.reason) == (None, Reason.SOURCE_CLASS_FORBIDDEN)
    assert (done.epoch, done.changed, done.digest) == (2, True, parse_rules(STRICTER).digest)
    assert rules.text == STRICTER
    found = leaves(store)
    adopted = [leaf for leaf in found if isinstance(leaf, OperatorLeaf)][-1]
    assert (adopted.action, adopted.subject, adopted.by) == ("ruleset.adopt", done.digest, BY)
    epochs = [leaf.ruleset_epoch for leaf in found if isinstance(leaf, VerdictLeaf)]
    assert epochs == [1, 2]


async def test_the_same_text_again_is_no_new_epoch_and_no_leaf(store: EmbeddedStore) -> None:
    rules = rules_of(store, lambda: RULESET_TEXT)
    before = len(leaves(store))
    done = await rules.reload(BY)
    assert (done.epoch, done.changed) == (1, False)
    assert len(leaves(store)) == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[matrix",
        RULESET_TEXT[: len(RULESET_TEXT) // 2],
        RULESET_TEXT.replace("[classes.mem0", "[classes.other"),
        RULESET_TEXT.replace('L1 = "refuse"', 'L1 = "perhaps"', 1),
    ],
    ids=["empty", "torn", "half", "no mem0", "unknown word"],
)
async def test_a_file_that_cannot_be_used_keeps_the_last_good_rules(
    store: EmbeddedStore, text: str
) -> None:
    rules = rules_of(store, lambda: text)
    before = len(leaves(store))
    with pytest.raises(RulesetRefused, match="epoch 1 stays in force"):
        await rules.reload(BY)
    assert rules.text == RULESET_TEXT
    assert store.ruleset.digest == parse_rules(RULESET_TEXT).digest
    assert len(leaves(store)) == before
    assert (await store.writer.submit(submission_of(candidate_of("still")))).reason is None


async def test_a_file_that_cannot_be_read_is_said_and_a_signal_only_logs_it(
    store: EmbeddedStore,
) -> None:
    def gone() -> str:
        raise SettingsError("ruleset: cannot be read (FileNotFoundError)")

    rules = rules_of(store, gone)
    with pytest.raises(RulesetRefused, match="FileNotFoundError"):
        await rules.reload(BY)
    await rules.reload_by_signal()
    assert store.ruleset.epoch == 1


async def test_a_file_that_grows_while_it_is_read_is_refused_although_it_parses(
    store: EmbeddedStore,
) -> None:
    # Cut off within its last table it is still valid, and says something else.
    cut = RULESET_TEXT[: RULESET_TEXT.rindex("scratch")]
    assert parse_rules(cut).digest != parse_rules(RULESET_TEXT).digest, "control: it parses"
    readings = iter([cut, RULESET_TEXT])
    with pytest.raises(RulesetRefused, match="changed while it was read"):
        await rules_of(store, lambda: next(readings)).reload(BY)


async def test_another_digest_than_the_one_asked_for_is_refused(store: EmbeddedStore) -> None:
    rules = rules_of(store, lambda: STRICTER)
    with pytest.raises(RulesetRefused, match="digest"):
        await rules.reload(BY, parse_rules(RULESET_TEXT).digest)
    assert (await rules.reload(BY, parse_rules(STRICTER).digest)).changed


async def test_under_load_every_verdict_is_that_of_the_epoch_in_its_leaf(
    store: EmbeddedStore,
) -> None:
    texts = [STRICTER, RULESET_TEXT] * 4
    current = [RULESET_TEXT]
    rules = rules_of(store, lambda: current[0])

    async def reloading() -> None:
        for text in texts:
            current[0] = text
            await rules.reload(BY)

    async with asyncio.TaskGroup() as group:
        group.create_task(reloading())
        writes = [
            group.create_task(store.writer.submit(submission_of(candidate_of(f"fact {number}"))))
            for number in range(400)
        ]
    outcomes = [task.result() for task in writes]
    strict = set(range(2, 10, 2))
    found = leaves(store)
    for outcome in outcomes:
        leaf = found[outcome.leaf_index]
        assert isinstance(leaf, VerdictLeaf)
        refused = outcome.reason is Reason.SOURCE_CLASS_FORBIDDEN
        assert refused == (leaf.ruleset_epoch in strict)
    assert store.ruleset.epoch == 1 + len(texts)
    assert store.reader.check().problems == ()
