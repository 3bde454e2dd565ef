"""The demo on Spark: a flash crowd with Headgate and without it, measured on this machine.

Depends on `headgate.spark` and everything below it; an ordinary Spark program, as a user
would write it, with a stopwatch around it. Only `job`, `capacity` and `run`
import pyspark; scenario, recording, findings and report are pure.
"""
