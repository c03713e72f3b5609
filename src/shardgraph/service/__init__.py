"""The service: forget requests, predictions, rights and proofs over HTTP, and web pages for people.

    app              create_app: the application with its routes, pages and middleware
    server           serve: one serving process a workspace, its address, its signals, its end
    middleware       what every call passes: call log, security headers, caller check, body limit
    schemas          the JSON bodies of requests and responses
    error_responses  from an exception to a status code and a JSON body
    auth/            tokens and roles; what an owner may see and ask for
    routes/          the API, one module a resource
    pages/           the web pages, one module a page; templates and static files
    runtime/         what runs behind the routes: the served model, the queue, the worker process, logs, metrics

One `POST /requests` passes middleware, auth/access, routes/requests and runtime/runtime, which answers when nothing
that saw the data is served any more. runtime/worker, in a process of its own, carries the erasure out.

No package here imports its modules: the command line uses tokens and the worker without FastAPI.
"""
