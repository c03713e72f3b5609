"""The record: a workspace restored from a backup asks again for what was forgotten since, before it serves."""

import json
import shutil

import pytest

from shardgraph.errors import ConfigError, WorkspaceError
from shardgraph.forget.erase.plan import ForgetRequest
from shardgraph.forget.proof.erasure_log import log_path
from shardgraph.forget.queue.queue import Submission
from shardgraph.forget.workspace import Workspace
from shardgraph.storage.tables import requests
from tests.strategies import many, never_saw, promised_files

ROWS = many(18)


@pytest.fixture
def kept(workspace, fast_path):
    """A workspace with a record, and its backup."""
    workspace.queue.keep_log(fast_path / "record.jsonl")
    shutil.copytree(workspace.root, fast_path / "backup")
    return workspace


def restore(workspace, fast_path):
    workspace.close()
    shutil.rmtree(workspace.root)
    shutil.copytree(fast_path / "backup", workspace.root)
    return Workspace(workspace.root, workers=1)


def test_a_restored_workspace_asks_again_for_what_was_forgotten_since(kept, fast_path):
    gone = [ROWS[0].id, ROWS[5].id, ROWS[9].id]
    kept.queue.submit(Submission(ForgetRequest(samples=(gone[0],))))
    kept.queue.withhold()
    kept.queue.carry_out()
    kept.forget(ForgetRequest(samples=(gone[1],)))
    kept.queue.submit(Submission(ForgetRequest(samples=(gone[2],))))
    kept.queue.cancel(kept.queue.submit(Submission(ForgetRequest(samples=(ROWS[12].id,)))).number)
    with restore(kept, fast_path) as again:
        again.sources.describe("ann", owner="Ann")
        again.train(rebuild=True)  # life went on before anybody looked at the record
        before = again.model().digest
        entry = again.queue.replay()
        assert entry and (entry.samples, entry.asker) == (3, "record")
        assert again.model().digest != before, "withheld before anything is served"
        again.queue.withhold()
        again.queue.carry_out()
        assert promised_files(again.root) == never_saw(
            again, [row for row in ROWS if row.id not in gone], fast_path / "never"
        )
        assert again.queue.replay() is None


def test_without_a_restore_nothing_is_asked_again(kept):
    kept.forget(ForgetRequest(samples=(ROWS[0].id,)))
    assert kept.queue.replay() is None


def test_the_record_names_nobody_and_survives_a_line_cut_short(kept, fast_path):
    kept.forget(ForgetRequest(samples=(ROWS[0].id,)))
    path = log_path(kept.root)
    with path.open("a") as file:
        file.write('{"request": "99", "mar')
    kept.forget(ForgetRequest(samples=(ROWS[1].id,)))
    text = path.read_text()
    assert ROWS[0].id not in text and len(text.splitlines()) == 4
    with restore(kept, fast_path) as again:
        assert again.queue.replay().samples == 2


def test_a_record_of_another_workspace_or_inside_this_one_is_refused(kept, create, fast_path):
    other = create("other")
    with pytest.raises(ConfigError, match="another workspace"):
        other.queue.keep_log(fast_path / "record.jsonl")
    with pytest.raises(ConfigError, match="outside"):
        other.queue.keep_log(other.root / "record.jsonl")
    (fast_path / "noise").write_text(json.dumps([1]) + "\n")
    with pytest.raises(WorkspaceError, match="no record"):
        other.queue.keep_log(fast_path / "noise")


def test_what_cannot_be_recorded_is_not_accepted(kept, fast_path):
    path = log_path(kept.root)
    path.unlink()
    path.mkdir()
    with pytest.raises(WorkspaceError, match="cannot be written"):
        kept.queue.submit(Submission(ForgetRequest(samples=(ROWS[0].id,))))
    assert requests.count_requests_by_state(kept.context.catalogue) == {}
    assert requests.withheld_ids(kept.context.catalogue) == set()
