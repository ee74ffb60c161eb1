"""Values, protocols and the loop. Read `state.py`, `planner.py`, `runtime.py`, in this order."""
