"""What is said once after a form was carried out, on the page that comes next.

The address carries a token, not the words: nobody can make a link that has Sapwood say something.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.applications import Starlette

KEPT = 64


@dataclass(frozen=True)
class Notice:
    """What was done, and what to know or to do next."""

    words: str
    hint: str = ""


class Notices:
    """The last ones. They stay for a while, so that a page that is loaded again says the same. Event loop only."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Notice] = OrderedDict()

    def put(self, notice: Notice) -> str:
        """Keep a notice and return its token."""
        token = secrets.token_urlsafe(9)
        self._held[token] = notice
        while len(self._held) > KEPT:
            self._held.popitem(last=False)
        return token

    def find(self, token: str) -> Notice | None:
        """Return the notice of a token, ``None`` where there is none, or none any more."""
        return self._held.get(token)


def notices_of(app: Starlette) -> Notices:
    """Return the notices of an application."""
    found: Notices | None = getattr(app.state, "notices", None)
    if found is None:
        found = app.state.notices = Notices()
    return found
