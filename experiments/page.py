"""Run experiments by name, and build the page of results.

python -m experiments.page > docs/results.md
"""

import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from experiments import (
    ablation,
    accuracy,
    adapters,
    cost,
    domains,
    fine,
    graphs,
    instant,
    others,
    private,
    prototypes,
    runs,
    second,
)
from experiments.cache import demo
from experiments.command import run_command
from experiments.finished import finished
from experiments.recordfile import RecordFile
from experiments.records import RUNS, Records
from experiments.result import Result

RESULTS = Path(__file__).parent / "results"
EXPERIMENTS: dict[str, Callable[[Records], Result]] = {
    module.__name__.rpartition(".")[2]: module.show
    for module in (
        second,
        accuracy,
        cost,
        fine,
        instant,
        adapters,
        prototypes,
        domains,
        graphs,
        others,
        private,
        ablation,
    )
}

HEAD = """# Results

This page is built by `python -m experiments.page > docs/results.md` from the records in `experiments/results/runs`,
which `python -m experiments.runs --cache CACHE --out experiments/results/runs` writes (NVIDIA H200; seeds 0, 1, 2;
how to make the cache: [experiments](experiments.md)). Every section is printed by `shardgraph experiment NAME`, which
also writes it as CSV, JSON, PNG and SVG to a folder of `experiments/results`. Numbers of the paper are marked "paper,
ViT-L/16": they were measured with another backbone, on full-size images.
"""


def show(name: str, records: Records) -> Result:
    """An experiment on the data sets that have all its records; `NoRecords` if there is none."""
    return EXPERIMENTS[name](finished(name, records))


def quick(names: Iterable[str]) -> Records:
    """What these experiments need, on scikit-learn's digits, on the CPU, in under a minute."""
    wanted = set(names)
    with tempfile.TemporaryDirectory() as folder:
        file = RecordFile(Path(folder) / "digits--pixels.jsonl")
        if wanted - {"graphs", "private", "ablation"}:
            studies = [study for study in runs.STUDIES if study in wanted]
            runs.run(demo(), file, "cpu", (1, 8, 64, 256), "adapters" in wanted, studies, seeds=(0, 1))
        if "private" in wanted:
            file.add(private.measured(demo(), 1, seeds=(0,), ks=(1, 8)))
        if "ablation" in wanted:
            whole = demo()  # half of which is enough: there are many trainings
            half = replace(whole, train=whole.train.take(range(0, len(whole.train), 2)))
            file.add({"study": "ablation", **record} for record in ablation.ablation(half, "cpu"))
        return Records({"digits--pixels": file.records})


def main() -> None:
    records = Records.load(RUNS)
    shown = [show(name, records) for name in EXPERIMENTS]
    for one in shown:
        one.write(RESULTS)
    sys.stdout.write("\n\n".join([HEAD.strip(), *(one.markdown("../experiments/results") for one in shown)]) + "\n")


if __name__ == "__main__":
    run_command(main)
