"""Training of many groups together on one GPU: the same schedule as on the CPU, a few kernel launches for each step.

The bits of a group depend on the group alone: it is launched only with groups of the same padded shape, and no kernel
reads how many there are.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import triton
from torch import Tensor

from shardgraph.learn.cuda import kernels
from shardgraph.learn.group import BETA1, BETA2, GroupInputs, batches, initial_parameters
from shardgraph.learn.inca import EPS, Adapters
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

CHUNK = 4  # samples that one program sums over
BLOCK = 16  # adapters of one program: more would spill registers
ATTEND = {
    "num_warps": 2,
    "num_stages": 3,
}  # the fastest on an H200; constants, so that bits do not depend on the launch
PULL = {"num_warps": 4, "num_stages": 2}
LOG2E = math.log2(math.e)


def padded(n: int, least: int = 16) -> int:
    """The next power of two, for shapes that the compiler sees."""
    return max(least, int(triton.next_power_of_2(n)))


def shape_of(group: GroupInputs) -> tuple[int, int]:
    """The padded numbers of adapters and tokens; only groups for which these are equal are trained together."""
    return padded(len(group.classes)), padded(int(np.diff(group.samples.offsets).max()))


def train_groups(groups: Sequence[GroupInputs], recipe: Recipe, seed: int, device: str = "cuda") -> Iterator[Adapters]:
    """The adapters of all groups, in the order given."""
    shapes = [shape_of(group) for group in groups]
    results: dict[str, Adapters] = {}
    for shape in sorted(set(shapes)):
        same = [group for group, own in zip(groups, shapes, strict=True) if own == shape]
        results |= dict(_train_launch(same, shape, recipe, seed, device))
    return (results[group.name] for group in groups)


def _train_launch(
    groups: Sequence[GroupInputs], shape: tuple[int, int], recipe: Recipe, seed: int, device: str
) -> Iterator[tuple[str, Adapters]]:
    heads = recipe.head_count(groups[0].samples.tokens.shape[1])
    keys = lay_out([group.samples for group in groups], heads, device)
    launch = Launch(groups, shape, recipe, seed, keys, device)
    launch.run()
    params = launch.params.cpu().numpy()
    for g, group in enumerate(groups):
        count = len(group.classes)
        first, second = params[g, 0, :count].copy(), params[g, 1, :count].copy()
        yield group.name, Adapters("inca", group.classes, first, second, len(group.samples))


@dataclass(frozen=True)
class KeysOnDevice:
    """All samples' keys [n, H, T, d] in half precision, and their numbers of tokens [n]."""

    keys: Tensor
    lengths: Tensor

    @property
    def stride(self) -> int:
        return self.keys.shape[2]


