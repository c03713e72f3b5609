-- The words: a request is what a person asks, an erasure is the batch that carries requests out.
-- Renaming changes the layout alone: SQLite copies no row.
ALTER TABLE requests RENAME TO erasures;
ALTER TABLE queue RENAME TO requests;
ALTER TABLE requests RENAME COLUMN request TO erasure;
ALTER TABLE leaving RENAME COLUMN request TO erasure;
ALTER TABLE withheld RENAME COLUMN entry TO request;
ALTER TABLE named RENAME TO request_marks;
ALTER TABLE request_marks RENAME COLUMN entry TO request;
ALTER TABLE moves RENAME TO request_states;
ALTER TABLE request_states RENAME COLUMN entry TO request;
DROP INDEX by_state;
DROP INDEX by_request;
DROP INDEX by_mark;
DROP INDEX by_entry;
CREATE INDEX requests_by_state ON requests (state);
CREATE INDEX requests_by_erasure ON requests (erasure);
CREATE INDEX request_marks_by_mark ON request_marks (mark);
CREATE INDEX request_states_by_request ON request_states (request);
