"""What outlasts a run, each in one SQLite file: `notes.py` (what was learned) and `knowledge.py` (documents)."""