def lay_out(parts: Sequence[Samples], heads: int, device: str) -> KeysOnDevice:
    """The keys of all samples of the parts, part after part."""
    dim = parts[0].tokens.shape[1]
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    longest, count = int(lengths.max()), len(lengths)
    keys = torch.empty(count, heads, longest, dim // heads, dtype=torch.float16, device=device)
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    for part, start in zip(parts, starts, strict=False):
        sizes = np.diff(part.offsets)
        sample_of = np.repeat(np.arange(len(part)) + start, sizes).astype(np.int32)
        place_of = (np.arange(len(part.tokens)) - np.repeat(part.offsets[:-1], sizes)).astype(np.int32)
        tokens = torch.from_numpy(np.ascontiguousarray(part.tokens)).to(device)
        where = (torch.from_numpy(sample_of).to(device), torch.from_numpy(place_of).to(device))
        kernels.lay_out[(len(tokens),)](
            tokens, *where, keys, EPS, longest, D=dim, BD=padded(dim), DH=dim // heads, num_warps=4
        )
    return KeysOnDevice(keys, torch.from_numpy(lengths.astype(np.int32)).to(device))


class Launch:
    """The training of groups of one padded shape; owns their state on the device."""

    def __init__(
        self,
        groups: Sequence[GroupInputs],
        shape: tuple[int, int],
        recipe: Recipe,
        seed: int,
        keys: KeysOnDevice,
        device: str,
    ) -> None:
        self.recipe, self.keys, self.count = recipe, keys, len(groups)
        self.adapters, self.tokens = shape
        _, self.heads, _, self.width = keys.keys.shape
        self.dim = self.heads * self.width
        rows, counts, rates = _schedule(groups, recipe, seed)
        self.steps = len(rows)

        def put(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        self.rows, self.counts, self.rates = put(rows), put(counts), put(rates)
        self.targets = put(_targets(groups))
        self.classes = put(np.array([len(group.classes) for group in groups], np.int32))
        self.background = put(np.array([_background(group) for group in groups], np.int32))
        self.corrections = put(_corrections(self.steps))
        self.params = torch.zeros(self.count, 2, self.adapters, self.dim, device=device)
        for g, group in enumerate(groups):
            start = initial_parameters(group.name, group.classes, self.dim, seed, group.start).view(2, -1, self.dim)
            self.params[g, :, : len(group.classes)] = start.to(device)
        self.means, self.squares = torch.zeros_like(self.params), torch.zeros_like(self.params)
        self.step = torch.zeros(1, dtype=torch.int32, device=device)
        self.chunks = -(-recipe.batch // CHUNK)
        slots = self.count * recipe.batch
        self.stats = torch.zeros(slots, self.heads, 3, self.adapters, device=device)
        self.coefficients = torch.zeros(slots, 3, self.adapters, device=device)
        self.partial = torch.zeros(self.count * self.chunks, 2, self.adapters, self.dim, device=device)
        self.root = self.width**-0.5
        q, v = self.params[:, 0], self.params[:, 1]
        normed = torch.nn.functional.layer_norm(q, (self.dim,), eps=EPS) * (self.root * LOG2E)
        self.queries = normed.to(keys.keys.dtype).contiguous()
        self.folded = (v - v.mean(dim=-1, keepdim=True)).contiguous()

    def run(self) -> None:
        """Run all steps; on a GPU one step is captured and replayed."""
        if self.step.device.type != "cuda":
            for _ in range(self.steps):
                self._step()
            return
        saved = [x.clone() for x in self._state()]
        side = _new_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # compile and warm up, then restore the state
            self._step()
        torch.cuda.current_stream().wait_stream(side)
        for x, before in zip(self._state(), saved, strict=True):
            x.copy_(before)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        for _ in range(self.steps):
            graph.replay()

    def _state(self) -> tuple[Tensor, ...]:
        return self.params, self.means, self.squares, self.step, self.queries, self.folded

    def _step(self) -> None:
        groups, block = self.count, min(BLOCK, self.adapters)
        grid = (groups * self.chunks, self.heads, self.adapters // block)
        shapes = {"H": self.heads, "TP": self.tokens, "DH": self.width, "CP": self.adapters, "CB": block}
        shapes |= {"B": self.recipe.batch, "CHUNK": CHUNK, "CHUNKS": self.chunks}
        given = (self.keys.keys, self.keys.lengths, self.rows, self.counts, self.step, self.queries, self.folded)
        kernels.attend[grid](*given, self.stats, groups, self.keys.stride, **shapes, SHARED=False, **ATTEND)
        kernels.losses[(groups * self.recipe.batch,)](
            self.rows, self.step, self.stats, self.targets, self.classes, self.counts, self.background,
            self.coefficients, groups, EPS,
            H=self.heads, DH=self.width, CP=self.adapters, B=self.recipe.batch,
            BCE=self.recipe.loss == "bce", num_warps=1,
        )  # fmt: skip
        kernels.pull[grid](
            *given, self.coefficients, self.partial, groups, self.keys.stride, kernels.LIFT,
            **shapes, **PULL,
        )  # fmt: skip
        kernels.update[(groups, self.adapters)](
            self.step, self.partial, self.classes, self.counts, self.rates, self.corrections,
            self.params, self.means, self.squares, self.queries, self.folded,
            groups, self.recipe.weight_decay, EPS, self.root, LOG2E,
            D=self.dim, BD=padded(self.dim), CP=self.adapters, CHUNK=CHUNK, CHUNKS=self.chunks, num_warps=4,
        )  # fmt: skip
        self.step.add_(1)


_new_stream: Callable[[], torch.cuda.Stream] = torch.cuda.Stream


def _schedule(groups: Sequence[GroupInputs], recipe: Recipe, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [steps, G, B] (-1 where there is none), batch sizes and learning rates [steps, G]."""
    plans = [list(batches(group.name, len(group.samples), recipe, seed)) for group in groups]
    steps = max(len(plan) for plan in plans)
    rows = np.full((steps, len(groups), recipe.batch), -1, np.int32)
    counts, rates = np.zeros((steps, len(groups)), np.float32), np.zeros((steps, len(groups)), np.float32)
    start = 0
    for g, (group, plan) in enumerate(zip(groups, plans, strict=True)):
        for s, (lr, chosen) in enumerate(plan):
            rows[s, g, : len(chosen)] = chosen + start
            counts[s, g], rates[s, g] = len(chosen), lr
        start += len(group.samples)
    return rows, counts, rates


def _targets(groups: Sequence[GroupInputs]) -> np.ndarray:
    parts = []
    for group in groups:
        index = {label: i for i, label in enumerate(group.classes)}
        parts.append(np.array([index.get(label, -1) for label in group.samples.labels], np.int32))
    return np.concatenate(parts)


def _background(group: GroupInputs) -> bool:
    return not set(group.samples.labels) <= set(group.classes)


def _corrections(steps: int) -> np.ndarray:
    fixes = [(1 - BETA1**t, math.sqrt(1 - BETA2**t)) for t in range(1, steps + 1)]
    return np.array(fixes, np.float32)
