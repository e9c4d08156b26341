"""Faults in what others are told, and in where that goes."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, at

_OUTBOX: Final = "proxy/reporting/outbox.py"
_OUTBOXES: Final = "tests/unit/proxy/reporting/test_outbox.py"
_WEBHOOK: Final = "proxy/reporting/webhook.py"
_POSTING: Final = "proxy/reporting/posting.py"
_WEBHOOKS: Final = "tests/unit/proxy/reporting/test_webhook.py"
_ADDRESSES: Final = "proxy/transport/addresses.py"
_NOTICES: Final = "tests/integration/test_review_webhook.py"

_LIMITS: Final = "tests/unit/storage/write/test_held_limits.py"

_QUEUES: Final = "tests/integration/test_review_queue.py"

REPORTING: Final = (
    Mutant(
        name="a message may end behind the log",
        file=_OUTBOX,
        old="not cursor.told < cursor.until <= end:",
        new="not cursor.told < cursor.until:",
        invariant="an older log that was put back does not end what is told",
        tests=(
            at(
                _OUTBOXES,
                "test_a_message_that_ends_beyond_a_log_that_was_put_back_is_made_anew",
            ),
        ),
    ),
    Mutant(
        name="what is gone takes along what is refused with it",
        file="storage/write/orders.py",
        old="                if row is not None:\n",
        new="                if True:\n",
        invariant="of many, each that waits is refused, and nothing else is",
        tests=(
            at(
                _QUEUES,
                "test_what_is_refused_together_is_a_few_transactions_with_a_leaf_for_each",
            ),
        ),
    ),
    Mutant(
        name="a wait that nobody ended ends unheard",
        file="storage/write/judging.py",
        old="        change.expired.append((held, outcome))\n",
        new="        del held, outcome\n",
        invariant="every verdict, that of no one included, has its span, its count and its line",
        tests=(
            at(
                _QUEUES,
                "test_a_wait_that_nobody_ended_has_its_span_in_the_trace_of_the_write",
            ),
        ),
    ),
    Mutant(
        name="what waits of a batch counts as refused",
        file="proxy/dialects/native/dialect.py",
        old="            refused=len(results) - admitted - held,\n",
        new="            refused=len(results) - admitted,\n",
        invariant="what waits is not refused",
        tests=(
            at(
                "tests/unit/proxy/dialects/native/test_dialect.py",
                "test_batch_is_answered_item_by_item",
            ),
        ),
    ),
    Mutant(
        name="what was decided is the oldest that waits",
        file="storage/write/waiting.py",
        old="            self._since_ms.pop(candidate_id, None)\n",
        new="",
        invariant="the age of the oldest is of what waits",
        tests=(at(_LIMITS, "test_a_store_says_since_when_the_oldest_waits"),),
    ),
    Mutant(
        name="a start finds the holds in the order of their ids",
        file="storage/write/waiting.py",
        old="in sorted(came, key=lambda one: one[1].held_at_ms):",
        new="in sorted(came, key=lambda one: -one[1].held_at_ms):",
        invariant="the age of the oldest survives a start",
        tests=(at(_LIMITS, "test_a_store_says_since_when_the_oldest_waits"),),
    ),
    Mutant(
        name="what was sent counts as told",
        file=_OUTBOX,
        old="        await self._sink.deliver(message_id, self._telling.body(message_id, told))\n",
        new="        await self._move(Cursor(told=until))\n"
        "        await self._sink.deliver(message_id, self._telling.body(message_id, told))\n",
        invariant="a receiver is told at least once",
        tests=(
            at(
                _OUTBOXES,
                "test_a_receiver_that_was_down_for_an_hour_is_told_of_a_thousand_in_their_order",
            ),
        ),
        quick=True,
    ),
    Mutant(
        name="a message after a crash is another one",
        file=_OUTBOX,
        old="end = self._counted_until if self._cursor.until is None else self._cursor.until\n",
        new="end = self._counted_until\n",
        invariant="what is sent again is the same message under the same id",
        tests=(at(_OUTBOXES, "test_a_message_of_a_crash_is_sent_again_whole_under_its_id"),),
    ),
    Mutant(
        name="each hold has a message of its own",
        file=_OUTBOX,
        old="return again or full or self._out.now_ms() - self._sent_ms >= TOGETHER_S * 1_000",
        new="return True",
        invariant="what comes within a minute is told together",
        tests=(at(_OUTBOXES, "test_what_comes_within_a_minute_of_a_message_is_told_together"),),
    ),
    Mutant(
        name="one public address vouches for the others of its name",
        file=_ADDRESSES,
        old="        for address in found:\n            self.check(address)\n",
        new="        for address in found[:1]:\n            self.check(address)\n",
        invariant="every address of a receiver's name is judged",
        tests=(at(_WEBHOOKS, "test_a_name_that_leads_to_what_is_not_public_is_refused"),),
    ),
    Mutant(
        name="an IPv4 address inside IPv6 is any address",
        file=_ADDRESSES,
        old="    return found.version == 6 and found not in _GLOBAL_UNICAST",
        new="    return found.version == 6 and found.is_loopback",
        invariant="of IPv6 only global unicast is public",
        tests=(at(_WEBHOOKS, "test_a_name_that_leads_to_what_is_not_public_is_refused"),),
    ),
    Mutant(
        name="an address in the URL is judged by nobody",
        file=_POSTING,
        old="        if is_address(self._host):\n            self._resolver.check(self._host)\n",
        new="",
        invariant="an address is judged however it is written",
        tests=(
            at(_WEBHOOKS, "test_an_address_in_the_url_is_judged_as_well"),
            at(_WEBHOOKS, "test_an_address_in_another_spelling_is_judged_as_what_it_means"),
        ),
    ),
    Mutant(
        name="a connection looks its name up by itself",
        file=_POSTING,
        old='            resolver=cast("AbstractResolver", self._resolver),\n',
        new="",
        invariant="a connection goes to the address that was judged",
        tests=(at(_WEBHOOKS, "test_a_name_is_looked_up_once_and_connected_to_is_what_was_judged"),),
    ),
    Mutant(
        name="an answer of any status is a yes",
        file=_POSTING,
        old="            if reply.status not in _DONE:\n",
        new="            if reply.status < 0:\n",
        invariant="only 2xx is taken for told",
        tests=(at(_WEBHOOKS, "test_what_is_not_taken_is_a_failure"),),
    ),
    Mutant(
        name="a notice leads to a page that decides",
        file="proxy/compose/telling.py",
        old="page_of=surroundings.page.of,",
        new='page_of=lambda one: f"{surroundings.page.of(one)}?code=x",',
        invariant="no notice has a link that decides",
        tests=(
            at(_NOTICES, "test_a_hold_is_told_signed_with_both_secrets_and_without_a_word_of_it"),
        ),
    ),
    Mutant(
        name="nobody is told of an incident",
        file="proxy/reporting/incident_notice.py",
        old="    return found if isinstance(found, IncidentLeaf) else None\n",
        new="    return None if isinstance(found, IncidentLeaf) else None\n",
        invariant="each step of an incident reaches the receiver",
        tests=(
            at(
                "tests/unit/proxy/reporting/test_incident_notice.py",
                "test_only_leaves_of_incidents_are_picked",
            ),
        ),
    ),
    Mutant(
        name="an incident that ended is a finding that goes on",
        file="proxy/reporting/ocsf.py",
        old="_CLOSE if step in _ENDED else _UPDATE",
        new="_UPDATE",
        invariant="a finding is closed when its incident ends",
        tests=(
            at(
                "tests/unit/proxy/reporting/test_ocsf.py",
                "test_each_step_creates_updates_or_closes",
            ),
        ),
    ),
    Mutant(
        name="a message that was told goes on to count",
        file=_OUTBOX,
        old="        self._untold -= len(told)\n",
        new="",
        invariant="`/readyz` names a receiver only while it is behind",
        tests=(
            at(_OUTBOXES, "test_of_ten_thousand_incidents_none_is_lost_while_the_receiver_is_down"),
        ),
    ),
    Mutant(
        name="an event that Sentry did not take counts as told",
        file=_POSTING,
        old="            if reply.status not in _DONE:\n",
        new="            if reply.status not in _DONE and not self._host:\n",
        invariant="an event goes out until the receiver took it",
        tests=(
            at(
                "tests/unit/proxy/reporting/test_sentry.py",
                "test_an_event_that_was_not_taken_is_sent_again_under_its_id",
            ),
        ),
    ),
)
