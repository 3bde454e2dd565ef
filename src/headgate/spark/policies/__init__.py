"""Reduction policies at a gate."""
