"""What an owner sees of the agent on the desktop: the tray."""
