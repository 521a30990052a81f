"""Whether the first screen is still to be shown: until a source is named, or its owner has skipped it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.db.state import get_state, set_state

if TYPE_CHECKING:
    from agent.actions.home import Home

WELCOME_KEY = "welcome_skipped"


def is_welcome_due(home: Home) -> bool:
    """Return whether nothing is named to be remembered yet, and the three questions were not skipped."""
    return not home.intent.sources and get_state(home.connection, WELCOME_KEY) is None


def skip_welcome(home: Home) -> None:
    """Keep that the three questions are not to be asked again by themselves. They stay at ``/welcome``."""
    with home.connection.write():
        set_state(home.connection, WELCOME_KEY, "1")
