"""vit:PATH: a Vision Transformer of any size from a safetensors file with timm's key names (Dosovitskiy et al., 2021).

Tokens (class token first) are the hidden state at `layer`, by default -2: the input of the last block, where the paper
attaches. Features are the class token after the last norm. Inputs are (x - 0.5) / 0.5, bicubic, 0.9 of the short side,
as for timm's augreg checkpoints. The shape of the network is read off the weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from shardgraph.embedding.backbones.packaged import file_digest
from shardgraph.embedding.backbones.vision import Framing, ImageBackbone
from shardgraph.errors import BackboneError

_EPS = 1e-6
_HEADS = {1280: 16, 1408: 16, 1664: 16}  # huge, giant, gigantic; all others have heads of 64 numbers
_UNUSED = ("head.", "head_dist.", "pre_logits.")  # the classifier, after the features


class Vit(ImageBackbone):
    """A Vision Transformer file; heads have 64 numbers unless its metadata has `num_heads`."""

    def __init__(
        self,
        spec: str,
        *,
        layer: int | None = None,
        size: int | None = None,
        device: str | None = None,
        dtype: str = "float16",
    ) -> None:
        path, layer = Path(spec.removeprefix("vit:")).expanduser(), -2 if layer is None else layer
        weights, heads = _read(path)
        shape = shape_of(weights, heads)
        if not -shape.depth - 1 <= layer <= shape.depth:
            raise BackboneError(f"layer must be from {-shape.depth - 1} to {shape.depth}, got {layer}")
        if size not in (None, shape.size):
            raise BackboneError(f"'{path.name}' has positions for {shape.size} pixels, got size {size}")
        super().__init__("vit", weights=file_digest(path), layer=layer, device=device, dtype=dtype)
        self.framing = Framing(shape.size, shape.size, 0.9, (0.5,) * 3, (0.5,) * 3)
        self.network = VitNetwork(weights, shape).to(self.device)

    def embed_pixels(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        states, features = self.network(pixels.contiguous())
        return states[self.layer], features


@dataclass(frozen=True)
class VitShape:
    """The shape of a network, read off the tensors of a checkpoint."""

    dim: int
    depth: int
    heads: int
    hidden: int
    patch: int
    size: int
    qkv_bias: bool
    scaled: bool


def shape_of(weights: Mapping[str, Tensor], heads: int | None = None) -> VitShape:
    """The shape of the network of a state dict; the number of heads is not in it and may be given."""
    try:
        dim, _, patch, _ = weights["patch_embed.proj.weight"].shape
        positions = weights["pos_embed"].shape[1] - weights["cls_token"].shape[1]
        hidden = weights["blocks.0.mlp.fc1.weight"].shape[0]
    except (KeyError, ValueError) as problem:
        raise BackboneError(f"a ViT checkpoint must have timm's key names, got trouble with {problem}") from problem
    heads = heads or _HEADS.get(dim, dim // 64)
    if not heads or dim % heads or isqrt(positions) ** 2 != positions:
        raise BackboneError(f"a ViT needs heads that divide its width and a square of patches, got {dim} / {heads}")
    return VitShape(
        dim=dim,
        depth=1 + max(int(key.split(".")[1]) for key in weights if key.startswith("blocks.")),
        heads=heads,
        hidden=hidden,
        patch=patch,
        size=isqrt(positions) * patch,
        qkv_bias="blocks.0.attn.qkv.bias" in weights,
        scaled="blocks.0.ls1.gamma" in weights,
    )


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, shape: VitShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.dim, 3 * shape.dim, bias=shape.qkv_bias)
        self.proj = nn.Linear(shape.dim, shape.dim)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        projected: Tensor = self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, d))
        return projected


class Mlp(nn.Module):
    """The two-layer perceptron of a block."""

    def __init__(self, shape: VitShape) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(shape.dim, shape.hidden), nn.Linear(shape.hidden, shape.dim)

    def forward(self, x: Tensor) -> Tensor:
        projected: Tensor = self.fc2(F.gelu(self.fc1(x)))
        return projected


class Scale(nn.Module):
    """A learned factor for each channel (LayerScale)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, shape: VitShape) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(shape.dim, eps=_EPS) for _ in range(2))
        self.attn, self.mlp = Attention(shape), Mlp(shape)
        self.ls1, self.ls2 = (Scale(shape.dim) if shape.scaled else nn.Identity() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ls1(self.attn(self.norm1(x)))
        y: Tensor = x + self.ls2(self.mlp(self.norm2(x)))
        return y


class VitNetwork(nn.Module):
    """Images [n, 3, s, s] -> hidden states [n, 1 + patches, d] before and after every block, features [n, d]."""

    def __init__(self, weights: Mapping[str, Tensor], shape: VitShape) -> None:
        super().__init__()
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, shape.dim, shape.patch, shape.patch)})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, shape.dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + (shape.size // shape.patch) ** 2, shape.dim))
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(shape.dim, eps=_EPS)
        used = {key: tensor.float() for key, tensor in weights.items() if not key.startswith(_UNUSED)}
        try:
            self.load_state_dict(used)
        except RuntimeError as problem:
            raise BackboneError(f"a ViT checkpoint must fit timm's plain ViT: {problem}") from problem
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        patches = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), patches], dim=1) + self.pos_embed
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states, self.norm(states[-1][:, 0])


def _read(path: Path) -> tuple[dict[str, Tensor], int | None]:
    """A file's tensors and the number of heads its metadata names, if it does."""
    try:
        with safe_open(path, framework="pt") as file:
            heads = (file.metadata() or {}).get("num_heads")
            return {key: file.get_tensor(key) for key in file.keys()}, int(heads) if heads else None  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as problem:
        raise BackboneError(f"'vit:{path}' must be a readable .safetensors file, got {problem}") from problem
