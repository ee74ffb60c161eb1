"""Ways to decide: tool calling, a JSON plan, a script."""
