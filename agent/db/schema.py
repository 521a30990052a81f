"""The tables of ``chunks.db``, version by version.

Names follow the seeds (``mem_tree_*``). A migration is a list of statements that takes the version before it one step
on; a published one is never edited. What each table means stands beside it, for ``doctor`` and for readers with a
shell.
"""

from __future__ import annotations

APPLICATION_ID = 0x5A9D0001

_V1 = """
-- Facts about the sources of the intent, learned by looking at them.
CREATE TABLE mem_tree_sources (
  source_id     TEXT PRIMARY KEY,
  kind          TEXT NOT NULL,
  last_sync_ms  INTEGER,
  last_error    TEXT,
  synced_items  INTEGER NOT NULL DEFAULT 0
) STRICT;

-- One row per file of a source: an unchanged stamp spares the reading.
CREATE TABLE mem_tree_files (
  source_id  TEXT NOT NULL,
  path       TEXT NOT NULL,
  size       INTEGER NOT NULL,
  mtime_ns   INTEGER NOT NULL,
  inode      INTEGER NOT NULL,
  file_hash  TEXT,
  state      TEXT NOT NULL,
  reason     TEXT,
  PRIMARY KEY (source_id, path)
) STRICT, WITHOUT ROWID;

-- One row per item (a document, a mail, a conversation's day). seen_hash is what the last look saw, held_hash what the
-- chunks came from; where they differ there is work, whether a job says so or not.
CREATE TABLE mem_tree_items (
  item_seq     INTEGER PRIMARY KEY,
  source_id    TEXT NOT NULL,
  item_key     TEXT NOT NULL,
  source_kind  TEXT NOT NULL,
  place        TEXT NOT NULL,           -- JSON: where the reader finds it again
  title        TEXT,
  time_ms      INTEGER,
  sort_key     BLOB NOT NULL,           -- order among the items of its source
  seen_hash    TEXT,
  held_hash    TEXT,
  version_ms   INTEGER,                 -- when the held version was stored
  grown_hash   TEXT,                    -- document: the held_hash whose root stands in the source's tree
  state        TEXT NOT NULL,
  reason       TEXT,
  UNIQUE (source_id, item_key)
) STRICT;
CREATE INDEX mem_tree_items_by_state ON mem_tree_items (source_id, state, sort_key);
CREATE INDEX mem_tree_items_ungrown ON mem_tree_items (source_id, sort_key)
  WHERE source_kind = 'document' AND held_hash IS NOT grown_hash;

CREATE TABLE mem_tree_chunks (
  seq                 INTEGER PRIMARY KEY AUTOINCREMENT,
  chunk_id            TEXT NOT NULL UNIQUE,
  source_kind         TEXT NOT NULL,
  source_id           TEXT NOT NULL,
  item_key            TEXT NOT NULL,
  item_seq            INTEGER NOT NULL REFERENCES mem_tree_items (item_seq),
  position            INTEGER NOT NULL, -- occurrence number of this body within its item
  body_hash           TEXT NOT NULL,
  order_key           INTEGER NOT NULL, -- order within its item; gaps are left for what comes between
  sort_key            BLOB NOT NULL,    -- its item's sort_key
  break_key           INTEGER NOT NULL, -- changes where a thread, a day or a section begins
  time_ms             INTEGER,
  author              TEXT,
  reference           TEXT,             -- Message-ID, turn id: what the source calls this place
  title               TEXT,
  heading_path        TEXT,
  locator             TEXT NOT NULL,    -- JSON: path and lines or bytes in it
  tokens              INTEGER NOT NULL,
  text                TEXT NOT NULL,
  lifecycle           TEXT NOT NULL,
  degraded            INTEGER NOT NULL DEFAULT 0,
  embedded_signature  INTEGER,          -- signature whose vector is stored; -1: needs none
  created_at_ms       INTEGER NOT NULL
) STRICT;
CREATE INDEX mem_tree_chunks_by_item ON mem_tree_chunks (item_seq, order_key);
CREATE INDEX mem_tree_chunks_pending ON mem_tree_chunks (source_id, sort_key) WHERE lifecycle = 'pending_extraction';
CREATE INDEX mem_tree_chunks_admitted ON mem_tree_chunks (source_id, sort_key) WHERE lifecycle = 'admitted';
CREATE INDEX mem_tree_chunks_embedded ON mem_tree_chunks (embedded_signature);

CREATE TABLE mem_tree_score (
  chunk_seq      INTEGER PRIMARY KEY REFERENCES mem_tree_chunks (seq) ON DELETE CASCADE,
  fast           REAL NOT NULL,
  deep           REAL,
  importance     REAL,
  signals        TEXT NOT NULL,         -- JSON: each signal that was there; a missing one is absent, not 0.5
  score_version  INTEGER NOT NULL,
  decided_at_ms  INTEGER
) STRICT;

CREATE TABLE mem_tree_entity_index (
  entity     TEXT NOT NULL,             -- normalised form
  kind       TEXT NOT NULL,
  chunk_seq  INTEGER NOT NULL REFERENCES mem_tree_chunks (seq) ON DELETE CASCADE,
  surface    TEXT NOT NULL,             -- as written
  mentions   INTEGER NOT NULL,
  PRIMARY KEY (entity, kind, chunk_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX mem_tree_entity_index_by_chunk ON mem_tree_entity_index (chunk_seq);

CREATE TABLE mem_tree_jobs (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  kind             TEXT NOT NULL,
  payload_json     TEXT NOT NULL,
  dedupe_key       TEXT,
  status           TEXT NOT NULL,
  attempts         INTEGER NOT NULL DEFAULT 0,
  max_attempts     INTEGER NOT NULL,
  crashes          INTEGER NOT NULL DEFAULT 0,
  rerun            INTEGER NOT NULL DEFAULT 0,
  rerun_payload    TEXT,                -- payload of the newest enqueue that met this row running
  rerun_input_hash TEXT,
  available_at_ms  INTEGER NOT NULL,
  locked_until_ms  INTEGER,
  locked_by        TEXT,
  lease_token      TEXT,
  last_error       TEXT,
  failure_reason   TEXT,
  failure_class    TEXT,
  input_hash       TEXT,                -- what the job looked at; changed input re-opens a parked key
  heals            INTEGER NOT NULL DEFAULT 0,
  created_at_ms    INTEGER NOT NULL,
  progress_at_ms   INTEGER,             -- last time it moved anything; a defer's age counts from here
  started_at_ms    INTEGER,
  completed_at_ms  INTEGER,
  -- Where a row stands in the line of its kind, and since or until when.
  phase            INTEGER GENERATED ALWAYS AS (
    CASE status
      WHEN 'done' THEN 0 WHEN 'running' THEN 1 WHEN 'ready' THEN 2 WHEN 'failed' THEN 3 WHEN 'cancelled' THEN 4
    END) VIRTUAL,
  at_ms            INTEGER GENERATED ALWAYS AS (
    CASE status WHEN 'ready' THEN available_at_ms WHEN 'running' THEN locked_until_ms ELSE completed_at_ms END) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX mem_tree_jobs_dedupe ON mem_tree_jobs (dedupe_key)
  WHERE dedupe_key IS NOT NULL AND status IN ('ready', 'running');
-- The newest row of a key in any status: sweeps, flush blocks, requeueing. Untouched by claims and settles.
CREATE INDEX mem_tree_jobs_by_key ON mem_tree_jobs (dedupe_key, id) WHERE dedupe_key IS NOT NULL;
-- One index for claiming, recovery, pruning and counting. Its order is the point: the rows just done, the running ones
-- and the next due ones of a kind are neighbours, so that a job's whole life dirties one page of it, where an index per
-- status wrote 5.3 pages a job instead of 3.2.
CREATE INDEX mem_tree_jobs_line ON mem_tree_jobs (kind, phase, at_ms);
-- The kinds there are, one seek each.
CREATE VIEW mem_tree_job_kinds (kind) AS
  WITH RECURSIVE found (kind) AS (
    SELECT min(kind) FROM mem_tree_jobs
    UNION ALL
    SELECT (SELECT min(kind) FROM mem_tree_jobs WHERE kind > found.kind) FROM found WHERE found.kind IS NOT NULL
  )
  SELECT kind FROM found WHERE kind IS NOT NULL;

CREATE TABLE mem_tree_trees (
  tree_seq         INTEGER PRIMARY KEY,
  tree_id          TEXT NOT NULL UNIQUE,
  kind             TEXT NOT NULL,
  source_id        TEXT NOT NULL,
  item_key         TEXT,
  shape_version    INTEGER NOT NULL,
  max_level        INTEGER NOT NULL DEFAULT 0,
  root_id          TEXT,                -- the node that covers all of it; a chunk where there is one only
  root_kind        TEXT,
  version_hash     TEXT,                -- document trees: the held_hash that the finished shape belongs to
  flush_before_ms  INTEGER,             -- tails added before this are to be closed
  had_root         INTEGER NOT NULL DEFAULT 0, -- 1: it was finished once; its upper tails are kept closed since
  updated_at_ms    INTEGER NOT NULL
) STRICT;
CREATE INDEX mem_tree_trees_by_scope ON mem_tree_trees (source_id, item_key);

-- Nodes of a level that have no live parent, in the order of the level.
CREATE TABLE mem_tree_buffers (
  tree_seq     INTEGER NOT NULL REFERENCES mem_tree_trees (tree_seq) ON DELETE CASCADE,
  level        INTEGER NOT NULL,
  sort_key     BLOB NOT NULL,
  node_id      TEXT NOT NULL,
  node_kind    TEXT NOT NULL,
  shape_id     TEXT NOT NULL,
  leaf_id      TEXT NOT NULL,           -- its last leaf: what the boundary hash looks at
  tokens       INTEGER NOT NULL,
  first_break  INTEGER NOT NULL,        -- break_key of its first leaf
  last_break   INTEGER NOT NULL,        -- break_key of its last leaf
  last_key     BLOB NOT NULL,           -- sort_key of its last leaf
  provisional  INTEGER NOT NULL DEFAULT 0,
  added_at_ms  INTEGER NOT NULL,
  PRIMARY KEY (tree_seq, level, sort_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX mem_tree_buffers_by_node ON mem_tree_buffers (node_id);
CREATE INDEX mem_tree_buffers_by_age ON mem_tree_buffers (level, added_at_ms);

-- Nodes of a level that have a parent (or are the root: parent_id = ''). A node whose parent_id is its own id stood
-- alone in its group and went up a level as itself.
CREATE TABLE mem_tree_edges (
  tree_seq     INTEGER NOT NULL REFERENCES mem_tree_trees (tree_seq) ON DELETE CASCADE,
  level        INTEGER NOT NULL,
  sort_key     BLOB NOT NULL,
  node_id      TEXT NOT NULL,
  node_kind    TEXT NOT NULL,
  shape_id     TEXT NOT NULL,
  leaf_id      TEXT NOT NULL,
  tokens       INTEGER NOT NULL,
  first_break  INTEGER NOT NULL,
  last_break   INTEGER NOT NULL,
  last_key     BLOB NOT NULL,
  provisional  INTEGER NOT NULL DEFAULT 0,
  parent_id    TEXT NOT NULL,
  PRIMARY KEY (tree_seq, level, sort_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX mem_tree_edges_by_node ON mem_tree_edges (node_id);
CREATE INDEX mem_tree_edges_by_parent ON mem_tree_edges (parent_id);

-- Live summaries only: one that no longer belongs to its tree's shape is deleted, text, index and vectors.
CREATE TABLE mem_tree_summaries (
  seq                 INTEGER PRIMARY KEY AUTOINCREMENT,
  summary_id          TEXT NOT NULL UNIQUE,
  shape_id            TEXT NOT NULL,
  tree_seq            INTEGER NOT NULL REFERENCES mem_tree_trees (tree_seq),
  source_id           TEXT NOT NULL,
  level               INTEGER NOT NULL,
  sort_key            BLOB NOT NULL,
  title               TEXT,
  text                TEXT NOT NULL,
  tokens              INTEGER NOT NULL,
  leaves              INTEGER NOT NULL,
  first_time_ms       INTEGER,
  last_time_ms        INTEGER,
  signature           TEXT NOT NULL,
  provisional         INTEGER NOT NULL DEFAULT 0, -- closes a tail that may still grow
  degraded            INTEGER NOT NULL DEFAULT 0, -- made by the fallback; to be made again
  stale               INTEGER NOT NULL DEFAULT 0, -- a child left or changed; to be made again
  embedded_signature  INTEGER,
  created_at_ms       INTEGER NOT NULL
) STRICT;
CREATE INDEX mem_tree_summaries_by_tree ON mem_tree_summaries (tree_seq, level, sort_key);
CREATE INDEX mem_tree_summaries_by_shape ON mem_tree_summaries (shape_id);
CREATE INDEX mem_tree_summaries_stale ON mem_tree_summaries (tree_seq, level, sort_key) WHERE stale = 1;
CREATE INDEX mem_tree_summaries_embedded ON mem_tree_summaries (embedded_signature);

-- Full text over both. rowid = chunk seq, or minus the summary seq. The words are not stored twice: a row is taken out
-- by handing in the same text again (agent/db/text_index.py).
CREATE VIRTUAL TABLE mem_tree_text USING fts5 (
  body,
  content = '',
  tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO mem_tree_text (mem_tree_text, rank) VALUES ('secure-delete', 1);

CREATE TABLE mem_tree_signatures (
  signature_id  INTEGER PRIMARY KEY,
  signature     TEXT NOT NULL UNIQUE    -- provider:model@dim
) STRICT;

-- int8 windows of one node under one signature, node as in mem_tree_text.
CREATE TABLE mem_tree_vectors (
  signature_id  INTEGER NOT NULL REFERENCES mem_tree_signatures (signature_id),
  node          INTEGER NOT NULL,
  windows       BLOB NOT NULL,          -- n x dim signed bytes
  PRIMARY KEY (signature_id, node)
) STRICT, WITHOUT ROWID;

-- Validated answers of models per unit of work, so that a crash never pays twice.
CREATE TABLE mem_tree_results (
  task           TEXT NOT NULL,
  template_hash  TEXT NOT NULL,
  signature      TEXT NOT NULL,
  input_hash     TEXT NOT NULL,
  node_id        TEXT NOT NULL,
  result         TEXT NOT NULL,
  created_at_ms  INTEGER NOT NULL,
  PRIMARY KEY (task, template_hash, signature, input_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX mem_tree_results_by_node ON mem_tree_results (node_id);

-- One row per live worker: how to wake it.
CREATE TABLE mem_tree_workers (
  worker_id      TEXT PRIMARY KEY,
  pid            INTEGER NOT NULL,
  started_at_ms  INTEGER NOT NULL,
  wake_port      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Single values: pause, sweep cursors, schedule marks.
CREATE TABLE mem_tree_state (
  key    TEXT PRIMARY KEY,
  value  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""

_V2 = """
-- Secrets that were masked in the held version.
ALTER TABLE mem_tree_items ADD COLUMN masked INTEGER NOT NULL DEFAULT 0;
-- 1: the watcher saw it change; it is read before what a first look found.
ALTER TABLE mem_tree_items ADD COLUMN urgent INTEGER NOT NULL DEFAULT 0;
CREATE INDEX mem_tree_items_urgent ON mem_tree_items (source_id, state, sort_key) WHERE urgent = 1;

