"""The checks of a set-up: `%agent doctor`, `python -m agentnb doctor`, `agentnb.doctor.checks.checks()`."""
