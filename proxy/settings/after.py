"""The `[after]` table: what is kept of reads, and what becomes of memories that were to blame."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from policy.after.closure import BLAST_MAX
from proxy.seams.cases import OnConviction
from proxy.settings.model import ModelUpstream
from proxy.settings.review_webhook import (
    Network,
    ReceiverTable,
    ReviewWebhook,
    network_of,
    receiver_of,
)
from proxy.settings.servers import Text
from proxy.settings.table import SENTRY_DSN
from proxy.settings.values import BadValue, Secret, table_of
from storage.features.cases import NAMED_MAX
from storage.features.recalls import RecallOptions

_DAYS_MAX: Final = 3_650
_RECALLS_MAX: Final = 100_000_000
_CANARY_SECONDS_MAX: Final = 86_400.0


class Heal(enum.Enum):
    """What is done about a memory that contradicts an anchor, before anybody complains."""

    OFF = "off"
    RECALL = "recall"
    NEXT = "next"
    ANSWER = "answer"


class SentryTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[after.sentry]` table, as it stands in the file; the DSN is in the environment."""

    allow: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()


class SentryReceiver(msgspec.Struct, frozen=True, kw_only=True):
    """Where events of incidents go: a DSN, and addresses allowed besides public ones."""

    dsn: Secret
    allow: tuple[Network, ...] = ()


class ReplayTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[after.replay]` table, as it stands in the file."""

    models: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=64)]
    asks_max: Annotated[int, Meta(ge=1, le=1_000)] = 120
    day_asks_max: Annotated[int, Meta(ge=1, le=100_000)] = 500
    tokens_max: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1_000_000
    answer_seconds: Annotated[float, Meta(ge=1, le=600)] = 60.0


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which models may be asked again about a wrong answer, how often, and at what cost."""

    models: frozenset[str] = frozenset()
    asks_max: int = 0
    day_asks_max: int = 0
    tokens_max: int = 0
    answer_seconds: float = 60.0


class AfterTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[after]` table, as it stands in the file."""

    keep_days: Annotated[int, Meta(ge=1, le=_DAYS_MAX)] = 30
    recalls_max: Annotated[int, Meta(ge=0, le=_RECALLS_MAX)] = 1_000_000
    keep_queries: bool = False
    on_conviction: Literal["quarantine", "propose"] | None = None
    blast_max: Annotated[int, Meta(ge=1, le=NAMED_MAX)] = BLAST_MAX
    heal: Heal = Heal.RECALL
    canary_seconds: Annotated[float, Meta(ge=0, le=_CANARY_SECONDS_MAX)] = 3_600.0
    webhook: ReceiverTable | None = None
    sentry: SentryTable | None = None
    replay: ReplayTable | None = None


MEANINGS: Final[dict[str, str]] = {
    "keep_days": "How many days a record of a read, or of a model's reply, is shown.",
    "recalls_max": "How many such records are kept, the oldest go first; a million take about "
    "1.2 GB beside the quota. 0: none are made, and no answer can be explained.",
    "keep_queries": "Whether the words of a question are kept, sealed as its vector is.",
    "on_conviction": "What becomes of memories that were found to blame: `quarantine` hides them, "
    "`propose` names them in the incident for a person. Unset: what rules blame is hidden, what a "
    "`[[judge]]` blames is proposed.",
    "blast_max": "How many memories one incident hides in all without a person, up to 200.",
    "heal": "What becomes of memories that contradict an anchor above them: `recall` leaves them "
    "out of every read; `next` holds a model's finished replies against anchors; `answer` does so "
    "before they are shown, and asks again; `off` only looks afterwards.",
    "canary_seconds": "Seconds between two rounds of all canaries; within seconds after commits, "
    "too. 0: only `canary run` asks them.",
    "webhook": "A table `[after.webhook]` with the keys of `[review.webhook]` but `page_url`: a "
    "receiver that is told of each step of an incident, without content.",
    "sentry": "A table `[after.sentry]`, empty or with `allow` as in `[review.webhook]`: each step "
    "of an incident is an event for Sentry. Its DSN is read from `SENTRY_DSN` and nowhere else.",
    "replay": "A table `[after.replay]`: `models` (names of `[[model]]` tables with a "
    "`headers_file`) that `blame --through` may ask again, within `asks_max` (120) and "
    "`tokens_max` (1,000,000) for an incident, `day_asks_max` (500) a day, `answer_seconds` (60) "
    "each.",
}


def after_table(tables: list[object]) -> AfterTable:
    """The `[after]` table, or its defaults where there is none.

    Raises:
        BadValue: The message names the key and what is allowed.
    """
    try:
        return table_of(tables[0], AfterTable) if tables else AfterTable()
    except BadValue as error:
        raise BadValue(f"after: {error}") from None


def recall_options(given: AfterTable) -> RecallOptions:
    """The settings of the recall ledger."""
    return RecallOptions(
        keep_days=given.keep_days, count_max=given.recalls_max, keep_queries=given.keep_queries
    )


def on_conviction(given: AfterTable) -> OnConviction:
    """What a search may do with the memories that it found to blame."""
    return OnConviction(
        rules_propose=given.on_conviction == "propose",
        judges_propose=given.on_conviction != "quarantine",
        blast_max=given.blast_max,
    )


def incident_webhook(given: AfterTable) -> ReviewWebhook | None:
    """The receiver that is told of incidents; None where the `[after]` table names none.

    Raises:
        BadValue: The message names the key and what is allowed, and no secret.
    """
    try:
        return None if given.webhook is None else receiver_of(given.webhook)
    except BadValue as error:
        raise BadValue(f"after.webhook: {error}") from None


def incident_sentry(given: AfterTable, environment: Mapping[str, str]) -> SentryReceiver | None:
    """Where events of incidents go; None where the `[after]` table has no `sentry`.

    Raises:
        BadValue: Names the key and what is allowed, and no secret.
    """
    if given.sentry is None:
        return None
    dsn = environment.get(SENTRY_DSN, "")
    if not dsn:
        raise BadValue(f"after.sentry: {SENTRY_DSN} is not set in the environment")
    try:
        return SentryReceiver(
            dsn=Secret(dsn), allow=tuple(network_of(one) for one in given.sentry.allow)
        )
    except BadValue as error:
        raise BadValue(f"after.sentry: {error}") from None


def replay(given: AfterTable, models: tuple[ModelUpstream, ...]) -> ReplaySettings:
    """Which of these models may be asked again; none where the `[after]` table has no `replay`.

    Raises:
        BadValue: Names the key and what is allowed.
    """
    table = given.replay
    if table is None:
        return ReplaySettings()
    with_credential = {one.name for one in models if one.headers}
    for name in table.models:
        if name not in with_credential:
            raise BadValue(
                f"after.replay: models: {name}: name [[model]] tables with a headers_file: a "
                "replay has no credential of an agent"
            )
    return ReplaySettings(
        models=frozenset(table.models),
        asks_max=table.asks_max,
        day_asks_max=table.day_asks_max,
        tokens_max=table.tokens_max,
        answer_seconds=table.answer_seconds,
    )
