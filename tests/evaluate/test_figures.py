"""Figures: shares with Wilson's interval, quantiles, means."""

from __future__ import annotations

import pytest

from tests.evaluate.figures import Figure, mean_over, quantile, rate, share, text_of


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        # Newcombe 1998, table I, method 3.
        (81, 263, 25.5, 36.6),
        (15, 148, 6.2, 16.0),
        (0, 20, 0.0, 16.1),
        (1, 29, 0.6, 17.2),
        (20, 20, 83.9, 100.0),
    ],
)
def test_a_share_has_the_interval_of_wilson(hits: int, n: int, low: float, high: float) -> None:
    figure = share(hits, n)
    assert figure.low == pytest.approx(low, abs=0.06)
    assert figure.high == pytest.approx(high, abs=0.06)
    assert figure.value == pytest.approx(100 * hits / n, abs=0.001)


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Garwood's exact limits of a Poisson count, as tables have them.
    [(0, 0.0, 3.689), (1, 0.0253, 5.572), (5, 1.623, 11.668), (20, 12.217, 30.888)],
)
def test_a_rate_has_nearly_the_exact_interval_of_its_count(
    count: int, low: float, high: float
) -> None:
    figure = rate(count, 30, "a day")
    assert figure.low == pytest.approx(low / 30, abs=0.001)
    assert figure.high == pytest.approx(high / 30, abs=0.001)
    assert figure.value == pytest.approx(count / 30, abs=0.001)
    assert (figure.n, figure.unit) == (30, "a day")


def test_of_nothing_there_is_no_value_and_a_reason() -> None:
    for figure in (share(0, 0), rate(0, 0, ""), quantile([], 0.5, "ms"), mean_over([], "ms")):
        assert (figure.value, figure.n, figure.low, figure.high) == (None, 0, None, None)
        assert figure.skipped
        assert text_of(figure, interval=True) == "n/a"


def test_quantiles_and_means_lie_in_their_intervals() -> None:
    values = [float(number) for number in range(1_000)]
    for figure in (
        quantile(values, 0.5, "ms"),
        quantile(values, 0.99, "ms"),
        mean_over(values, ""),
    ):
        assert isinstance(figure, Figure)
        assert figure.low is not None
        assert figure.value is not None
        assert figure.high is not None
        assert figure.low <= figure.value <= figure.high
