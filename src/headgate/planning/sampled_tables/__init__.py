"""The papers' feasible input tables: sampled points, merged upstream (2007, section 6)."""
