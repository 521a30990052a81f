"""What ``sapwood doctor`` looks at, by where it looks: the machine, the settings, the agent, the memory."""
