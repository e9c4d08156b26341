"""What each kind of signal may set off."""

from __future__ import annotations

from policy.after.signals import Grade, SignalKind, kind_of, opens_case
from policy.model import Channel


def test_an_agents_word_opens_nothing_and_only_wrong_opens() -> None:
    opened = {kind for kind in SignalKind if opens_case(kind, Grade.WRONG)}
    assert opened == set(SignalKind) - {SignalKind.AGENT}
    assert not any(
        opens_case(kind, grade) for kind in SignalKind for grade in (Grade.GOOD, Grade.IRRELEVANT)
    )


def test_a_word_is_of_the_kind_of_its_key() -> None:
    assert {channel: kind_of(channel) for channel in Channel} == {
        Channel.AGENT: SignalKind.AGENT,
        Channel.USER: SignalKind.PERSON,
        Channel.OPERATOR: SignalKind.OPERATOR,
    }
