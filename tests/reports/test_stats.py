"""The interval against its formula and against numbers worked out once; verdicts; order statistics; Wilson."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats as known
from scipy.fft import dct

from reports import slow, stats
from reports.stats import AT_THE_MARGIN, FEWEST, judge, order_interval, wilson


def formula(x: np.ndarray, alpha: float) -> tuple[float, float, float, float]:
    """Center, ends and lag-1 autocorrelation from SciPy's own parts."""
    n = len(x)
    cut = max(1, 3 * n // 16)
    h = n - 2 * cut
    center = float(known.trim_mean(x, cut / n))
    w = np.asarray(known.mstats.winsorize(x, (cut / n, cut / n)))
    d = w - w.mean()
    raw = float((d[1:] * d[:-1]).sum() / (d * d).sum()) if d.any() else 0.0
    r = min(0.9, max(0.0, raw + (1 + 4 * max(raw, 0.0)) / n))
    tau = (1 + r) / (1 - r)
    error = math.sqrt((n - 1) * w.var(ddof=1) / (h * (h - 1))) * math.sqrt(tau)
    near = float(known.t.ppf(1 - alpha / 2, max(2.0, h / tau - 1))) * error
    count = 2 if n < 16 else 4 if n < 64 else 5
    seen = dct(d, type=2, norm="ortho")[1 : count + 1]
    far = float(known.t.ppf(1 - alpha / 2, count)) * math.sqrt(float(np.mean(seen**2)) / n) * n / h
    half = max(near, far)
    return math.exp(center), math.exp(center - half), math.exp(center + half), r


def rounds(n: int, seed: int, lag: float = 0.0, center: float = 0.0, spread: float = 0.01) -> np.ndarray:
    """Logarithms of ratios whose neighbors correlate."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_t(3, n)
    for i in range(1, n):
        noise[i] = lag * noise[i - 1] + math.sqrt(1 - lag * lag) * noise[i]
    return center + spread * noise


@pytest.mark.parametrize("n", [6, 7, 8, 9, 16, 31, 256])
@pytest.mark.parametrize("lag", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.05 / 3])
def test_interval_is_its_formula(n: int, lag: float, alpha: float) -> None:
    x = rounds(n, seed=n, lag=lag, center=0.1)
    found = stats.interval(x, alpha)
    assert found is not None
    assert (found.center, found.low, found.high, found.lag1) == pytest.approx(formula(x, alpha), rel=1e-9)


def test_interval_worked_out_by_hand() -> None:
    """Eight rounds of 0 to 7: the middle six have the mean 3.5, the winsorized squares sum to 30; nothing is slow."""
    x = np.array([3.0, 6.0, 1.0, 4.0, 7.0, 0.0, 5.0, 2.0]) / 100
    found = stats.interval(x, 0.05)
    assert found is not None
    w = [3, 6, 1, 4, 6, 1, 5, 2]
    assert sum((a - 3.5) * (b - 3.5) for a, b in itertools.pairwise(w)) == -19.75
    assert found.lag1 == 0.0  # −19.75/30 and 1/8 for the bias is still negative
    half = 2.570581835636314 / 100  # t, 97.5 %, five degrees
    assert math.log(found.center) == pytest.approx(0.035)
    assert math.log(found.high) == pytest.approx(0.035 + half)
    assert math.log(found.low) == pytest.approx(0.035 - half)
    assert found.half == pytest.approx((found.high - found.low) / 2 / found.center)


@pytest.mark.parametrize("n", range(FEWEST))
def test_no_interval_from_fewer_than_six_rounds(n: int) -> None:
    assert stats.interval(np.zeros(n), 0.05) is None
    judged = judge(np.zeros(n), 0.01)
    assert (judged.shown, judged.verdict, judged.rounds) == (None, "unresolved", n)
    assert str(n) in (judged.reason or "") and str(FEWEST) in (judged.reason or "")
    assert not judged.settled(1.0)


def test_lag1_stays_between_0_and_0_9() -> None:
    assert stats.lag1(np.array([0.0, 1.0] * 8)) == 0.0
    assert stats.lag1(np.arange(100.0)) == 0.9
    assert stats.lag1(np.zeros(10)) == pytest.approx(0.1)  # the bias of ten rounds
    x = np.array([0.0, 1.0] * 8) / 100
    in_order, mixed = stats.interval(np.sort(x), 0.05), stats.interval(x, 0.05)
    assert in_order is not None and mixed is not None and in_order.center == mixed.center
    assert in_order.half > 3 * mixed.half, "the order of the rounds matters for the width alone"
    found = stats.interval(np.full(8, 0.02), 0.05)  # without any spread
    assert found is not None and found.low == found.center == found.high == pytest.approx(math.exp(0.02))


def autoregressive(lag: float, length: int) -> np.ndarray:
    """10⁴ series whose neighbors correlate by exactly so much, from their stationary distribution."""
    rng = np.random.default_rng(2)
    series = rng.standard_normal((10_000, length))
    series[:, 0] /= math.sqrt(1 - lag * lag)
    for i in range(1, length):
        series[:, i] += lag * series[:, i - 1]
    return series


@pytest.mark.parametrize(("lag", "length"), [(0.0, 16), (0.2, 64), (0.4, 32), (0.6, 32)])
def test_lag1_is_right_on_the_whole(lag: float, length: int) -> None:
    """In the median, which limits do not move; that of independent rounds is as often zero as not."""
    found = np.array([stats.lag1(x) for x in autoregressive(lag, length)])
    assert 0.47 < float(np.mean(found > 0)) < 0.53 if not lag else abs(float(np.median(found)) - lag) < 0.01


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(1.05, "slower"), (1.02, "slower"), (1.0, "same"), (1.005, "same"), (0.98, "faster"), (0.5, "faster")],
)
def test_verdicts(ratio: float, verdict: str) -> None:
    x = rounds(64, seed=3, center=math.log(ratio), spread=0.003)
    judged = judge(x, 0.01)
    assert (judged.verdict, judged.reason, judged.rounds) == (verdict, None, 64)
    assert judged.settled(0.01) and not judged.settled(1e-6)
    assert ratio != 1.02 or judge(x, 0.04).verdict == "same", "by a wider margin"
    noisy = judge(rounds(16, seed=3, center=math.log(1.02), spread=0.05), 0.01)
    assert (noisy.verdict, noisy.reason, noisy.settled(1.0)) == ("unresolved", None, False)


@pytest.mark.parametrize("ratio", [1.01, 0.99])
def test_at_the_margin(ratio: float) -> None:
    judged = judge(rounds(64, seed=3, center=math.log(ratio), spread=0.0005), 0.01)
    assert (judged.verdict, judged.reason) == ("unresolved", AT_THE_MARGIN)
    assert judged.settled(0.01)


def test_the_verdict_needs_more_than_the_interval_shown() -> None:
    """Of rising ratios the first to be called slower has a 99 % interval above the margin, and not only 95 %."""
    for center in np.linspace(0.0, 0.05, 200):
        x = rounds(16, seed=5, center=float(center))
        judged = judge(x, 0.01, last_only=True)
        strict, shown = stats.interval(x, 0.01), stats.interval(x, 0.05)
        assert strict is not None and shown is not None
        assert (judged.verdict == "slower") == (strict.low > 1.01)
        assert judged.shown == shown
        assert strict.low < shown.low < shown.high < strict.high


@pytest.mark.parametrize("n", [6, 16, 63, 64, 512])
def test_one_of_several_looks_spends_a_part_of_the_error(n: int) -> None:
    x = rounds(n, seed=6)
    several, once = judge(x, 0.01), judge(x, 0.01, last_only=True)
    assert (several.shown, several.strict) == (stats.interval(x, 0.05 / 2), stats.interval(x, 0.01 / 2))
    assert (once.shown, once.strict) == (stats.interval(x, 0.05), stats.interval(x, 0.01))


def test_the_middle_is_one_estimand_at_every_number_of_rounds() -> None:
    """Of a skewed ratio: what is trimmed decides what is estimated."""
    skewed = known.expon.ppf((np.arange(4096) + 0.5) / 4096)
    np.random.default_rng(1).shuffle(skewed)
    whole = stats.estimate(skewed).center
    for n in (16, 64, 512):
        parts = skewed.reshape(-1, n)
        for found in ([stats.estimate(x).center for x in parts], [stats.generations([*parts]).center]):
            assert np.mean(found) == pytest.approx(whole, abs=0.03)


@pytest.mark.parametrize("center", [0.03, -0.03, 0.002, 0.0125])
@pytest.mark.parametrize("last_only", [False, True])
def test_p_is_where_the_verdict_would_begin_to_fall(center: float, last_only: bool) -> None:
    """The interval with so much error just touches the margin; a verdict has at most a hundredth."""
    x = rounds(64, seed=3, center=center, spread=0.004)
    judged = judge(x, 0.01, last_only)
    assert judged.p is not None and (judged.p <= 0.01) == (judged.verdict != "unresolved")
    found = stats.interval(x, judged.p / (1 if last_only else 2))
    assert found is not None
    assert min(abs(end - edge) for end in (found.low, found.high) for edge in (0.99, 1.01)) < 1e-9
    on_the_margin = math.expm1(stats.estimate(x).center + 1e-15)
    assert on_the_margin < 0 or judge(x, on_the_margin, True).p == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("seconds", "first"), [(1e-5, 512), (1.9e-4, 512), (1e-3, 64), (0.01, 8), (1.0, 8), (0.0, 512)]
)
def test_the_first_look_sees_slow_change_where_rounds_are_cheap(seconds: float, first: int) -> None:
    assert stats.looks(seconds) == stats.LOOKS[stats.LOOKS.index(first) :]


def test_a_ratio_that_wanders_says_so() -> None:
    """Fewer rounds than see slow change say that."""
    assert judge(rounds(511, seed=1), 0.01).notes == ("511 rounds do not see slow change",)
    assert judge(rounds(512, seed=1), 0.01).notes == ()
    neighbors = judge(rounds(512, seed=1, lag=0.6), 0.01).notes
    assert len(neighbors) == 1 and "the ratio itself wanders: lag-1 autocorrelation 0." in neighbors[0]
    wave = rounds(512, seed=1) + 0.008 * np.sin(np.arange(512) / 60)
    (slowly,) = judge(wave, 0.01).notes
    assert slowly.startswith("the ratio itself wanders slowly: its error is ")
    (_, near), (count, far) = stats.estimate(wave).forms
    assert count == slow.cosines(512) == 5 and far > 2 * near


@pytest.mark.parametrize("seed", range(20))
def test_exchanging_the_sides_turns_the_answer_round(seed: int) -> None:
    x = rounds(32, seed, lag=0.3, center=0.05 * (seed % 3 - 1), spread=0.004)
    one, other = judge(x, 0.01), judge(-x, 0.01)
    turned = {"slower": "faster", "faster": "slower"}
    assert other.verdict == turned.get(one.verdict, one.verdict)
    assert one.shown is not None and other.shown is not None
    assert other.shown.low == pytest.approx(1 / one.shown.high)
    assert other.shown.high == pytest.approx(1 / one.shown.low)


def test_one_generation_is_a_contest_looked_at_once() -> None:
    for n in (6, 12, 128):
        x = rounds(n, seed=n, lag=0.3)
        one, other = stats.nested([x], 0.01).shown, judge(x, 0.01, last_only=True).shown
        assert one is not None and other is not None
        assert (one.center, one.low, one.high) == pytest.approx((other.center, other.low, other.high), rel=1e-9)


def test_generations_share_what_is_known_of_their_noise() -> None:
    """Three of the same rounds have 3 · 6 − 3 degrees; where they differ, they are as many values as they are."""
    x = np.array([3.0, 6.0, 1.0, 4.0, 7.0, 0.0, 5.0, 2.0]) / 100
    square = sum((a - 3.5) ** 2 for a in (3, 6, 1, 4, 6, 1, 5, 2))  # winsorized by one at each end
    agree = float(known.t.ppf(0.975, 15)) * math.sqrt(3 * square / 15 / 6 / 3) / 100
    differ = float(known.t.ppf(0.975, 2)) * 0.01 / math.sqrt(3)
    for groups, half in (([x, x, x], agree), ([x / 1e4 + i / 100 for i in range(3)], differ)):
        found = stats.nested(groups, 0.01).shown
        assert found is not None
        assert math.log(found.high) - math.log(found.center) == pytest.approx(half, rel=1e-6)


@pytest.mark.parametrize("sizes", [(), (8, 5)])
def test_no_interval_where_a_generation_has_fewer_than_six_rounds(sizes: tuple[int, ...]) -> None:
    judged = stats.nested([np.zeros(n) for n in sizes], 0.01)
    assert (judged.shown, judged.verdict) == (None, "unresolved") and str(FEWEST) in (judged.reason or "")


@pytest.mark.parametrize("n", [64, 128, 512])
def test_order_interval_of_independent_values_is_near_that_of_the_binomial(n: int) -> None:
    """Wider by what is not known of their neighbors; the middle of several seeds."""
    lows = []
    for seed in range(20):
        middle, low, high = order_interval(np.random.default_rng(seed).permutation(np.arange(1.0, n + 1)))
        assert middle == (n + 1) / 2 and low + high == n + 1
        lows.append(low)
    exact = known.binom.ppf(0.025, n, 0.5)
    assert middle - 1.6 * (middle - exact) <= np.median(lows) <= exact + 2


def test_order_interval_is_wider_where_neighbors_are_alike() -> None:
    x = np.arange(1.0, 129.0)
    mixed = order_interval(np.random.default_rng(1).permutation(x))
    blocks = order_interval(np.random.default_rng(1).permutation(x.reshape(32, 4)).ravel())
    assert blocks[2] - blocks[1] > 1.4 * (mixed[2] - mixed[1])
    rising = order_interval(x)
    assert math.isnan(rising[1]) or rising[2] - rising[1] > 64  # its middle says next to nothing
    for n in range(1, FEWEST):
        middle, low, high = order_interval(x[:n])
        assert middle == (n + 1) / 2 and math.isnan(low) and math.isnan(high)


def test_wilson() -> None:
    """Newcombe 1998: 81/263 and 15/148; of nothing nothing is known."""
    for hits, trials, low, high in (
        (0, 10, 0.0, 0.27753),
        (5, 10, 0.23659, 0.76341),
        (10, 10, 0.72247, 1.0),
        (1, 20, 0.00888, 0.23613),
        (15, 148, 0.06238, 0.16049),
        (81, 263, 0.25529, 0.36621),
    ):
        assert wilson(hits, trials) == pytest.approx((low, high), abs=5e-5)
        exact = known.binomtest(hits, trials).proportion_ci(method="wilson")
        assert wilson(hits, trials) == pytest.approx((exact.low, exact.high), abs=1e-12)
    assert wilson(0, 0) == (0.0, 1.0)
