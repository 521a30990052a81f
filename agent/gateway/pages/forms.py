"""What was typed into a form, or stands in an address, as plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request


WELCOME = "/welcome"


class Fields:
    """The fields of a form by name. What was left out, or left empty, is told alike."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def text(self, name: str) -> str:
        """Return a field without the blanks around it, ``""`` where there is none."""
        return self._values.get(name, "").strip()

    def given(self, name: str) -> str | None:
        """Return a field, ``None`` where it is empty: what is not said is not asked for."""
        return self.text(name) or None

    def is_set(self, name: str) -> bool:
        """Return whether a box is ticked."""
        return name in self._values

    def then(self, otherwise: str) -> str:
        """Return where a form leads on to: back to the first questions where it stood among them."""
        return WELCOME if self.text("then") == "welcome" else otherwise

    def lines(self, name: str) -> tuple[str, ...]:
        """Return a field's lines, those that say something."""
        return tuple(line.strip() for line in self._values.get(name, "").splitlines() if line.strip())


async def form_of(request: Request) -> Fields:
    """Return what was typed into a form that was sent."""
    async with request.form() as form:
        return Fields({name: value for name, value in form.items() if isinstance(value, str)})


def query_of(request: Request) -> Fields:
    """Return what an address asks for."""
    return Fields(dict(request.query_params))
