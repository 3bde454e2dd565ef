"""Headgate on real Spark. Each section is a module with `run(spark, hg)`.

python -m benchmarks spark                    all sections, into results/spark.json
python -m benchmarks spark.closed_loop        one section; the others stay as they were
"""
