"""One filter a file, found by introspection; see `headgate.reduction.contract`."""
