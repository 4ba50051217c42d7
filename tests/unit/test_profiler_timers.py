"""Timers on a clock of our own: no test waits, none looks at the wall."""

import pytest
from wia_compiler.profiler.timers import Timing, measure, summarize


class Clock:
    """A clock that calls move on; ``core`` moves by the share that the thread had a core."""

    def __init__(self, *, share: float = 1.0):
        self.now = 0
        self.core = 0.0
        self.share = share

    def __call__(self) -> int:
        return self.now

    def core_clock(self) -> int:
        return int(self.core)

    def advance(self, nanoseconds: int) -> None:
        self.now += nanoseconds
        self.core += nanoseconds * self.share


def timed(durations, clock: Clock, **options) -> tuple[Timing, int]:
    """Measure a call that takes the durations in turn; the timing and the number of calls."""
    count = 0

    def call() -> None:
        nonlocal count
        clock.advance(durations[count % len(durations)])
        count += 1

    timing = measure(call, clock=clock, core_clock=clock.core_clock, **options)
    return timing, count


def test_median_and_quartiles_of_warm_samples() -> None:
    timing, count = timed([1_000_000], Clock(), budget=0.02, warmups=3)
    assert timing.median == timing.minimum == timing.lower_quartile == pytest.approx(1e-3)
    assert timing.samples == 20
    assert count == 3 + 1 + 20  # warm-up, one call that sizes the samples, the samples
    assert timing.spread == 0


def test_cold_calls_do_not_count() -> None:
    durations = [900_000_000, 900_000_000, *[1_000_000] * 1000]
    timing, _ = timed(durations, Clock(), budget=0.01, warmups=2)
    assert timing.upper_quartile == pytest.approx(1e-3)


def test_short_calls_are_repeated_within_a_sample() -> None:
    timing, count = timed([100], Clock(), budget=0.001, warmups=1, most=10)
    assert timing.calls == 200  # 20 µs
    assert timing.samples == 10
    assert count == 1 + 1 + 200 * 10
    assert timing.median == pytest.approx(100e-9)


def test_long_calls_are_sampled_a_least_number_of_times() -> None:
    timing, _ = timed([2_000_000_000], Clock(), budget=0.1, least=5)
    assert timing.samples == 5


def test_calls_that_take_no_time_end() -> None:
    timing, _ = timed([0], Clock(), budget=0.01, most=7)
    assert timing.samples == 7
    assert timing.median == timing.spread == timing.waiting == 0


def test_contention_is_noted() -> None:
    timing, _ = timed([1_000_000], Clock(share=0.75), budget=0.01)
    assert timing.waiting == pytest.approx(0.25, abs=1e-3)
    assert "other work took the core 25 % of the time" in timing.note
    quiet, _ = timed([1_000_000], Clock(), budget=0.01)
    assert "other work" not in quiet.note


class BusyClock(Clock):
    """A clock on a machine where other work takes the core in every third call."""

    def advance(self, nanoseconds: int) -> None:
        self.now += nanoseconds
        self.core += nanoseconds if nanoseconds < 5_000_000 else 1_000_000


def test_disturbed_samples_are_left_out() -> None:
    durations = [1_000_000, 1_000_000, 9_000_000]
    timing, _ = timed(durations, BusyClock(), budget=0.1, warmups=3)
    assert timing.median == timing.upper_quartile == pytest.approx(1e-3)
    assert timing.samples < timing.taken
    assert f"median of {timing.samples} undisturbed of {timing.taken} warm samples" in timing.note


def test_without_enough_undisturbed_samples_all_count() -> None:
    timing, _ = timed([9_000_000], BusyClock(), budget=0.1)
    assert timing.samples == timing.taken
    assert timing.median == pytest.approx(9e-3)


def test_calls_on_several_threads_are_not_judged_by_one() -> None:
    durations = [1_000_000, 1_000_000, 9_000_000]
    timing, _ = timed(durations, BusyClock(), budget=0.1, threads=2)
    assert timing.samples == timing.taken


def test_a_summary_says_its_spread() -> None:
    timing = summarize([1e6, 2e6, 3e6, 4e6, 5e6])
    assert (timing.minimum, timing.median) == pytest.approx((1e-3, 3e-3))
    assert (timing.lower_quartile, timing.upper_quartile) == pytest.approx((2e-3, 4e-3))
    assert timing.spread == pytest.approx(2 / 3)
    assert timing.note == "median of 5 warm samples, quartiles 33 % below and 33 % above"
    assert summarize([7e9]) == Timing(7, 7, 7, 7, 1, 1)


@pytest.mark.parametrize(
    "options", [{"budget": -1}, {"warmups": -1}, {"least": 0}, {"least": 5, "most": 4}]
)
def test_bad_options_are_refused(options) -> None:
    with pytest.raises(ValueError, match="expected budget and warmups from 0"):
        measure(lambda: None, **options)
    with pytest.raises(ValueError, match="at least one sample"):
        summarize([])


def test_real_clocks_work_together() -> None:
    timing = measure(lambda: sum(range(50)), budget=0.0, least=3)
    assert timing.samples == 3
    assert 0 < timing.minimum <= timing.lower_quartile <= timing.median <= timing.upper_quartile
    assert 0 <= timing.waiting <= 1
