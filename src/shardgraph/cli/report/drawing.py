"""Draws the shard graph as SVG: on a circle if groups learn from other groups, otherwise one card per group.

The drawing is 420 units wide, so that text is legible on a phone. CSS classes (`s0` ... `s7`, `mixed`) give each source
a colour. A ring marks rebuilt shards, a dashed outline removed ones, a hollow circle withdrawn ones.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from shardgraph.cli.report.content import GONE, REBUILT

if TYPE_CHECKING:
    from shardgraph.forget import GraphView, ShardSummary

WIDTH, COLOURS = 420, 8
MIDDLE = (WIDTH / 2, 195.0)  # of the circle
ON_A_CIRCLE, ON_CARDS = 30, 600  # the most shards that are drawn; of larger graphs, the first

Point = tuple[float, float]


def colours(view: "GraphView") -> dict[str, str]:
    """The CSS class of the eight largest sources; the others are drawn like shards of several sources."""
    sizes: dict[str, int] = {}
    for shard in view.shards:
        sizes[shard.source] = sizes.get(shard.source, 0) + shard.samples
    largest = sorted((name for name in sizes if name), key=lambda name: (-sizes[name], name))[:COLOURS]
    return {name: f"s{i}" for i, name in enumerate(sorted(largest))}


def draw(view: "GraphView", touched: Mapping[str, str]) -> str:
    """The drawing; `touched` names the shards that were rebuilt or removed."""
    group_of = {shard.name: shard.group for shard in view.shards}
    across = any(group_of.get(i) != group_of.get(j) for i, j in view.graph.edges)
    if across and len(view.shards) <= ON_A_CIRCLE:
        return _circle(view, touched)
    return _cards(view, touched)


def _circle(view: "GraphView", touched: Mapping[str, str]) -> str:
    """Shards on a circle; a shard that at least half of the others learn from is in the middle."""
    shards, middle = view.shards, MIDDLE
    hubs = [shard for shard in shards if 2 * len(view.graph.readers(shard.name)) > len(shards) > 2][:1]
    rim = [shard for shard in shards if shard not in hubs]
    where: dict[str, Point] = {shard.name: middle for shard in hubs}
    for i, shard in enumerate(rim):
        angle = 2 * math.pi * i / len(rim) - math.pi / 2
        where[shard.name] = (middle[0] + 148 * math.cos(angle), middle[1] + 140 * math.sin(angle))
    radius, classes = _radii(shards, 13 if len(shards) > 16 else 22), colours(view)
    edges = sorted(edge for edge in view.graph.edges if edge[0] in where and edge[1] in where)
    lines = [_arrow(where[i], where[j], radius[i], radius[j], touched.get(i, "")) for i, j in edges]
    dots = [_dot(shard, where[shard.name], radius[shard.name], classes, touched, named=True) for shard in shards]
    return _svg(390, [*lines, *dots], len(shards))


def _cards(view: "GraphView", touched: Mapping[str, str]) -> str:
    """One card per group, with its shards as connected dots."""
    shards, classes = view.shards[:ON_CARDS], colours(view)
    groups: dict[str, list[ShardSummary]] = {}
    for shard in shards:
        groups.setdefault(shard.group, []).append(shard)
    columns = max(1, math.ceil(math.sqrt(len(groups) * 1.2)))
    wide = WIDTH / columns
    big = max(len(members) for members in groups.values())
    radius = _radii(shards, max(2.0, min(20.0, wide / (2.6 if big == 1 else 5.2 if big < 5 else 9))))
    parts = []
    for i, (name, members) in enumerate(groups.items()):
        left, top = (i % columns) * wide, (i // columns) * wide
        parts.append(_card(name, members, (left, top), wide, radius, classes, touched))
    return _svg(math.ceil(len(groups) / columns) * wide, parts, len(shards))


def _card(
    name: str,
    members: Sequence["ShardSummary"],
    corner: Point,
    wide: float,
    radius: Mapping[str, float],
    classes: Mapping[str, str],
    touched: Mapping[str, str],
) -> str:
    gap, named = min(5.0, wide / 12), wide >= 64
    middle = (corner[0] + wide / 2, corner[1] + wide / 2 - (5 if named else 0))
    ring = 0 if len(members) == 1 else wide * 0.25
    where = []
    for i in range(len(members)):
        angle = 2 * math.pi * i / len(members) - math.pi / 2
        where.append((middle[0] + ring * math.cos(angle), middle[1] + ring * math.sin(angle)))
    lines = [_line(where[i], where[j]) for i in range(len(where)) for j in range(i)] if len(members) <= 12 else []
    dots = [_dot(s, at, radius[s.name], classes, touched, named=False) for s, at in zip(members, where, strict=True)]
    state = "rebuilt" if any(touched.get(shard.name) == REBUILT for shard in members) else ""
    box = (
        f'<rect class="card {state}" x="{corner[0] + gap:.1f}" y="{corner[1] + gap:.1f}" '
        f'width="{wide - 2 * gap:.1f}" height="{wide - 2 * gap:.1f}" rx="{min(10, wide / 8):.1f}"/>'
    )
    label = _text(name, (corner[0] + wide / 2, corner[1] + wide - gap - 6), int(wide / 6.5)) if named else ""
    return box + "".join([*lines, *dots]) + label


def _dot(
    shard: "ShardSummary",
    at: Point,
    radius: float,
    classes: Mapping[str, str],
    touched: Mapping[str, str],
    *,
    named: bool,
) -> str:
    fate = touched.get(shard.name, "")
    kind = f"{classes.get(shard.source, 'mixed')} {'' if fate == GONE else shard.state} {fate}".strip()
    words = f"{shard.name}: {shard.samples} samples" + (f", {fate}" if fate else f", {shard.state}")
    ring = f'<circle class="ring" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius + 4:.1f}"/>' if fate == REBUILT else ""
    dot = f'<circle class="shard {kind}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}"/>'
    below = at[1] >= MIDDLE[1]  # labels are outside the circle, where there are no arrows
    label = _text(shard.name, (at[0], at[1] + (radius + 18 if below else -radius - 9)), 14, fate) if named else ""
    return f"<g><title>{escape(words)}</title>{ring}{dot}{label}</g>"


def _arrow(start: Point, end: Point, before: float, after: float, fate: str) -> str:
    """An arrow from the shard that learns to the shard that it learns from, ending before both circles."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    ux, uy = dx / length, dy / length
    a = (start[0] + ux * (before + 6), start[1] + uy * (before + 6))
    b = (end[0] - ux * (after + 9), end[1] - uy * (after + 9))
    head = "arrow-rebuilt" if fate == REBUILT else "arrow"
    return (
        f'<line class="edge {fate}" x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" '
        f'marker-end="url(#{head})"/>'
    )


def _line(a: Point, b: Point) -> str:
    return f'<line class="edge" x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"/>'


def _text(words: str, at: Point, most: int, fate: str = "") -> str:
    short = words if len(words) <= most else words[: max(1, most - 1)] + "…"
    return f'<text class="{fate}" x="{at[0]:.1f}" y="{at[1]:.1f}">{escape(short)}</text>'


def _radii(shards: Sequence["ShardSummary"], largest: float) -> dict[str, float]:
    """Radii for areas in proportion to the number of samples, with a minimum."""
    most = max((shard.samples for shard in shards), default=1) or 1
    return {shard.name: max(0.45, math.sqrt(shard.samples / most)) * largest for shard in shards}


def _svg(height: float, parts: Sequence[str], count: int) -> str:
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path class="{name}" d="M0 0 L8 4 L0 8 z"/></marker>'
        for name in ("arrow", "arrow-rebuilt")
    )
    return (
        f'<svg class="graph" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="The shard graph, {count} shards">'
        f"<defs>{heads}</defs>{''.join(parts)}</svg>"
    )
