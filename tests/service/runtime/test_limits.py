"""A service with more to do than it can, or with damaged files: what is still answered, and what is turned away."""

import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

import httpx
import pytest

from shardgraph.errors import WorkspaceBusy
from shardgraph.service.runtime.runtime import MAX_EXCLUSIVE, MAX_PREVIEWS, Runtime
from tests.service.conftest import running, wait_until
from tests.strategies import ROWS


def no_thread_is_free(service):
    try:
        httpx.get(f"{service.base}/public-key", timeout=0.5)
    except httpx.ReadTimeout:
        return True
    return False


def test_health_and_readiness_are_told_while_every_thread_is_taken(service):
    with ThreadPoolExecutor(50) as pool:
        with service.runtime._intake_lock:  # which every call that enters a request waits for
            calls = [pool.submit(service, "POST", "/requests", json={"samples": [ROWS[0].id]}) for _ in range(50)]
            wait_until(lambda: no_thread_is_free(service))
            assert httpx.get(f"{service.base}/health", timeout=5).status_code == 200
            assert httpx.get(f"{service.base}/ready", timeout=5).status_code == 200
        assert {call.result().status_code for call in calls} == {202}


def test_few_previews_run_at_a_time_and_requests_are_accepted_meanwhile(service):
    what = {"json": {"samples": [ROWS[0].id]}}
    with ExitStack() as taken:
        for _ in range(MAX_PREVIEWS):
            taken.enter_context(service.runtime.previews.enter())
        turned_away = service("POST", "/requests/preview", **what)
        assert (turned_away.status_code, turned_away.headers["Retry-After"]) == (503, "1")
        assert service("POST", "/requests", **what).status_code == 202
    assert service("POST", "/requests/preview", **what).status_code == 200


def test_few_calls_may_wait_for_the_exclusive_workspace(service):
    with ThreadPoolExecutor(MAX_EXCLUSIVE + 2) as pool:
        with service.runtime.exclusive_workspace():
            calls = [pool.submit(service, "POST", "/rights/shop/provision") for _ in range(MAX_EXCLUSIVE + 2)]
            wait_until(lambda: sum(call.done() for call in calls) == 3)  # one place is ours
            answers = [call.result() for call in calls if call.done()]
            assert {(one.status_code, one.headers["Retry-After"]) for one in answers} == {(503, "1")}
        assert sorted(call.result().status_code for call in calls) == [404] * 3 + [503] * 3


def test_one_verification_answers_all_who_wait(service):
    runtime = service.runtime
    with ThreadPoolExecutor(MAX_EXCLUSIVE) as pool:
        with runtime.exclusive_workspace():
            calls = [pool.submit(runtime.verify) for _ in range(MAX_EXCLUSIVE)]
            assert not wait(calls, timeout=1).done
            with pytest.raises(WorkspaceBusy):
                runtime.verify()
        found = [call.result() for call in calls]
    assert found[0].ok and all(one is found[0] for one in found)
    assert runtime.verify() is not found[0], "the next one looks anew"


def test_no_verification_begins_while_requests_are_due(service):
    runtime = service.runtime
    assert service("POST", "/requests", json={"samples": [ROWS[0].id]}).status_code == 202
    with pytest.raises(WorkspaceBusy, match="come first"):
        runtime.verify()
    patient = Runtime(service.root, grace=3600)
    assert patient.verify().ok, "it is not due there yet"
    patient.close()
    service.work()
    assert runtime.verify().ok


def test_an_open_stream_ends_cleanly_when_the_service_does(root):
    with ThreadPoolExecutor(1) as pool:
        with running(root) as service:
            assert service("POST", "/requests", json={"samples": [ROWS[0].id]}).status_code == 202
            stream = pool.submit(httpx.get, f"{service.base}/requests/1/events", timeout=30)
            wait_until(lambda: service.runtime.request(1).state == "instant")
            time.sleep(0.5)
        assert "event: instant" in stream.result().text, "all that was said, and no error"


def test_a_damaged_manifest_is_told_and_does_not_flood_the_log(service, capfd):
    path = service.root / "manifest.json"
    whole = path.read_bytes()
    path.write_bytes(b"{")
    wait_until(lambda: service("GET", "/ready").status_code == 503)
    said = service("GET", "/ready").json()
    assert not said["ready"] and "DamagedFile" in said["reason"] and str(service.root) not in said["reason"]
    metrics = service("GET", "/metrics")
    assert metrics.status_code == 200 and "queue_age" in metrics.text and "adapters_served" not in metrics.text
    capfd.readouterr()
    time.sleep(3)
    assert capfd.readouterr().err.count("synchronisation failed") < 10
    path.write_bytes(whole)
    wait_until(lambda: service("GET", "/ready").status_code == 200)
    assert "adapters_served" in service("GET", "/metrics").text
