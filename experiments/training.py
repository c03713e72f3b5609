"""Training of many groups in memory: by the GPU kernels where they support the recipe, else one after the other."""

from collections.abc import Iterator, Sequence

from shardgraph.learn.executors import on_gpu
from shardgraph.learn.group import GroupInputs, train_group
from shardgraph.learn.inca import Adapters
from shardgraph.learn.recipe import Recipe


def train_many(groups: Sequence[GroupInputs], recipe: Recipe, seed: int, device: str = "cpu") -> Iterator[Adapters]:
    """The adapters of every group, in the order given; the bits of a group do not depend on the others."""
    if device == "cuda" and groups and on_gpu((groups[0].samples.tokens.shape[1], 0), recipe):
        from shardgraph.learn.cuda.training import train_groups  # needs Triton, which only comes with a GPU

        yield from train_groups(groups, recipe, seed, device)
        return
    for group in groups:
        yield train_group(group.name, group.samples, group.classes, recipe, seed, group.start)
