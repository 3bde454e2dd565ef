from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from headgate.spark.agent.decision import GateDecision
from headgate.spark.agent.progress import BatchReport, GateReport
from headgate.spark.gates.threshold import EVERYTHING
from headgate.spark.gates.window_drop import CELLS, CELLS_FROM, WindowMemory, WindowShape
from headgate.spark.gates.window_watch import WindowWatch

MINUTE = WindowShape(60, 60, 60)


def fate(block: int) -> int:
    """Any fixed hash of a block will do."""
    return (block * 0x9E3779B97F4A7C15 >> 20) % EVERYTHING


def report_of(batch: int, gates: dict[str, GateReport], watermark: int, rows: int) -> BatchReport:
    return BatchReport(
        "q", "r", batch, 0.0, 1.0, None, gates, watermark_micros=watermark, input_rows=rows
    )


@dataclass
class Stream:
    """A query of windowed counts as Spark runs it, once exact and once behind a gate.

    The log holds the decision of every batch. `restart` forgets everything but the log and
    the ledger (`ledger`: largest event time by batch).
    """

    shape: WindowShape
    delay: int
    log: list[GateDecision] = field(default_factory=lambda: [GateDecision()])
    ledger: list[int | None] = field(default_factory=list)
    exact: Counter[int] = field(default_factory=Counter)
    gated: Counter[int] = field(default_factory=Counter)
    offered: int = 0
    kept: int = 0
    watermarks: list[int] = field(default_factory=lambda: [0, 0])
    alarms: list[str] = field(default_factory=list)
    clock: int = 10**9
    watch: WindowWatch = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, lose_last_row: bool = False, passed_over: bool = False) -> None:
        """passed_over: the last batch is run again, and its sink has it already."""
        self.watch = WindowWatch({"g": self.shape}, lambda: self.clock, self.alarms.append)
        if self.ledger and passed_over:
            seen = [time for time in self.ledger[:-1] if time is not None]
            last = len(self.ledger) - 1
            self.watch.begin(last - 1, {"g": max(seen)} if seen else {}, True, replays=True)
            self.watch.observe(report_of(last, {}, self.watermarks[-2], 0))
        elif self.ledger:
            known = self.ledger[:-1] if lose_last_row else self.ledger
            seen = [time for time in known if time is not None]
            complete = not lose_last_row
            self.watch.begin(len(self.ledger) - 1, {"g": max(seen)} if seen else {}, complete)

    def latest(self) -> int:
        return max((time for time in self.ledger if time is not None), default=0)

    def windows_of(self, time: int) -> list[int]:
        newest = self.shape.newest_start(time)
        starts = range(newest, newest - self.shape.size, -self.shape.slide)
        return [start for start in starts if start + self.shape.size > time]

    def batch(self, times: list[int], keep: float, runs: int = 1) -> None:
        number = len(self.ledger)
        windows = self.watch.next(self.log[-1], {"g": keep}, number)
        self.log.append(self.log[-1].changed_to({}, windows=windows))
        late = self.watermarks[-2]  # Spark drops late tuples by the watermark of the last batch
        for _ in range(runs):  # an unfinished batch that runs again changes nothing
            memory = GateDecision.from_offset(self.log[-1].offset()).windows.get("g")
            memory = memory or WindowMemory(self.shape)
            exact, gated, kept = Counter[int](), Counter[int](), 0
            for time in times:
                starts = self.windows_of(time)
                stay = [s for s in starts if self.stays(memory, s)]
                kept += bool(stay)
                exact.update(s for s in starts if s + self.shape.size > late)
                gated.update(s for s in stay if s + self.shape.size > late)
        self.exact += exact
        self.gated += gated
        self.offered += len(times)
        self.kept += kept
        self.ledger.append(max(times, default=None))
        top = max([self.watermarks[-1] + self.delay, *times])
        gates = {"g": GateReport(len(times), kept, event_time_max_micros=self.ledger[-1])}
        used = self.watermarks[-1]
        self.watch.observe(report_of(number, gates, used, len(times)))
        self.watermarks.append(max(used, top - self.delay))

    def stays(self, memory: WindowMemory, window: int) -> bool:
        block = self.shape.block(window)
        return fate(block) < memory.threshold(block)


@pytest.mark.parametrize("seed", range(40))
def test_every_window_is_complete_or_absent(seed: int) -> None:
    """Random streams out of order, random decisions, replays and restarts, lost numbers."""
    rng = random.Random(seed)
    slide = rng.choice([1, 7, 10])
    shape = WindowShape.of(
        slide * rng.choice([1, 1, 2, 5]), slide, delay := rng.choice([0, 20, 90])
    )
    stream = Stream(shape, delay)
    now = rng.randrange(1000)
    for _ in range(300):
        now += rng.choice([0, 0, 3, 10, 40])
        if rng.random() < 0.02:
            now += 5000  # a pause
        times = [now - rng.randrange(2 * delay + 15) for _ in range(rng.randrange(12))]
        times = [max(0, t) for t in times]
        stream.clock = max(stream.latest(), now, *times, 0)
        if rng.random() < 0.05:
            stream.restart(rng.random() < 0.3, passed_over=rng.random() < 0.3)
        keep = rng.choice([0.0, 0.2, 0.5, 0.9, 1.0])
        stream.batch(times, keep, runs=rng.choice([1, 1, 2]))
    assert stream.exact.keys() > stream.gated.keys()
    wrong = {w: n for w, n in stream.gated.items() if stream.exact[w] != n}
    assert wrong == {}
    assert len(stream.gated) > 10


