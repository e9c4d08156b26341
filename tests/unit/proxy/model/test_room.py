"""Room for bodies in memory: what is reserved, what is kept, and when there is none."""

from __future__ import annotations

import pytest

from proxy.model.histories import Room
from proxy.seams.faults import Busy


def test_room_is_kept_for_what_a_body_is_and_no_longer_for_what_it_could_be() -> None:
    room = Room(100)
    keep = room.take(100)
    with pytest.raises(Busy):
        room.take(1)
    keep(10)
    other = room.take(90)
    with pytest.raises(Busy):
        room.take(1)
    keep(0)
    keep(0)
    assert room.take(10) is not None
    with pytest.raises(Busy):
        room.take(1)
    other(0)
    room.take(90)
