"""One digest a file, found by introspection; see `headgate.reduction.digest_contract`."""
