"""Pictures of runs: rows in, figure out; matplotlib lives here alone."""
