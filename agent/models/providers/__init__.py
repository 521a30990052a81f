"""Who answers: one module for each protocol, each of them loaded only when a profile uses it."""
