"""What an owner agrees to with a cloud profile: what is sent where, and about how much of it there is to send now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.profile_intent import ProfileIntent

DOUBTFUL_LOW, DOUBTFUL_HIGH = 0.03, 0.5
"""The share of new chunks that a model is asked about: 0.5 % of documents, 5 % of chats, 47 % of mails (measured)."""
SUMMED = 1.25
"""All levels of summaries read so much of the chunks' tokens: each level reads a fifth of the one below."""
QUESTION_TOKENS = 450  # the words of a question besides its content
CHUNKS_A_CALL = 6.0  # 164 calls for summaries of 1,000 chunks (measured)
ANSWER_LOW, ANSWER_HIGH = 80, 400
LOW, HIGH = 0.8, 1.3
UNREAD_TOKENS = 400
"""Of an item, where none was read yet."""

_LOOKED_AT = "SELECT source_id FROM mem_tree_sources WHERE last_sync_ms IS NOT NULL"


@dataclass(frozen=True)
class Backlog:
    """About what is to be sent now: tokens in and out, at least and at most, and what that costs in US dollars.

    ``chunks`` are those that wait, ``unread`` the items that nobody has read yet, ``cost_*`` ``None`` without prices.
    """

    chunks: int
    unread: int
    tokens_in_low: int
    tokens_in_high: int
    tokens_out_low: int
    tokens_out_high: int
    cost_low: float | None
    cost_high: float | None
    is_known: bool = True
    """Whether every source was looked at: what is in one that was not is in no number here."""


@dataclass(frozen=True)
class Sending:
    """What goes to a cloud profile's host: from which sources, from which never, and of what kind."""

    host: str
    sources: tuple[str, ...]
    private: tuple[str, ...]
    kinds: tuple[str, ...]


def what_is_sent(intent: Intent, profile: ProfileIntent) -> Sending:
    """Return what an owner agrees to. Pure."""
    kinds = [
        "the text of new notes, mails and chats, group by group, for their summaries",
        "single passages of which the built-in rules cannot say whether they matter",
    ]
    if profile.embedding_model:
        kinds += ["every passage and summary, for searching by meaning", "what you type into a search"]
    return Sending(
        profile.host,
        tuple(source.id for source in intent.sources if not source.private),
        tuple(source.id for source in intent.sources if source.private),
        tuple(kinds),
    )


def estimate_backlog(connection: Connection, intent: Intent, profile: ProfileIntent) -> Backlog:
    """Return about how much would be sent now. Reads a count and a sum for each source; later items are not in it.

    Summaries that stand are kept until what is below them changes, so only what is not in a tree yet counts, and with
    an embedding model everything.
    """
    waiting = tokens = everything = unread = read = to_come = 0
    for source_id, chunks, open_chunks, open_tokens, all_tokens in connection.all(
        """
        SELECT source_id, count(*), sum(lifecycle IN ('pending_extraction', 'admitted', 'buffered')),
               sum(CASE WHEN lifecycle IN ('pending_extraction', 'admitted', 'buffered') THEN tokens ELSE 0 END),
               sum(tokens)
          FROM mem_tree_chunks
         WHERE lifecycle <> 'dropped'
         GROUP BY source_id
        """
    ):
        if intent.is_private(source_id):
            continue
        waiting, tokens, everything = waiting + open_chunks, tokens + open_tokens, everything + all_tokens
        read += chunks
    for source_id, found, known in connection.all(
        "SELECT source_id, sum(state = 'found'), count(*) FROM mem_tree_items GROUP BY source_id"
    ):
        if not intent.is_private(source_id):
            unread += found
            # What waits to be read is taken to be like what was read.
            done = max(1, known - found)
            to_come += round(everything / done) * found if everything else found * UNREAD_TOKENS
            waiting += round(read / done) * found if read else found
    embedded = everything + to_come if profile.embedding_model else 0
    looked = {source_id for (source_id,) in connection.all(_LOOKED_AT)}
    is_known = all(source.private or source.id in looked for source in intent.sources)
    return replace(_priced(waiting, unread, tokens + to_come, embedded, profile), is_known=is_known)


def _priced(chunks: int, unread: int, tokens: int, embedded: int, profile: ProfileIntent) -> Backlog:
    calls = chunks / CHUNKS_A_CALL
    read_in = tokens * SUMMED + calls * QUESTION_TOKENS
    low = LOW * (read_in + tokens * DOUBTFUL_LOW) + embedded
    high = HIGH * (read_in + tokens * DOUBTFUL_HIGH) + embedded * 1.5
    out_low, out_high = calls * ANSWER_LOW, calls * ANSWER_HIGH + chunks * DOUBTFUL_HIGH * 60
    return Backlog(
        chunks,
        unread,
        round(low),
        round(high),
        round(out_low),
        round(out_high),
        _cost(low, out_low, profile),
        _cost(high, out_high, profile),
    )


def _cost(tokens_in: float, tokens_out: float, profile: ProfileIntent) -> float | None:
    if profile.price_in is None or profile.price_out is None:
        return None
    return round((tokens_in * profile.price_in + tokens_out * profile.price_out) / 1e6, 2)
