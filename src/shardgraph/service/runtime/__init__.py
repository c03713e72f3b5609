"""What runs behind the routes.

    runtime      Runtime: accepts requests, keeps the served model up to date, runs exclusive operations
    models       Models: the only way from a call to a model, and to figures that a model made
    queries      Queries: what routes and pages read
    statistics   Statistics: costs, deadlines, durations
    limits       limits on concurrent expensive operations
    supervisor   the worker process and the watcher thread, started and stopped with the application
    worker       the worker process: carries erasures out, measures the model
    metrics      Prometheus metrics
    logs         structured logs

Routes and pages reach the workspace through Runtime, Models, Queries and Statistics only; `tests/service/test_gate.py`
checks that they reach no model but through Models.
"""
