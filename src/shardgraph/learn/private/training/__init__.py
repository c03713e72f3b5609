"""Private training: own samples directly, samples of other shards by clipped and noisy sums.

private_group   train_private_group: the training loop; private_gradient, the only use of a private sample
learners        both kinds of adapter behind one interface
gradients       gradients of single samples in closed form: norms, clipping, weighted sums
masks           which adapter learns from which sample, and how; owners
directions      the few directions in which linear adapters learn privately
noise           NoiseSource: the random draws; the rounded noisy sum
secure          SecureNoise: the cryptographic source of draws
"""
