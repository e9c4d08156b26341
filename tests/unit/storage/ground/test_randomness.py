"""Random bytes from a pool are as good as the kernel's."""

from __future__ import annotations

import os
import threading

from storage.ground.randomness import BLOCK_LEN, random_bytes


def test_no_bytes_are_given_twice_across_blocks_and_threads() -> None:
    drawn: list[bytes] = []

    def draw() -> None:
        drawn.extend(random_bytes(16) for _ in range(3 * BLOCK_LEN // 16))

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    draw()
    assert len(set(drawn)) == len(drawn)
    assert all(len(one) == 16 for one in drawn)


def test_more_than_a_block_is_given_at_once() -> None:
    assert len(set(random_bytes(2 * BLOCK_LEN))) > 250


def test_a_forked_child_does_not_repeat_its_parent() -> None:
    random_bytes(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, random_bytes(32))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 32)
    os.close(reading)
    os.close(writing)
    assert len(theirs) == 32
    assert theirs != random_bytes(32)
