"""Privacy accounting: pure functions and values on top of dp-accounting; no torch, no samples.

mechanism   Mechanism: one training as the accountant sees it; epsilon, calibrate
budget      Budget: the (alpha, beta) allowed after removals; the paper's formulas
removal     the exact group-privacy curve of k removals
releases    Releases: which trainings were released and which samples were removed since
closeness   from releases to guarantees: loss of a sample, distance after removals, what must be rebuilt
terms       PrivacyTerms: the promise, as part of the configuration
"""