-- Hash of the last bytes as of the last look: a file that only grew is read from there on.
ALTER TABLE mem_tree_files ADD COLUMN tail_hash TEXT;

-- How long the last whole look took (ms), and by which version of the readers its items were read.
ALTER TABLE mem_tree_sources ADD COLUMN look_ms INTEGER;
ALTER TABLE mem_tree_sources ADD COLUMN reading_version INTEGER NOT NULL DEFAULT 1;

-- Hash of all that its text was made from: a child that came back as it was is told from one with another title.
ALTER TABLE mem_tree_summaries ADD COLUMN input_hash TEXT;

-- What a look must not decide alone: one open question a source at most. Answers stand in the ledger.
CREATE TABLE mem_tree_questions (
  source_id    TEXT PRIMARY KEY,
  question_id  TEXT NOT NULL,           -- hash of what is no longer there: another loss is another question
  gone         INTEGER NOT NULL,        -- items no longer there
  held         INTEGER NOT NULL,        -- items that were held
  examples     TEXT NOT NULL,           -- JSON: a few of their keys
  asked_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

_V3 = """
-- Why a job waits or failed is some model profile's matter: mending that one requeues what it parked.
ALTER TABLE mem_tree_jobs ADD COLUMN failure_scope TEXT;

-- Kinds that may call a model are not claimed for this profile before until_ms: no row is written for that.
CREATE TABLE mem_tree_holds (
  scope       TEXT PRIMARY KEY,         -- name of the profile
  code        TEXT NOT NULL,            -- a word of states.Hold
  reason      TEXT NOT NULL,            -- for its owner: what happened and what to do
  until_ms    INTEGER NOT NULL,         -- then one job is tried again
  failures    INTEGER NOT NULL DEFAULT 0, -- failed calls in a row
  openings    INTEGER NOT NULL DEFAULT 0, -- how often in a row it was opened: each waits for longer
  changed_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was sent to models and what it cost, by day of the owner's zone.
CREATE TABLE mem_tree_usage (
  day         TEXT NOT NULL,            -- ISO date
  profile     TEXT NOT NULL,
  model       TEXT NOT NULL,
  kind        TEXT NOT NULL,            -- kind of job, or what else asked: search, test
  calls       INTEGER NOT NULL,
  invalid     INTEGER NOT NULL,         -- of these: answered, and the answer was of no use
  estimated   INTEGER NOT NULL,         -- of these: counted here, because the server did not say
  tokens_in   INTEGER NOT NULL,
  tokens_out  INTEGER NOT NULL,
  cost_micros INTEGER NOT NULL,         -- millionths of a US dollar, at the prices of its time
  PRIMARY KEY (day, profile, model, kind)
) STRICT, WITHOUT ROWID;

-- Units of work whose answers were of no use so far: the next run asks once more, then the fallback stands in.
CREATE TABLE mem_tree_attempts (
  task           TEXT NOT NULL,
  template_hash  TEXT NOT NULL,
  signature      TEXT NOT NULL,
  input_hash     TEXT NOT NULL,
  tries          INTEGER NOT NULL,
  problem        TEXT NOT NULL,         -- which rule the last answer broke; none of its words
  at_ms          INTEGER NOT NULL,
  PRIMARY KEY (task, template_hash, signature, input_hash)
) STRICT, WITHOUT ROWID;

-- Every node that a stored answer was made from: forgetting any of them finds it.
CREATE TABLE mem_tree_result_inputs (
  node_id     TEXT NOT NULL,
  input_hash  TEXT NOT NULL,            -- of the row in mem_tree_results
  PRIMARY KEY (node_id, input_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX mem_tree_result_inputs_by_hash ON mem_tree_result_inputs (input_hash);
CREATE INDEX mem_tree_results_by_hash ON mem_tree_results (input_hash);
INSERT INTO mem_tree_result_inputs (node_id, input_hash)
  SELECT DISTINCT node_id, input_hash FROM mem_tree_results;
-- degraded counts how often in a row the fallback stood in, four at most: the more often, the rarer it is tried again.
CREATE INDEX mem_tree_summaries_degraded ON mem_tree_summaries (degraded, created_at_ms) WHERE degraded > 0;
CREATE INDEX mem_tree_chunks_degraded ON mem_tree_chunks (seq) WHERE degraded > 0;

-- embedded_signature is the newest signature a node was embedded at; -1: needs none, -2: of a private source while a
-- cloud's model embeds. A row without windows says that the model refused the text. What serves searches is one row of
-- mem_tree_state until another signature covers as much.
CREATE INDEX mem_tree_vectors_refused ON mem_tree_vectors (signature_id, node) WHERE windows = x'';
INSERT INTO mem_tree_state (key, value)
  SELECT 'serving_signature', s.signature
    FROM mem_tree_signatures AS s
   WHERE EXISTS (SELECT 1 FROM mem_tree_vectors AS v WHERE v.signature_id = s.signature_id)
   ORDER BY (SELECT count(*) FROM mem_tree_chunks AS c WHERE c.embedded_signature = s.signature_id) DESC
   LIMIT 1;
"""

MIGRATIONS: tuple[str, ...] = (_V1, _V2, _V3)
SCHEMA_VERSION = len(MIGRATIONS)
