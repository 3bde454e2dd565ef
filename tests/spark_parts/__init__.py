"""Parts of `headgate.spark` that need no Spark session: they run beside each other."""
