"""Health, readiness and metrics."""


def test_metrics_health_and_readiness(shared_service):
    assert shared_service("GET", "/health").json() == {"status": "ok"}
    assert shared_service("GET", "/ready").json()["ready"]
    text = shared_service("GET", "/metrics").text
    for name in ("queue_age_seconds", "time_to_forget_seconds", "adapters_served_ratio 1.0", "call_seconds_bucket"):
        assert f"shardgraph_{name}" in text
