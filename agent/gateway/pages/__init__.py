"""The local page: what an owner reads and does in a browser, one module for each of its pages.

Every page is whole without a script; the one script there is saves clicks. What a page does is a function of
``agent.actions``, which the command line calls too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.gateway.pages.forget import ROUTES as FORGET
from agent.gateway.pages.help import ROUTES as HELP
from agent.gateway.pages.models import ROUTES as MODELS
from agent.gateway.pages.search import ROUTES as SEARCH
from agent.gateway.pages.settings import ROUTES as SETTINGS
from agent.gateway.pages.sources import ROUTES as SOURCES
from agent.gateway.pages.static import ROUTES as STATIC
from agent.gateway.pages.tree import ROUTES as TREE
from agent.gateway.pages.welcome import ROUTES as WELCOME
from agent.gateway.pages.work import ROUTES as WORK

if TYPE_CHECKING:
    from starlette.routing import Route

ROUTES: list[Route] = [
    *STATIC,
    *SEARCH,
    *TREE,
    *SOURCES,
    *FORGET,
    *WORK,
    *MODELS,
    *SETTINGS,
    *HELP,
    *WELCOME,
]
