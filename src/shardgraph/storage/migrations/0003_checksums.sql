-- Sums of the rows of every table, by part; see `storage.catalogue`. The rows themselves stay as they are.
CREATE TABLE checks (
  name TEXT NOT NULL,                -- the table
  part TEXT NOT NULL,                -- of samples: the file that holds them; of other tables: see docs/format.md
  label TEXT NOT NULL,               -- of samples: their label; otherwise ''
  rows INTEGER NOT NULL,             -- how many rows this part has
  value TEXT NOT NULL,               -- the sum of their hashes, in hex
  PRIMARY KEY (name, part, label)
) WITHOUT ROWID;
