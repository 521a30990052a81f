"""A model server that does what a test says: OpenAI's, Ollama's and Anthropic's protocols on one loopback port.

In a thread of the test (``serving``) or as a process of its own (``spawned``, ``python -m tests.scripted``), with
nothing but the standard library and Sapwood's own token estimate.
"""

from __future__ import annotations

from tests.scripted.behaviour import BEHAVIOURS, Behaviour, behave
from tests.scripted.process import Spawned, spawned
from tests.scripted.record import Call
from tests.scripted.thread import Serving, serving

__all__ = ["BEHAVIOURS", "Behaviour", "Call", "Serving", "Spawned", "behave", "serving", "spawned"]
