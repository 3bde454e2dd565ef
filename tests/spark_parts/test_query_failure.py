"""What is said when a query of a network ends with an error. No Spark."""

from __future__ import annotations

import pytest

from headgate.network import parse_network
from headgate.spark.networks.network_groups import as_it_runs
from headgate.spark.networks.operator_code import codes_of
from headgate.spark.networks.query_failure import OperatorCode, failure_of

PYTHON = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0 \
failed: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 1800, in main
    process()
  File "/shared/shop/operators.py", line {line}, in score
    return 1 / amount
           ~~^~~~~~~~
ZeroDivisionError: division by zero
 SQLSTATE: 38000

\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1097)
"""
SQL = """\
Job aborted: org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.
== SQL (line 1, position 8) ==
SELECT 1 / (id - id) AS x FROM a
       ^^^^^^^^^^^^^
"""
FILE = "/srv/shop/operators.py"
CODES = [OperatorCode("enriched", FILE, 1, 10), OperatorCode("scored", FILE, 20, 30)]


@pytest.mark.parametrize(
    ("line", "who"),
    [
        (25, "operator 'scored'"),
        (3, "operator 'enriched'"),
        (15, "one of the operators 'enriched', 'scored'"),  # a function that both call
    ],
)
def test_the_last_line_of_a_traceback_is_the_cause(line: int, who: str) -> None:
    said = failure_of("alerts", PYTHON.format(line=line), CODES)
    cause = "ZeroDivisionError: division by zero"
    assert said == f"query 'alerts': {who} (operators.py, line {line}) failed: {cause}"


def test_of_chained_errors_the_last_one_counts() -> None:
    text = "Traceback (most recent call last):\nKeyError: 1\n\nDuring handling of the above\n\n"
    said = failure_of("alerts", text + PYTHON.format(line=25), CODES)
    assert "operator 'scored'" in said
    assert said.endswith("ZeroDivisionError: division by zero")


def test_other_code_and_other_errors() -> None:
    said = failure_of("alerts", PYTHON.format(line=25), [])
    assert said == "query 'alerts': its Python code failed: ZeroDivisionError: division by zero"
    assert failure_of("a", "no disk\n at", CODES) == "query 'a' ended with an error: no disk"
    assert failure_of("a", "", []) == "query 'a' ended with an error: no reason given"


def test_sql_that_is_shown_names_its_operator() -> None:
    codes = [
        OperatorCode("x", sql="SELECT 1 / (id - id) AS x\n  FROM a"),
        OperatorCode("y", sql="SELECT 2"),
    ]
    assert failure_of("q", SQL, codes).startswith("query 'q' ended with an error in operator 'x': ")


def test_the_code_of_operators_is_found_in_their_files() -> None:
    network = parse_network("""\
network: n
nodes: {A: {capacity: 1}}
streams: {a: {rate: 1/s}}
operators:
  p: {kind: map, input: a, node: A, code: "tests.spark.network_code:doubled"}
  s: {kind: map, input: p, node: A, code: SELECT id FROM p}
  d: {kind: delay, input: s, node: A, cost: 1ms, selectivity: 1}
  gone: {kind: map, input: d, node: A, code: "tests.no_such_module:f"}
queries: {q: {input: gone}}
""")
    python, sql = codes_of(as_it_runs(network, 2))
    assert python.operator == "p"
    assert str(python.file).endswith("network_code.py")
    assert python.first_line < python.last_line
    assert sql == OperatorCode("s", sql="SELECT id FROM p")
