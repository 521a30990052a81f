"""A listing of failed jobs ends with what helps against them."""

from __future__ import annotations

from agent.actions.home import open_home
from agent.queue.types import NewJob
from tests.cli.conftest import Sapwood, widths


def test_the_listing_of_failed_jobs_ends_with_what_helps(sapwood: Sapwood) -> None:
    with open_home() as home:
        for key in ("one", "two"):
            home.enqueue(NewJob("seal", "{}", key))
        home.connection.run(
            """
            UPDATE mem_tree_jobs
               SET status = 'failed', failure_class = 'unrecoverable', failure_reason = 'model_missing',
                   failure_scope = 'box', last_error = 'it has no such model', completed_at_ms = 1
            """
        )
    ran = sapwood("jobs", "--status", "failed")
    assert "2 × model_missing of box: give the server the model" in " ".join(ran.out.split())
    assert max(widths(ran.out)) <= 80
    assert "model_missing" not in sapwood("jobs").out, "a listing of all work is a listing"
    assert sapwood("jobs", "--status", "failed", "--json").document["remedies"][0]["scope"] == "box"
