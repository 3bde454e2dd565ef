"""Tuples on the way from node to node: delay, and bytes in a row on a limited link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headgate.network import Arc, Network

__all__ = ["Links", "finish_times"]

Floats = NDArray[np.float64]


def finish_times(ready: Floats, service: Floats, free_at: float) -> Floats:
    """When a server that works in order finishes each of its tuples.

    finish[i] = max(ready[i], finish[i - 1]) + service[i], with finish[-1] = free_at.

    >>> finish_times(np.array([0.0, 0.1, 5.0]), np.array([1.0, 1.0, 1.0]), 0.5).tolist()
    [1.5, 2.5, 6.0]
    """
    work = np.cumsum(service)
    begin = np.maximum.accumulate(np.maximum(ready, free_at) - (work - service))
    finish: Floats = begin + work
    return finish


class Links:
    """All links of a network. A pair of nodes without a link has no limit, only the delay."""

    def __init__(self, network: Network, delay_seconds: float) -> None:
        self._network = network
        self.delay_seconds = delay_seconds
        self._bandwidth = {link.name: link.bandwidth_bytes_per_second for link in network.links}
        self._free_at: dict[str, float] = {}

    def arrival_times(self, arc: Arc, sent: Floats) -> Floats:
        """When tuples that are sent at sorted times `sent` reach the other node."""
        network = self._network
        source, target = network.node_of(arc.source), network.node_of(arc.target)
        if source == target or len(sent) == 0:
            return sent
        name = f"{source}->{target}"
        size = network.operator_by_name[arc.source].tuple_bytes or 0.0
        bandwidth = self._bandwidth.get(name, 0.0)
        if bandwidth > 0.0 and size > 0.0:
            each = np.full(len(sent), size / bandwidth)
            sent = finish_times(sent, each, self._free_at.get(name, 0.0))
            self._free_at[name] = float(sent[-1])
        return sent + self.delay_seconds
