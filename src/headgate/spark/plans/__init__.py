"""Spark's plans and checkpoints: gates of a query's own, numbers that change between batches."""
