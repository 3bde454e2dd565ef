"""The same coordinator under a virtual clock: nodes, queues, costs and arrivals.

- arrivals: `arrivals` (processes), `rate_profile`, `load_text` and `trace_file` (as typed
  and as recorded), `feeds` (into the queues);
- a run: `simulate` (the one function), `settings`, `record` (what comes out);
- micro-batches: `micro_batches` (the event loop), `batch_job`, `processor`;
- input buffers: `buffers` (the loop over periods), `input_buffer`;
- both: `jobs` (what runs together), `passage` (through operators), `links`, `tuples`,
  `results`, `latency_histogram`, `coordination` (the edge to the real coordinator);
- operator by operator, for the classes paper: `operator_*`;
- one queue of events with values, reduced by a policy: `packed_queue`.

Depends on `headgate.coordinator` and what is below. Virtual time and seeded generators
only: the same arguments give the same bytes.
"""
