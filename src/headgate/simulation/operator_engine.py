"""One single-threaded node that runs the operators of several classes, in virtual time.

The engine of the 2011 paper (AQSIOS, section III-A): the class scheduler says whose turn
it is, the highest-rate order says which operator of that class runs, and one operator
runs at a time.

- A run processes a batch: the tuples that wait, but no more than fit into what is left
  of the turn, nor more than `most_tuples_per_run`, and always at least one. It takes
  fixed + n * marginal seconds, so **the cost per tuple falls as the batch grows**. Runs
  are not interrupted; what they take beyond the turn is the class's debt.
- A class whose queues are all empty loses the rest of its turn. A class that reads its
  streams again and again while tuples trickle in uses its turn for small, dear batches:
  this is the waste that DILoS removes by lending (section IV-C).
- The response time of a result is the end of the run that gave it minus the arrival of
  the input tuple that it came from. For an aggregate this is the tuple that completed it.

Guarantees: tuples are conserved at every operator; the node is never idle while a tuple
waits; the same seed and offers give the same results. Not guaranteed: that an idle
node stops exactly at `until`; a run that has begun is finished, so time may go past it.
Cost: O(1) per operator run, whatever the batch. Memory: the tuples that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headgate.control import ClassScheduler
from headgate.errors import UsageError
from headgate.network import Network
from headgate.simulation.operator_parts import OperatorPart, build_parts

__all__ = ["OperatorEngine", "Result"]

Result = tuple[float, float, int]
"""Results of one run: mean arrival of their tuples, when they came out, how many."""


class OperatorEngine:
    """The node. Offer arrivals, then run; `scheduler` and the gates may change in between.

    results: for each class what came out since `collect_results`.
    """

    def __init__(
        self,
        network: Network,
        scheduler: ClassScheduler,
        fixed_seconds: Mapping[str, float],
        rng: np.random.Generator,
        most_tuples_per_run: int = 1_000_000,
    ) -> None:
        if most_tuples_per_run < 1:
            raise UsageError("most_tuples_per_run must be at least 1")
        self.classes = tuple(scheduler.quota_seconds)
        self.scheduler = scheduler
        self.now_seconds = 0.0
        self.results: list[list[Result]] = [[] for _ in self.classes]
        self._parts = build_parts(network, self.classes, fixed_seconds)
        self._index = {name: i for i, name in enumerate(self.classes)}
        self._waiting = [0] * len(self.classes)  # one bit for each operator that has tuples
        self._reading = [0] * len(self.classes)  # the stream to read next; 0 between readings
        self._most = most_tuples_per_run
        self._rng = rng

    @property
    def operators(self) -> Mapping[str, OperatorPart]:
        return self._parts.operators

    def offer(self, stream: str, times_seconds: NDArray[np.float64]) -> None:
        """Sorted arrival times, later than those before; the gates drop their share."""
        for queue in self._parts.inputs[stream]:
            queue.offer(times_seconds, self._rng)

    def set_keep_fractions(self, keep_fractions: Mapping[str, float]) -> None:
        """What the gate of each class lets through, from the next offer on."""
        for name, fraction in keep_fractions.items():
            self._parts.gates[self._index[name]].keep_fraction = fraction

    def counts(self, query_class: str) -> tuple[int, int]:
        """Tuples offered to the class's gate and dropped there, since the start."""
        gate = self._parts.gates[self._index[query_class]]
        return gate.offered, gate.dropped

    def waiting(self, query_class: str) -> int:
        """Tuples in front of the class's operators, also those that are still to arrive."""
        index = self._index[query_class]
        inside = sum(part.waiting for part in self._parts.ranked[index])
        return inside + sum(len(queue) for _, _, queue in self._parts.readers[index])

    def collect_results(self) -> list[list[Result]]:
        """Hand over what came out since the last call, for each class."""
        results, self.results = self.results, [[] for _ in self.classes]
        return results

    def run_until(self, until_seconds: float) -> None:
        """Run until the clock reaches `until_seconds`, or one run beyond it."""
        while self.now_seconds < until_seconds:
            name = self.scheduler.next_class(self._ready())
            if name is None:
                self.now_seconds = min(self._next_arrival(), until_seconds)
            else:
                self._turn(name, until_seconds)

    def _ready(self) -> list[str]:
        """Classes that have work now."""
        now = self.now_seconds
        return [
            name
            for name, bits, readers in zip(
                self.classes, self._waiting, self._parts.readers, strict=True
            )
            if bits or any(queue.next_seconds <= now for _, _, queue in readers)
        ]

    def _next_arrival(self) -> float:
        return min(queue.next_seconds for queues in self._parts.inputs.values() for queue in queues)

    def _turn(self, name: str, until_seconds: float) -> None:
        """Run operators of one class until its credit, its work or the time is at its end."""
        index = self._index[name]
        ranked, inner = self._parts.ranked[index], self._parts.inner[index]
        start = self.now_seconds
        end = start + self.scheduler.credit_seconds[name]
        stop = min(end, until_seconds)
        while True:  # once at least: a credit may be too small to move the clock
            waiting = self._waiting[index]
            bits = waiting & inner
            if not waiting or self._reading[index]:
                if not self._read(index, end) and not waiting:
                    break
            elif bits:
                self._run(ranked[(bits & -bits).bit_length() - 1], end)
            else:
                self._run(self._longest_waiting(index), end)
            if self.now_seconds >= stop:
                break
        self.scheduler.used(name, self.now_seconds - start)

    def _batch(self, part: OperatorPart, waiting: int, end_seconds: float) -> int:
        """How many tuples a run takes now."""
        left = end_seconds - self.now_seconds - part.fixed_seconds
        most = waiting if waiting < self._most else self._most
        if most * part.marginal_seconds <= left:
            return most
        return max(1, int(left / part.marginal_seconds))

    def _read(self, index: int, end_seconds: float) -> bool:
        """Run the next operator of the class that has tuples of a stream; False if none has.

        All streams are read once before other operators run again: in an overloaded
        class the first stream would otherwise keep the second from ever being read.
        """
        now, readers = self.now_seconds, self._parts.readers[index]
        for place in range(self._reading[index], len(readers)):
            part, gain, queue = readers[place]
            if queue.next_seconds <= now:
                count = self._batch(part, queue.arrived(now), end_seconds)
                self._finish(part, count, gain * count, queue.take(count))
                self._reading[index] = (place + 1) % len(readers)
                return True
        self._reading[index] = 0
        return False

    def _longest_waiting(self, index: int) -> OperatorPart:
        """Of the operators that a shared one feeds, the one whose first tuple is the oldest."""
        fed = (part for part in self._parts.fed[index] if part.waiting)
        return min(fed, key=lambda part: part.queue[0][1])

    def _run(self, part: OperatorPart, end_seconds: float) -> None:
        """Run an operator over what waits, as far as the turn allows."""
        waiting = part.waiting
        count = self._batch(part, waiting, end_seconds)
        results, arrival = _take(part.queue, count)
        part.waiting = waiting - count
        if count == waiting:
            for index, bit in part.places:
                self._waiting[index] ^= bit
        self._finish(part, count, results, arrival)

    def _finish(self, part: OperatorPart, count: int, results: float, arrival: float) -> None:
        """The run is over: pass the time, hand on whole results, keep the rest."""
        seconds = part.fixed_seconds + count * part.marginal_seconds
        self.now_seconds += seconds
        part.runs += 1
        part.busy_seconds += seconds
        part.taken += count
        results += part.carry
        whole = int(results + 1e-9)
        part.carry = results - whole
        if not whole:
            return
        part.produced += whole
        for index in part.answers:
            self.results[index].append((arrival, self.now_seconds, whole))
        for target, gain, gate in part.targets:
            kept = whole if gate is None else gate.passes(whole, self._rng)
            if not kept:
                continue
            if not target.waiting:
                for index, bit in target.places:
                    self._waiting[index] |= bit
            target.waiting += kept
            target.queue.append((kept, arrival, gain))


def _take(queue: deque[tuple[int, float, float]], count: int) -> tuple[float, float]:
    """Take `count` tuples; returns the results they give and their mean arrival time."""
    size, arrival, gain = queue.popleft()
    if size == count:  # by far the most frequent case
        return gain * size, arrival
    left = count
    results = weighted = 0.0
    while True:
        if size > left:
            queue.appendleft((size - left, arrival, gain))
            size = left
        left -= size
        results += gain * size
        weighted += gain * size * arrival
        if not left:
            return results, weighted / results if results else arrival
        size, arrival, gain = queue.popleft()
