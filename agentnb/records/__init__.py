"""Keep what happened: recordings of model calls."""
