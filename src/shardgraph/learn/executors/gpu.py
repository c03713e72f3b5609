"""GpuExecutor: groups trained together on one GPU, in waves that fit its memory.

While a wave is trained, the next one is read from disk. Recipes that the kernels do not support are trained on the CPU
(see `on_gpu`), and so are groups with private edges, whose noise comes from the operating system.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from shardgraph.learn.cuda.training import train_groups
from shardgraph.learn.executors.base import GroupResult, GroupTask, Trained, load_task, train_task, waves, write_result
from shardgraph.learn.group import GroupInputs
from shardgraph.learn.recipe import Recipe

WAVE = 0.6  # share of the free memory that the files of one wave may take; keys take about as much as files


class GpuExecutor:
    """Runs tasks on the GPU; `memory` limits the bytes of a wave's samples there."""

    def __init__(self, memory: int | None = None) -> None:
        free = torch.cuda.mem_get_info()[0]
        self.memory = int(min(memory or free, free) * WAVE)

    def run(self, tasks: Sequence[GroupTask]) -> Iterator[GroupResult]:
        """The results, wave by wave."""
        return (write_result(task, *trained) for task, trained in self.train(tasks))

    def train(self, tasks: Sequence[GroupTask]) -> Iterator[tuple[GroupTask, Trained]]:
        """The trained groups, wave by wave, without writing them."""
        yield from ((task, train_task(task)) for task in tasks if task.privacy is not None)
        ready = list(waves([task for task in tasks if task.privacy is None], self.memory))
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(_read, ready[0]) if ready else None
            for i, wave in enumerate(ready):
                inputs = ahead.result() if ahead else []
                ahead = reader.submit(_read, ready[i + 1]) if i + 1 < len(ready) else None
                yield from _train(wave, inputs)


def _train(wave: Sequence[GroupTask], inputs: list[GroupInputs]) -> Iterator[tuple[GroupTask, Trained]]:
    recipe = Recipe.from_json(wave[0].recipe)
    for task, group, adapters in zip(wave, inputs, train_groups(inputs, recipe, wave[0].seed), strict=True):
        yield task, (adapters.to_bytes(), len(group.samples), len(group.classes))


def _read(wave: Sequence[GroupTask]) -> list[GroupInputs]:
    return [GroupInputs(task.name, *load_task(task)) for task in wave]
