"""The service: forget requests, predictions and proofs over HTTP. A door: it parses, calls and answers."""
