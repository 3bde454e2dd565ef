"""Measurements behind every performance claim; run with `make bench`."""
