"""The façade: one function per thing that an owner can do. Command line, tray, page and RPC call the same."""
