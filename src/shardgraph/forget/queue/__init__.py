"""Queue: requests from their acceptance to their certificate.

    queue           the states of a request, and the moves between them
    request_queue   RequestQueue: submit, withhold, cancel, retry, carry out, wait
    batch           which waiting requests are carried out together
    statistics      accuracy over time, what forgetting cost, deadlines kept
"""