def test_a_threshold_begins_after_the_newest_window_that_was_seen() -> None:
    memory = WindowMemory(MINUTE).changed_to(500_000, None, None)
    assert (memory.threshold(-600), memory.threshold(600)) == (500_000, 500_000)
    later = memory.changed_to(0, 130, None)
    assert [later.threshold(block) for block in (0, 60, 120, 180, 240)] == [500_000] * 3 + [0] * 2
    assert later.changed_to(EVERYTHING, 179, None).threshold(180) == EVERYTHING
    assert later.changed_to(500_000, 130, None) == memory
    assert later.changed_to(EVERYTHING, 180, None).threshold(180) == 0


def test_steps_are_forgotten_when_the_watermark_has_passed_them() -> None:
    memory = WindowMemory(MINUTE).changed_to(1, 100, None).changed_to(2, 200, 0)
    assert memory.changed_to(3, 300, 119).steps[0][1] == EVERYTHING
    passed = memory.changed_to(3, 300, 240)
    assert [limit for _, limit in passed.steps] == [2, 3]
    assert [passed.threshold(block) for block in (120, 180, 240, 300, 360)] == [0, 0, 2, 2, 3]


def test_the_memory_is_bounded_and_the_array_says_the_same() -> None:
    rng = random.Random(5)
    shape = WindowShape(20, 10, 40)
    memory = WindowMemory(shape)
    refused = 0
    for step in range(4 * CELLS):
        seen = step * 40
        watermark = seen - rng.choice([100, 40 * CELLS // 2])
        new = memory.changed_to(rng.randrange(EVERYTHING), seen, max(0, watermark))
        refused += new is memory
        memory = new
        assert len(memory.steps) <= CELLS + 2
        array = memory.array()
        assert len(array) == CELLS_FROM + CELLS
        for block in range(max(0, seen - 40 * 300), seen + 400, 40):
            assert by_array(array, block, shape) == memory.threshold(block)
    assert WindowMemory.from_dict(memory.as_dict()) == memory
    for step in range(2 * CELLS):
        memory = memory.changed_to(step, 40 * (5 * CELLS + step), 0)
    assert len(memory.steps) <= CELLS + 2
    assert memory.changed_to(7, 40 * 10 * CELLS, 0) is memory


def by_array(array: tuple[int, ...], block: int, shape: WindowShape) -> int:
    """What the gate's expression computes."""
    _, closed, second, last, first_limit, last_limit = array[:CELLS_FROM]
    if block < closed:
        return 0
    if block >= last:
        return last_limit
    if block < second:
        return first_limit
    return array[CELLS_FROM + block // shape.width % CELLS]


def test_blocks_of_sliding_windows_are_wide_enough_to_save_work() -> None:
    tumbling = WindowShape.of(10, 10, 50)
    assert (tumbling.width, tumbling.block_share(0.3)) == (10, 0.3)
    sliding = WindowShape.of(60, 10, 50)
    assert (sliding.width, sliding.windows_of_a_tuple) == (240, 6)
    share = sliding.block_share(0.3)
    r = 5 * 10 / 240
    assert share + r * share * (1 - share) == pytest.approx(0.3)
    assert (sliding.block_share(0.0), sliding.block_share(1.0)) == pytest.approx((0.0, 1.0))
    long_wait = WindowShape.of(1, 1, 3600)
    assert long_wait.width * CELLS >= 2 * 3601


def test_a_sliding_stream_keeps_about_the_wanted_share_of_tuples() -> None:
    stream = Stream(WindowShape.of(60, 10, 20), 20)
    for number in range(400):
        stream.batch(list(range(100 * number, 100 * number + 100, 5)), 0.3)
    assert stream.kept / stream.offered == pytest.approx(0.3, abs=0.08)


def test_numbers_that_are_lost_are_replaced_by_the_clock_with_an_alarm() -> None:
    stream = Stream(MINUTE, 0)
    stream.clock = 6000
    stream.batch([10], 1.0)
    stream.restart(lose_last_row=True)
    assert len(stream.alarms) == 1
    stream.batch([70, 5900, 6500], 0.0)
    memory = stream.log[-1].windows["g"]
    assert [memory.threshold(block) for block in (60, 5880, 6000)] == [EVERYTHING] * 3
    assert memory.threshold(6060) == 0
    stream.watch.observe(report_of(2, {}, 0, 5))
    assert "batch 2" in stream.alarms[-1]


@pytest.mark.parametrize(
    "broken", [{}, {"shape": [1, 1, 0], "closed": 0, "steps": [[0, 1]]}, {"shape": [1, 1, 1]}]
)
def test_what_is_no_memory_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="memory of windows"):
        WindowMemory.from_dict(broken)
