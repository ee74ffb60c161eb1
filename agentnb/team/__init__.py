"""Several agents: one as another's tool, a conversation handed over, a task split among workers, an MCP server."""
