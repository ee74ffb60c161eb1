"""Many runs, side by side: tasks, scores, and what the numbers allow to be said."""
