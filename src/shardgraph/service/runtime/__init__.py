"""What runs behind the routes.

runtime      Runtime: accepts requests, keeps the served model up to date, runs exclusive operations
queries      Queries: everything that routes and pages read
limits       limits on concurrent expensive operations
supervisor   the worker process and the watcher thread, started and stopped with the application
worker       the worker process: carries erasures out, measures the model
metrics      Prometheus metrics
logs         structured logs
"""
