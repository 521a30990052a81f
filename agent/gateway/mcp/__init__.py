"""The memory for assistants, by the Model Context Protocol: on stdio (``sapwood mcp``) and on the page's address."""
