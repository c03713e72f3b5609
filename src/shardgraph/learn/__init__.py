"""Learning: from samples and a recipe to adapters, prototypes and a model that predicts.

Training is a pure function: equal samples, recipe, seed and group name give equal bytes under one numerics fingerprint.

    recipe         Recipe: every choice about training; mixing_weight, the weight of the prototypes
    group          train_group: the training of one group; losses, optimiser and schedule
    inca           Adapters: the result of a training, and its bytes; model_digest; the frozen attention of Open-InCA,
                   forward and backward pass
    prototypes     Prototypes: exact integer sums over samples, by class; random features of tokens
    discriminant   second-order prototypes as a linear classifier; the choice of its shrinkage
    ensemble       Model: all adapters and prototypes together; inference in one forward pass
    numerics       the fixed settings of a training, and the fingerprint of what else decides its bytes
    executors/     where groups are trained: this process, worker processes, a GPU, a Ray cluster
    cuda/          GPU kernels for training and inference
    private/       training over private edges (SAFE-DP) and its privacy accounting
"""
