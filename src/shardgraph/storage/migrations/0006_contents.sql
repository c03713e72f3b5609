-- What a sample holds, as a keyed hash of its embedding: equal content is found without reading files. It is null for
-- samples of earlier versions until the first command that writes; see docs/format.md.
ALTER TABLE samples ADD COLUMN content TEXT;
CREATE INDEX samples_by_content ON samples (content);
