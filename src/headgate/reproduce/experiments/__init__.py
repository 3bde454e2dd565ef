"""One module an experiment; see `headgate.reproduce.experiment`."""
