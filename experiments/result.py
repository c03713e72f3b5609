"""The result of an experiment: tables and a figure; printed, and written as CSV, JSON, PNG and SVG."""

import csv
import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
COLOURS = {"SAFE": "#2a7f62", "SISA": "#b5443c", "ProtoSISA": "#3d6cb0", "Ours": "#111111", "NoprotoSAFE": "#8a6fb0"}


@dataclass(frozen=True)
class Table:
    """Rows of text and numbers under named columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [self.columns, [":--", *["--:"] * (len(self.columns) - 1)], *self.rows]
        return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


@dataclass(frozen=True)
class Result:
    """The result of an experiment; `draw` draws on a matplotlib figure of this size."""

    name: str
    about: str
    tables: Sequence[Table]
    draw: Callable[[Any], None] | None = None
    size: tuple[float, float] = (9, 4)
    facts: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        """Write all files to a folder of its own; their paths."""
        own = folder / self.name
        own.mkdir(parents=True, exist_ok=True)
        written = [own / f"{self.name}.json"]
        content = [
            {"title": t.title, "columns": list(t.columns), "rows": [list(row) for row in t.rows]} for t in self.tables
        ]
        written[0].write_text(
            json.dumps({"about": self.about, "facts": self.facts, "tables": content}, indent=1) + "\n"
        )
        for i, table in enumerate(self.tables):
            path = own / f"{self.name}{'' if len(self.tables) == 1 else f'-{i + 1}'}.csv"
            with path.open("w", newline="") as file:
                csv.writer(file).writerows([table.columns, *table.rows])
            written.append(path)
        return written + (self._figures(own) if self.draw else [])

    def markdown(self, figures: str | None) -> str:
        """The result as a section of a page; `figures` is the path from the page to the figures."""
        parts = [f"## {self.name}", self.about, *(f"**{t.title}**\n\n{t.markdown()}" for t in self.tables)]
        if self.draw and figures is not None:
            parts.append(f"![{self.name}]({figures}/{self.name}/{self.name}.png)")
        return "\n\n".join(parts)

    def _figures(self, own: Path) -> list[Path]:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        matplotlib.rcParams["svg.hashsalt"] = self.name
        figure = pyplot.figure(figsize=self.size, layout="constrained")
        assert self.draw is not None
        self.draw(figure)
        paths = [own / f"{self.name}.{kind}" for kind in ("png", "svg")]
        for path in paths:
            figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})
        pyplot.close(figure)
        return paths


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds, to a tenth."""
    mean = statistics.mean(values)
    return f"{mean:.1f}" if len(values) < 2 else f"{mean:.1f} ± {statistics.stdev(values):.1f}"


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of the 95% interval (Student's t) of paired differences over seeds."""
    mean = statistics.mean(differences)
    if len(differences) < 2:
        return mean, float("inf")
    factor = T95.get(len(differences), 1.96)
    return mean, factor * statistics.stdev(differences) / len(differences) ** 0.5


def panels(figure: Any, names: Sequence[str], across: int = 3) -> Iterator[tuple[Any, str]]:
    """A panel for every name, at most `across` in a row."""
    across = min(len(names), across)
    grid = figure.subplots(-(-len(names) // across), across, squeeze=False).flatten()
    for axes in grid[len(names) :]:
        axes.set_axis_off()
    return zip(grid, names, strict=False)


def panels_size(count: int, width: float = 3.2, height: float = 2.8, across: int = 3) -> tuple[float, float]:
    """The size of a figure with `count` panels."""
    return width * min(count, across), height * -(-count // across)


def boxes(axes: Any, groups: Sequence[tuple[str, Sequence[Sequence[float]]]], labels: Iterable[str]) -> None:
    """Box plots side by side: one colour for each group, one position for each label."""
    labels = list(labels)
    width = 0.8 / len(groups)
    for g, (name, values) in enumerate(groups):
        positions = [i + (g - (len(groups) - 1) / 2) * width for i in range(len(labels))]
        drawn = axes.boxplot(
            list(values), positions=positions, widths=width * 0.8, patch_artist=True, manage_ticks=False
        )
        for box in drawn["boxes"]:
            box.set(facecolor=COLOURS.get(name.split(" ")[0], "#999999"), alpha=0.6)
        axes.plot([], [], color=COLOURS.get(name.split(" ")[0], "#999999"), lw=6, alpha=0.6, label=name)
    axes.set_xticks(range(len(labels)), labels)
    axes.axhline(0, color="#999999", lw=0.8)
    axes.legend(frameon=False)
