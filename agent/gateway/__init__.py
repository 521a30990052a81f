"""The local page, JSON-RPC and the access of assistants: thin skins over ``agent.actions``."""
