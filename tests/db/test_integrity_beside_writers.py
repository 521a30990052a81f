"""A sound memory is called sound on a connection that looked before others wrote."""

from __future__ import annotations

import random

from agent.db import Connection, connect
from agent.db.check_text import index_structure
from agent.db.integrity import damage, findings
from agent.db.text_index import add_text
from agent.paths import Paths


def test_what_others_wrote_since_the_last_look_is_no_damage(paths: Paths, connection: Connection) -> None:
    chance = random.Random(3)
    looking = connect(paths.database)
    for look in range(12):
        with connection.write():
            for node in range(1, 40):
                words = " ".join(f"w{chance.randrange(3000)}" for _ in range(200))
                add_text(connection, look * 100 + node, None, None, words)
        assert damage(looking, lambda: False, deep=bool(look % 2)) == []
        assert findings(looking, deep=False) == []
        with looking.snapshot():
            assert list(index_structure(looking)) == []
    looking.close()
