BEGIN TRANSACTION;
CREATE TABLE built (   -- adapters of groups, and the prototypes
  name TEXT PRIMARY KEY, key TEXT NOT NULL, digest TEXT NOT NULL, samples INTEGER NOT NULL, adapters INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE consumers ( -- those who may use a part of the data
  name TEXT PRIMARY KEY,
  provision INTEGER NOT NULL DEFAULT 0 -- whether groups are kept that learned from that part alone
) WITHOUT ROWID;
CREATE TABLE forgotten ( -- keyed hashes of what was forgotten, and the certificate that says so
  mark TEXT PRIMARY KEY, certificate INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE leaving ( -- the journal: what a request under way takes out; emptied before it ends
  id TEXT PRIMARY KEY, request INTEGER NOT NULL, unit TEXT NOT NULL, split TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE ledger (
  number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, event TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE TABLE moves (   -- every state that an entry of the queue has entered
  number INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, state TEXT NOT NULL, time TEXT NOT NULL
);
CREATE TABLE named ( -- keyed hashes of what an entry named: others in its certificate are not its asker's
  entry INTEGER NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (entry, mark)
) WITHOUT ROWID;
CREATE TABLE privacy ( -- what groups with private edges have released, and what was removed since
  name TEXT PRIMARY KEY, value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE provisioned ( -- adapters of groups that learned from a consumer's part alone
  consumer TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
  samples INTEGER NOT NULL, adapters INTEGER NOT NULL,
  units TEXT NOT NULL,               -- the files that they learned from, as a JSON list
  PRIMARY KEY (consumer, name)
) WITHOUT ROWID;
CREATE TABLE queue (   -- forget requests that a service was given; `wish` is emptied at the end
  number INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT NOT NULL, received TEXT NOT NULL, deadline TEXT NOT NULL,
  asker TEXT NOT NULL, reason TEXT NOT NULL, samples INTEGER NOT NULL, wish TEXT NOT NULL,
  key TEXT UNIQUE,                   -- keyed hash of who asked and the Idempotency-Key
  body TEXT NOT NULL,                -- keyed hash of what was asked under that key
  request INTEGER, certificate INTEGER, failure TEXT NOT NULL DEFAULT ''
);
CREATE TABLE requests (
  number INTEGER PRIMARY KEY, state TEXT NOT NULL, instant INTEGER NOT NULL, received TEXT NOT NULL,
  finished TEXT, samples INTEGER NOT NULL, reason TEXT NOT NULL, opening TEXT NOT NULL
);
CREATE TABLE rights (  -- which part: all training samples of a source, or of a shard
  consumer TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (consumer, kind, name)
) WITHOUT ROWID;
CREATE TABLE samples (
  id TEXT PRIMARY KEY, label TEXT NOT NULL, source TEXT NOT NULL, subject TEXT NOT NULL, split TEXT NOT NULL,
  unit TEXT NOT NULL,          -- the file that holds it now
  target TEXT                  -- the file it belongs in, once the topology is fixed
) WITHOUT ROWID;
INSERT INTO "samples" VALUES('s-000','ant','ann','p0','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-001','bee','bob','p0','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-002','cat','web','p0','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-003','dog','ann','p0','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-004','ant','bob','p1','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-005','bee','web','p1','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-006','cat','ann','p1','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-007','dog','bob','p1','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-008','ant','web','p2','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-009','bee','ann','p2','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-010','cat','bob','p2','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-011','dog','web','p2','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-012','ant','ann','p3','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-013','bee','bob','p3','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-014','cat','web','p3','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-015','dog','ann','p3','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-016','ant','bob','p4','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-017','bee','web','p4','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-018','cat','ann','p4','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-019','dog','bob','p4','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-020','ant','web','p5','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-021','bee','ann','p5','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-022','cat','bob','p5','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-023','dog','web','p5','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-024','ant','ann','p6','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-025','bee','bob','p6','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-026','cat','web','p6','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-027','dog','ann','p6','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-028','ant','bob','p7','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-029','bee','web','p7','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-030','cat','ann','p7','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-031','dog','bob','p7','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-032','ant','web','p8','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-033','bee','ann','p8','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-034','cat','bob','p8','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-035','dog','web','p8','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-036','ant','ann','p9','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-037','bee','bob','p9','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-038','cat','web','p9','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-039','dog','ann','p9','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-040','ant','bob','p10','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-041','bee','web','p10','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-042','cat','ann','p10','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-043','dog','bob','p10','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-044','ant','web','p11','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-045','bee','ann','p11','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-046','cat','bob','p11','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-047','dog','web','p11','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-048','ant','ann','p12','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-049','bee','bob','p12','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-050','cat','web','p12','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-051','dog','ann','p12','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-052','ant','bob','p13','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-053','bee','web','p13','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-054','cat','ann','p13','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-055','dog','bob','p13','test','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-056','ant','web','p14','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-057','bee','ann','p14','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-058','cat','bob','p14','train','inbox:1',NULL);
INSERT INTO "samples" VALUES('s-059','dog','web','p14','train','inbox:1',NULL);
CREATE TABLE sources ( -- what is known about who gave the data
  name TEXT PRIMARY KEY, owner TEXT NOT NULL, terms TEXT NOT NULL,
  rate REAL                          -- the share of its samples expected to be asked back in a year
) WITHOUT ROWID;
CREATE TABLE tokens (  -- who may do what; only hashes of the tokens are kept
  name TEXT PRIMARY KEY, role TEXT NOT NULL, sources TEXT NOT NULL, hash TEXT NOT NULL, created TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE units (   -- files of samples: inbox chunks, shards, held-out buckets
  name TEXT PRIMARY KEY, digest TEXT NOT NULL,
  dirty INTEGER NOT NULL DEFAULT 0   -- being rewritten: the file may be the old one or the new one
) WITHOUT ROWID;
INSERT INTO "units" VALUES('inbox:1','311130e35240a15bfaf713c68121a8f1ea6ba5993b1ea651b90faae738a6f791',0);
CREATE TABLE withheld ( -- samples whose adapters are out of service while their request waits
  id TEXT NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY (id, entry)
) WITHOUT ROWID;
CREATE INDEX by_unit ON samples (unit, label);
CREATE INDEX by_target ON samples (target) WHERE target IS NOT NULL;
CREATE INDEX by_source ON samples (source);
CREATE INDEX by_person ON samples (subject);
CREATE INDEX by_label ON samples (label);
CREATE INDEX by_state ON queue (state);
CREATE INDEX by_request ON queue (request);
CREATE INDEX by_mark ON named (mark);
CREATE INDEX by_entry ON moves (entry);
CREATE INDEX by_event ON ledger (event);
DELETE FROM "sqlite_sequence";
COMMIT;
