-- index.sqlite as schema 5 left it: one job that ended, one that waits.
CREATE TABLE jobs (
  id TEXT PRIMARY KEY, ordinal INTEGER UNIQUE NOT NULL, principal TEXT NOT NULL, request_id TEXT,
  active INTEGER NOT NULL, spec_digest TEXT NOT NULL, device TEXT NOT NULL, sequence_reserved INTEGER NOT NULL,
  worker_pid INTEGER NOT NULL, worker_start_ticks INTEGER NOT NULL, job BLOB NOT NULL);
CREATE UNIQUE INDEX jobs_by_request ON jobs (principal, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX jobs_active ON jobs (ordinal) WHERE active = 1;
CREATE TABLE events (
  job TEXT NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL, PRIMARY KEY (job, sequence)) WITHOUT ROWID;
CREATE TABLE projects (workspace TEXT NOT NULL, project TEXT NOT NULL, PRIMARY KEY (workspace, project)) WITHOUT ROWID;
CREATE TABLE profiles (
  workspace TEXT NOT NULL, path TEXT NOT NULL, project TEXT NOT NULL, replaced INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, info BLOB NOT NULL, PRIMARY KEY (workspace, path)) WITHOUT ROWID;
CREATE INDEX profiles_by_time ON profiles (workspace, time_ms);
ALTER TABLE profiles ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX profiles_by_project ON profiles (workspace, project, replaced, size_bytes);
CREATE TABLE uploads (
  principal TEXT NOT NULL, digest TEXT NOT NULL, size_bytes INTEGER NOT NULL,
  PRIMARY KEY (principal, digest)) WITHOUT ROWID;
CREATE TABLE results (
  workspace TEXT NOT NULL, job TEXT NOT NULL, commit_order INTEGER NOT NULL, pinned INTEGER NOT NULL,
  PRIMARY KEY (workspace, job)) WITHOUT ROWID;
CREATE INDEX results_by_order ON results (commit_order);
CREATE TABLE ended_jobs (
  principal TEXT NOT NULL, ordinal INTEGER NOT NULL, job TEXT NOT NULL, size_bytes INTEGER,
  PRIMARY KEY (principal, ordinal)) WITHOUT ROWID;
CREATE UNIQUE INDEX ended_jobs_by_job ON ended_jobs (job);
CREATE INDEX ended_jobs_uncounted ON ended_jobs (job) WHERE size_bytes IS NULL;
CREATE TABLE ended_totals (principal TEXT PRIMARY KEY, size_bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER ended_job_counted AFTER UPDATE OF size_bytes ON ended_jobs BEGIN
  INSERT OR IGNORE INTO ended_totals VALUES (new.principal, 0);
  UPDATE ended_totals SET size_bytes = size_bytes + new.size_bytes - COALESCE(old.size_bytes, 0)
    WHERE principal = new.principal;
END;
CREATE TRIGGER ended_job_gone AFTER DELETE ON ended_jobs WHEN old.size_bytes IS NOT NULL BEGIN
  UPDATE ended_totals SET size_bytes = size_bytes - old.size_bytes WHERE principal = old.principal;
  DELETE FROM ended_totals WHERE principal = old.principal AND size_bytes = 0;
END;
INSERT INTO jobs VALUES ('20261130T080000-0000bbbb', 1, 'alice', 'first', 0, 'digest', 'cpu', 64, 0, 0, X'0a183230323631313330543038303030302d303030306262626210066a1f72756e732f70726f66696c652f696e6665722f70726f66696c652e6a736f6e820105616c696365');
INSERT INTO jobs VALUES ('20261130T090000-0000aaaa', 2, 'alice', NULL, 1, 'digest', 'cpu', 64, 0, 0, X'0a183230323631313330543039303030302d30303030616161611001820105616c696365');
INSERT INTO events VALUES ('20261130T080000-0000bbbb', 7, X'08071a450a183230323631313330543038303030302d303030306262626210066a1f72756e732f70726f66696c652f696e6665722f70726f66696c652e6a736f6e820105616c696365');
INSERT INTO events VALUES ('20261130T090000-0000aaaa', 1, X'08011a240a183230323631313330543039303030302d30303030616161611001820105616c696365');
INSERT INTO projects VALUES ('', 'runs/profile');
INSERT INTO profiles (workspace, path, project, replaced, time_ms, info) VALUES ('', 'runs/profile/infer/profile.json', 'runs/profile', 0, 1, X'0a1f72756e732f70726f66696c652f696e6665722f70726f66696c652e6a736f6e12183230323631313330543038303030302d3030303062626262');
INSERT INTO results VALUES ('', '20261130T080000-0000bbbb', 1, 1);
INSERT INTO uploads VALUES ('alice', 'd1', 5);
INSERT INTO ended_jobs VALUES ('alice', 1, '20261130T080000-0000bbbb', 2000);
INSERT INTO ended_totals VALUES ('alice', 2000);
PRAGMA user_version = 5;
