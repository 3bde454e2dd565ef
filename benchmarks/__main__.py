"""Run benchmarks by name, or all of them: `python -m benchmarks [NAME ...]`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.measure import write_results

SUPPORT = {"__init__", "__main__", "agent_load", "measure", "glpk_quadtree", "large_network"}


def main(names: list[str]) -> int:
    known = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in SUPPORT)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or known:
        print(f"measuring {name} ...", file=sys.stderr)
        results = importlib.import_module(f"benchmarks.{name}").run()
        write_results(name, f"python -m benchmarks {name}", results)
    return 0


sys.exit(main(sys.argv[1:]))
