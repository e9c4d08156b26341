"""The `[after]` table: what is recorded of reads, and what is done about culprits."""

from __future__ import annotations

import enum
from functools import cached_property
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from policy.after.closure import BLAST_MAX, NAMED_MAX
from proxy.seams.cases import OnConviction
from proxy.settings.review_webhook import Receiver
from proxy.settings.servers import Network, Text, Texts, networks_of
from storage.features.recalls import RecallOptions


class Heal(enum.Enum):
    """What is done about memories that contradict an anchor, before a wrong answer is reported."""

    OFF = "off"
    RECALL = "recall"
    NEXT = "next"
    ANSWER = "answer"


class SentryTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The `[after.sentry]` table; the DSN is in the environment."""

    allow: Annotated[
        Texts, Meta(description="Ranges of addresses, as `allow` of `[review.webhook]`.")
    ] = ()

    def __post_init__(self) -> None:
        """Refuse an entry of `allow` that is not a range of addresses."""
        _ = self.networks

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The ranges in `allow`, parsed."""
        return networks_of(self.allow)


class ReplaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[after.replay]` table: the models that may be asked again, how often, at what cost."""

    models: Annotated[
        frozenset[Text],
        Meta(
            min_length=1,
            max_length=64,
            description="Names of `[[model]]` tables with a `headers_file` that `blame --through` "
            "may ask again.",
        ),
    ]
    asks_max: Annotated[int, Meta(ge=1, le=1_000, description="How often for one incident.")] = 120
    day_asks_max: Annotated[int, Meta(ge=1, le=100_000, description="How often a day.")] = 500
    tokens_max: Annotated[
        int, Meta(ge=1, le=1_000_000_000, description="How many tokens for one incident.")
    ] = 1_000_000
    answer_seconds: Annotated[
        float, Meta(ge=1, le=600, description="Seconds that each answer has.")
    ] = 60.0


NO_REPLAY = ReplaySettings(models=frozenset())
"""Without an `[after.replay]` table no model is asked again."""


class AfterTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[after]` table."""

    keep_days: Annotated[
        int,
        Meta(
            ge=1,
            le=3_650,
            description="How many days a record of a read, or of a model's reply, is shown.",
        ),
    ] = 30
    recalls_max: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000_000,
            description="How many such records are kept, the oldest go first; a million take about "
            "1.2 GB beside the quota. 0: none are made, and no answer can be explained.",
        ),
    ] = 1_000_000
    keep_queries: Annotated[
        bool,
        Meta(description="Whether the words of a question are kept, sealed as its vector is."),
    ] = False
    on_conviction: Annotated[
        Literal["quarantine", "propose"] | None,
        Meta(
            description="What becomes of memories that were found to blame: `quarantine` hides "
            "them, `propose` names them in the incident for a person. Unset: what rules blame is "
            "hidden, what a `[[judge]]` blames is proposed."
        ),
    ] = None
    blast_max: Annotated[
        int,
        Meta(
            ge=1,
            le=NAMED_MAX,
            description=(
                "How many memories one incident hides without a person, up to 200. Derived ones "
                "count last."
            ),
        ),
    ] = BLAST_MAX
    heal: Annotated[
        Heal,
        Meta(
            description="What becomes of memories that contradict an anchor above them: `recall` "
            "leaves them out of every read; `next` holds a model's finished replies against "
            "anchors; `answer` does so before they are shown, and asks again; `off` only looks "
            "afterwards."
        ),
    ] = Heal.RECALL
    canary_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Seconds between two rounds of all canaries; within seconds after commits, "
            "too. 0: only `canary run` asks them.",
        ),
    ] = 3_600.0
    webhook: Annotated[
        Receiver | None,
        Meta(
            description="A table `[after.webhook]` with the keys of `[review.webhook]`: a receiver "
            "that is told of each step of an incident, without content."
        ),
    ] = None
    sentry: Annotated[
        SentryTable | None,
        Meta(
            description="A table `[after.sentry]`, empty or with `allow`: each step of an "
            "incident is an event for Sentry. Its DSN is read from `SENTRY_DSN` and nowhere else."
        ),
    ] = None
    replay: Annotated[
        ReplaySettings,
        Meta(
            description="A table `[after.replay]`: which models `blame --through` may ask again, "
            "and at what cost."
        ),
    ] = NO_REPLAY

    @property
    def recalls(self) -> RecallOptions:
        """The options of the recall ledger."""
        return RecallOptions(
            keep_days=self.keep_days, count_max=self.recalls_max, keep_queries=self.keep_queries
        )

    @property
    def acts(self) -> OnConviction:
        """What a case may do to its culprits without a person; unset, only rules may hide them."""
        return OnConviction(
            rules_propose=self.on_conviction == "propose",
            judges_propose=self.on_conviction != "quarantine",
            blast_max=self.blast_max,
        )
