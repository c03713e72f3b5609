"""The HTTP API, one module a resource.

    requests      forget requests: preview, submit, list, follow, cancel, retry, certificate, nonces
    predictions   predictions for embeddings, array files, images and texts
    rights        consumers' rights: list, grant, revoke, provision
    proofs        public key, certificates, ledger, served states, status
    operation     health, readiness, metrics

Pages use the functions of these modules as well: a page can do what the API can do, under the same rules.
"""
