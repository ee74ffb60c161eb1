"""What an agent can do: run a person's functions, safely, and tell the model what came of it."""
