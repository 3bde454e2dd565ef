"""Dead letters: dropped rows that are written down for a back-fill."""
