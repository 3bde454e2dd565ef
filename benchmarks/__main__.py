"""Run benchmarks by name, or all of them: `python -m benchmarks [NAME ...]`.

A name is a file (`planning`), `spark`, or one section of it (`spark.closed_loop`), which
replaces that section in results/spark.json and leaves the others.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.measure import write_results, write_section

HERE = Path(__file__).parent
SUPPORT = {"__init__", "__main__", "measure", "glpk_quadtree", "large_network"}
SPARK_SECTIONS = (
    "overhead",
    "half_capacity",
    "closed_loop",
    "closed_loop_with_state",
    "source_gate",
    "policy_gate",
    "classes",
    "agent_load",
    "networks",
    "kills",
    "paper_experiment",
)


def main(names: list[str]) -> int:
    files = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in SUPPORT)
    sections = [f"spark.{section}" for section in SPARK_SECTIONS]
    unknown = [name for name in names if name not in (*files, "spark", *sections)]
    if unknown:
        known = ", ".join((*files, "spark", *sections))
        print(f"no benchmark {', '.join(unknown)}; there are {known}", file=sys.stderr)
        return 2
    for name in names or [*files, "spark"]:
        if name == "spark":
            for section in sections:
                measure(section)
        else:
            measure(name)
    return 0


def measure(name: str) -> None:
    print(f"measuring {name} ...", file=sys.stderr)
    module = importlib.import_module(f"benchmarks.{name}")
    command = f"python -m benchmarks {name}"
    if name.startswith("spark."):
        write_section("spark", name.removeprefix("spark."), command, module.run())
    else:
        write_results(name, command, module.run())


if __name__ == "__main__":  # benchmarks start processes of their own, which import this file
    sys.exit(main(sys.argv[1:]))
