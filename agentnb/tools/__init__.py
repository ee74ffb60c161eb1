"""From a person's function to a tool: schema, casting, threads, results. Start with `tool.py`."""
