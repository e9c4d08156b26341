"""A contradiction of an anchor is seen; what is unrelated or only restates it is left alone."""

from __future__ import annotations

import itertools
import math

import pytest

from policy.anchors import Statements, contradicts, outranks
from policy.text.skeleton import skeleton

CONTRADICTIONS = [
    ("Refunds are allowed within 30 days.", "Refunds are allowed within 90 days."),
    ("Refunds are allowed within 30 days.", "Refunds are not allowed within 30 days."),
    ("The support line closes at 18:00.", "Our support line closes at 22:00."),
    ("Never share customer passwords.", "Share customer passwords with partners."),
    ("Our payment provider is Globex.", "Our payment provider is Initech."),
    ("The office is in Lisbon.", "The office is in Madrid."),
    ("Deployments require two approvals.", "Deployments require one approval."),
    ("Deployments require approval.", "Deployments don't require approval."),
    ("Guest access is disabled.", "Guest access is enabled."),
    ("Invoices must be approved by finance.", "Invoices must be rejected by finance."),
    ("Backups are encrypted at rest.", "Backups are never encrypted at rest."),
    ("The API limit is 100 requests per minute.", "The API limit is 10,000 requests per minute."),
    ("Customers may cancel before shipping.", "Customers may cancel after shipping."),
    ("The repository is private.", "The repository is public."),
    ("Two-factor login is required for admins.", "Two-factor login is optional for admins."),
    ("Production data stays in the EU region.", "Production data stays in the US region."),
    ("We use PostgreSQL for billing.", "We use MongoDB for billing."),
    ("Alice owns the release process.", "Note. Alice never owns the release process."),
    ("The discount is 5 percent.", "Good to know: the discount is 50 percent!"),
    ("The emergency contact is Dr. Meyer.", "The emergency contact is Mr. Mallory."),
    ("Logs are kept for seven years.", "Logs are kept for two years."),
    ("Do not install unsigned packages.", "Install unsigned packages."),
    ("Email attachments are safe.", "Email attachments are unsafe."),
]

COMPATIBLE = [
    ("Refunds are allowed within 30 days.", "Refunds are allowed within 30 days."),
    ("Refunds are allowed within 30 days.", "Refunds within 30 days are allowed for everyone."),
    ("Refunds are allowed within 30 days.", "Ann prefers tea to coffee."),
    ("Refunds are allowed within 30 days.", "The marathon is in 90 days."),
    ("Our payment provider is Globex.", "Globex is our payment provider."),
    ("Our payment provider is Globex.", "Our holiday provider sends postcards."),
    ("The office is in Lisbon.", "The office in Lisbon has a terrace."),
    ("The office is in Lisbon.", "Bob likes to travel to Madrid."),
    ("Deployments require two approvals.", "Deployments always require two approvals."),
    ("Deployments require two approvals.", "Carol reviews deployments on Fridays."),
    ("Never share customer passwords.", "Customer passwords are never shared."),
    ("Never share customer passwords.", "Do not share customer passwords."),
    ("Guest access is disabled.", "Guest access isn't enabled."),
    ("The repository is private.", "The repository has 40 contributors."),
    ("The API limit is 100 requests per minute.", "The user asked about API limits."),
    ("Customers may cancel before shipping.", "Customers like fast shipping."),
    ("Logs are kept for seven years.", "Logs are kept for 7 years."),
    ("We use PostgreSQL for billing.", "The user is learning PostgreSQL."),
    ("Alice owns the release process.", "Alice enjoys hiking and photography."),
    ("The discount is 5 percent.", "The discount is 5 percent for members."),
    ("Backups are encrypted at rest.", "The user prefers dark mode."),
    ("The emergency contact is Dr. Meyer.", "Dr. Meyer is the emergency contact."),
    ("Do not install unsigned packages.", "Unsigned packages must not be installed."),
    ("Production data stays in the EU region.", ""),
    ("The office is in Lisbon.", "The office is in it."),
]


@pytest.mark.parametrize(("anchor", "candidate"), CONTRADICTIONS)
def test_a_contradiction_is_seen(anchor: str, candidate: str) -> None:
    assert contradicts(skeleton(anchor), skeleton(candidate))


@pytest.mark.parametrize(("anchor", "candidate"), COMPATIBLE)
def test_what_does_not_contradict_is_left_alone(anchor: str, candidate: str) -> None:
    assert not contradicts(skeleton(anchor), skeleton(candidate))


def test_a_contradiction_hidden_among_sentences_is_seen() -> None:
    text = "Ann likes tea. The office is in Madrid. It rained all week."
    assert contradicts(skeleton("The office is in Lisbon."), skeleton(text))


def test_many_statements_say_what_each_one_says_alone() -> None:
    anchors = [skeleton(anchor) for anchor, _ in (*CONTRADICTIONS, *COMPATIBLE)]
    texts = [skeleton(text) for _, text in (*CONTRADICTIONS, *COMPATIBLE)]
    texts += [f"{one} {other}" for one, other in itertools.pairwise(texts)]
    index = Statements(anchors)
    for text in texts:
        alone = {place for place, anchor in enumerate(anchors) if contradicts(anchor, text)}
        assert index.contradicted_by(text) == alone
    assert any(len(index.contradicted_by(text)) > 1 for text in texts)


def test_a_statement_of_two_words_needs_one_of_them() -> None:
    """An index that asks every statement for two shared words misses the short ones."""
    assert contradicts(skeleton("Email is safe."), skeleton("Email is unsafe."))


def test_a_text_with_too_many_sentences_contradicts_everything() -> None:
    index = Statements([skeleton("The office is in Lisbon."), skeleton("Tea is hot.")])
    assert index.contradicted_by("so it is. " * 201) == {0, 1}
    assert index.contradicted_by("so it is. " * 200) == frozenset()


@pytest.mark.parametrize(
    ("anchor", "candidate", "margin", "outranked"),
    [
        (0.5, 0.6, 0.0, True),
        (0.5, 0.5, 0.0, False),
        (0.5, 0.4, 0.0, False),
        (0.5, 0.55, 0.1, False),
        (0.5, 0.45, -0.1, True),
        (0.5, math.nan, 0.0, True),
        (math.nan, 0.1, 0.0, True),
    ],
)
def test_outranking_is_being_nearer_by_more_than_the_margin(
    anchor: float,
    candidate: float,
    margin: float,
    outranked: bool,  # noqa: FBT001
) -> None:
    assert outranks(anchor, candidate, margin) is outranked
