-- The first layout. In a catalogue of before migrations were numbered, it adds what that one lacks;
-- there, user_version 1 meant that names were deleted and their copies not yet overwritten.
CREATE TABLE IF NOT EXISTS samples (
  id TEXT PRIMARY KEY, label TEXT NOT NULL, source TEXT NOT NULL, subject TEXT NOT NULL, split TEXT NOT NULL,
  unit TEXT NOT NULL,          -- the file that holds it now
  target TEXT                  -- the file it belongs in, once the topology is fixed
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_unit ON samples (unit, label);
CREATE INDEX IF NOT EXISTS by_target ON samples (target) WHERE target IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_source ON samples (source);
DROP INDEX IF EXISTS by_subject;     -- partial: `subject = ?` cannot use it
CREATE INDEX IF NOT EXISTS by_person ON samples (subject);
CREATE INDEX IF NOT EXISTS by_label ON samples (label);
CREATE TABLE IF NOT EXISTS units (   -- files of samples: inbox chunks, shards, held-out buckets
  name TEXT PRIMARY KEY, digest TEXT NOT NULL,
  dirty INTEGER NOT NULL DEFAULT 0   -- being rewritten: the file may be the old one or the new one
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS built (   -- adapters of groups, and the prototypes
  name TEXT PRIMARY KEY, key TEXT NOT NULL, digest TEXT NOT NULL, samples INTEGER NOT NULL, adapters INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (
  number INTEGER PRIMARY KEY, state TEXT NOT NULL, instant INTEGER NOT NULL, received TEXT NOT NULL,
  finished TEXT, samples INTEGER NOT NULL, reason TEXT NOT NULL, opening TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS leaving ( -- the journal: what a request under way takes out; emptied before it ends
  id TEXT PRIMARY KEY, request INTEGER NOT NULL, unit TEXT NOT NULL, split TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS forgotten ( -- keyed hashes of what was forgotten, and the certificate that says so
  mark TEXT PRIMARY KEY, certificate INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sources ( -- what is known about who gave the data
  name TEXT PRIMARY KEY, owner TEXT NOT NULL, terms TEXT NOT NULL,
  rate REAL                          -- the share of its samples expected to be asked back in a year
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS privacy ( -- what groups with private edges have released, and what was removed since
  name TEXT PRIMARY KEY, value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue (   -- forget requests that a service was given; `wish` is emptied at the end
  number INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT NOT NULL, received TEXT NOT NULL, deadline TEXT NOT NULL,
  asker TEXT NOT NULL, reason TEXT NOT NULL, samples INTEGER NOT NULL, wish TEXT NOT NULL,
  key TEXT UNIQUE,                   -- keyed hash of who asked and the Idempotency-Key
  body TEXT NOT NULL,                -- keyed hash of what was asked under that key
  request INTEGER, certificate INTEGER, failure TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS by_state ON queue (state);
CREATE INDEX IF NOT EXISTS by_request ON queue (request);
CREATE TABLE IF NOT EXISTS withheld ( -- samples whose adapters are out of service while their request waits
  id TEXT NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (id, entry)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS named ( -- keyed hashes of what an entry named: others in its certificate are not its asker's
  entry INTEGER NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (entry, mark)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_mark ON named (mark);
CREATE TABLE IF NOT EXISTS moves (   -- every state that an entry of the queue has entered
  number INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, state TEXT NOT NULL, time TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_entry ON moves (entry);
CREATE TABLE IF NOT EXISTS tokens (  -- who may do what; only hashes of the tokens are kept
  name TEXT PRIMARY KEY, role TEXT NOT NULL, sources TEXT NOT NULL, hash TEXT NOT NULL, created TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ledger (
  number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, event TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_event ON ledger (event);
CREATE TABLE IF NOT EXISTS consumers ( -- those who may use a part of the data
  name TEXT PRIMARY KEY,
  provision INTEGER NOT NULL DEFAULT 0 -- whether groups are kept that learned from that part alone
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rights (  -- which part: all training samples of a source, or of a shard
  consumer TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (consumer, kind, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS provisioned ( -- adapters of groups that learned from a consumer's part alone
  consumer TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
  samples INTEGER NOT NULL, adapters INTEGER NOT NULL,
  units TEXT NOT NULL,               -- the files that they learned from, as a JSON list
  PRIMARY KEY (consumer, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (   -- facts about the catalogue itself
  name TEXT PRIMARY KEY, value TEXT NOT NULL
) WITHOUT ROWID;
INSERT OR REPLACE INTO state SELECT 'dirty', '1' FROM pragma_user_version WHERE user_version = 1;
PRAGMA user_version = 0;
CREATE TABLE migrations (            -- what was applied to this catalogue, and when
  number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied TEXT NOT NULL
);
