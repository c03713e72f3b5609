"""Queue: requests from their submission to their certificate.

queue           the states of a request, the moves between them, and which requests are carried out together
request_queue   RequestQueue: submit, withhold, cancel, retry, carry out, wait
statistics      accuracy over time, the cost of forgetting, deadlines kept
"""
