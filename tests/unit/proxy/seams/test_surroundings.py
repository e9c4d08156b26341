"""Random ids: long enough, never the same bytes twice, whatever the block boundary."""

from __future__ import annotations

from proxy.seams.environment import POOL_LEN, Environment, RandomPool


def test_no_two_ids_share_bytes_across_blocks() -> None:
    pool = RandomPool()
    ids = [pool(16) for _ in range(3 * POOL_LEN // 16)]
    assert {len(one) for one in ids} == {32}
    assert len(set(ids)) == len(ids)
    assert all(bytes.fromhex(one) for one in ids)


def test_a_block_that_does_not_divide_gives_whole_ids() -> None:
    pool = RandomPool()
    ids = [pool(count) for _ in range(POOL_LEN // 8) for count in (8, 7, 16)]
    assert {len(one) for one in ids} == {14, 16, 32}


def test_an_id_longer_than_a_block_is_whole() -> None:
    assert len(RandomPool()(2 * POOL_LEN)) == 4 * POOL_LEN


def test_milliseconds_are_whole_ones_that_have_passed() -> None:
    outside = Environment(
        clock_ns=lambda: 1_999_999, random_hex=RandomPool(), record=lambda event: None
    )
    assert outside.now_ms() == 1
