"""Training with private edges (SAFE-DP): from own samples directly, from the samples of neighbours privately.

    every step    private   a Poisson sample of the others; each sample's gradient clipped jointly over an owner's
                            adapters, summed, noised, divided by a public constant; plain SGD
                  direct    AdamW on the mean loss over batches of the owner's own samples

The adapters of an owner depend on its own samples, public constants and noisy sums, and on no parameters of other
owners. So, for all owners that do not use a sample directly, training is `steps` rounds of the Poisson-sampled Gaussian
mechanism with sensitivity `clip`, whatever the owners do with their own samples in between.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from shardgraph.errors import ConfigError
from shardgraph.learn.group import AdamW, cosine
from shardgraph.learn.inca import Adapters
from shardgraph.learn.numerics import fixed_numerics
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.private.training.gradients import clip_weights
from shardgraph.learn.private.training.learners import Learner, learner
from shardgraph.learn.private.training.masks import Masks, checked_masks, own_batches
from shardgraph.learn.private.training.noise import NoiseSource, released
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

CHUNK = 256  # samples whose gradients are in memory at once


def train_private_group(
    name: str,
    samples: Samples,
    classes: tuple[str, ...],
    direct: np.ndarray,
    private: np.ndarray,
    recipe: Recipe,
    seed: int,
    privacy: PrivateRecipe,
    noise: NoiseSource,
    owners: Sequence[str] | None = None,
) -> Adapters:
    """The adapters for `classes` (sorted labels), trained on `samples` according to the masks [C, n].

    direct, private   which adapter uses which sample in which way; never both; columns in the order of `samples`
    owners            the shard of each adapter; None: each adapter is an owner, as in the paper
    `samples` of the result counts own samples only: the number of the others is private.
    """
    if recipe.loss != "bce":
        raise ConfigError(
            f"private training needs the loss 'bce', got {recipe.loss!r}: "
            "a softmax would tie an adapter to its neighbours' unprotected logits"
        )
    order = np.array(sorted(range(len(samples)), key=lambda i: samples.ids[i].encode()), dtype=np.int64)
    direct, private = (_columns(mask, order) for mask in (direct, private))
    names = tuple(classes if owners is None else owners)
    masks = checked_masks(direct, private, names, classes, len(samples), privacy.readers)
    samples = samples.take(order)
    with fixed_numerics():
        model = learner(samples, classes, masks, recipe, seed, privacy.rank)
        parameters = model.start(name, classes, seed)
        optimiser = AdamW(parameters, recipe.weight_decay)
        batches = [own_batches(owner, name, privacy.direct_batch, seed) for owner in masks.owners]
        lr, last = privacy.step_size(model.length), privacy.steps * privacy.direct_steps
        for step in range(last):
            due = step % privacy.direct_steps == 0
            private_part = private_gradient(model, parameters, masks, privacy, noise) if due else None
            direct_part = model.own(parameters, [torch.from_numpy(next(each)) for each in batches])
            optimiser.step(direct_part, cosine(recipe.lr, step, last))
            if private_part is not None:
                parameters.sub_(model.spread(private_part), alpha=lr)
        first, second = model.finished(parameters)
    return Adapters(recipe.adapter, classes, first, second, int(direct.any(axis=0).sum()))


def private_gradient(
    model: Learner, parameters: Tensor, masks: Masks, privacy: PrivateRecipe, noise: NoiseSource
) -> Tensor:
    """The noisy gradient [k, C, r] of one step: the only way from a private sample to a parameter.

    Noise is added whichever samples were drawn, and also if none was.
    """
    rows = torch.from_numpy(np.flatnonzero(noise.chosen(privacy.rate, len(masks.private))))
    owners = torch.from_numpy(masks.owner)
    total = torch.zeros(*parameters.shape[:2], model.width, dtype=torch.float64)  # so that sums do not lose small terms
    for part in torch.split(rows, CHUNK) if len(rows) else ():
        gradients = model.private(parameters, part)
        total += gradients.weighted(clip_weights(gradients.squared, owners, privacy.owner_clip))
    noisy = released(total.numpy(), privacy.mechanism.noise_multiplier * privacy.clip, noise)
    return torch.from_numpy(noisy / privacy.normaliser).to(parameters.dtype)


def _columns(mask: np.ndarray, order: np.ndarray) -> np.ndarray:
    return mask[:, order] if mask.ndim == 2 and mask.shape[1] == len(order) else mask
