"""What runs behind the routes.

    runtime      Runtime: accepts requests, keeps the served model up to date, runs exclusive operations
    queries      Queries: what routes and pages read
    statistics   Statistics: accuracy, costs, deadlines, durations
    limits       limits on concurrent expensive operations
    supervisor   the worker process and the watcher thread, started and stopped with the application
    worker       the worker process: carries erasures out, measures the model
    metrics      Prometheus metrics
    logs         structured logs

Routes and pages reach the workspace through Runtime, Queries and Statistics only.
"""
