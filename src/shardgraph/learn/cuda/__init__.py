"""Training and inference of many groups on one GPU; the bits of a group do not depend on which others share the launch.

kernels     the Triton kernels of one training step
training    train_groups: layout of the keys, schedule and launches
inference   logits of all adapters, by the forward half of the same kernels
"""
