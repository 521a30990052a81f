"""One module per reader: what turns a folder, a mailbox or a log into items."""
