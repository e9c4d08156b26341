"""The lease: readers beside each other, a reopening alone."""

from __future__ import annotations

import threading

from storage.ground.lease import Lease


def test_readers_hold_it_together() -> None:
    lease = Lease()
    with lease.shared():
        other = threading.Thread(target=lambda: lease.shared().__enter__())
        other.start()
        other.join(10)
        assert not other.is_alive()


def test_who_wants_it_alone_waits_for_readers_and_keeps_new_ones_out() -> None:
    lease = Lease()
    order: list[str] = []
    wants, has = threading.Event(), threading.Event()

    def alone() -> None:
        wants.set()
        with lease.exclusive():
            order.append("alone")
            has.set()

    with lease.shared():
        thread = threading.Thread(target=alone)
        thread.start()
        assert wants.wait(10)
        order.append("reader")
    assert has.wait(10)
    thread.join(10)
    with lease.shared():
        order.append("reader again")
    assert order == ["reader", "alone", "reader again"]
