"""Private edges (SAFE-DP): adapters that learn from other shards with differential privacy.

private_recipe   PrivateRecipe: the public constants of private training
training/        the training itself: masks, clipped gradients, noise
accounting/      what trainings cost in privacy, and when an adapter must be trained anew
audit            an empirical lower bound on epsilon
"""
