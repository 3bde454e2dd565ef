"""A network file on one Spark application."""
