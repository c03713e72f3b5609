"""`demo`: train, forget and prove it, on real images with a pretrained backbone, in under two minutes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from shardgraph.cli.command import ProgressBars, print_facts, print_json
from shardgraph.cli.options.shared import Json
from shardgraph.errors import InputError, VerificationError

REPORT, ORIGINALS = "report.html", "originals"


def demo(
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the data, both workspaces and the report in this new folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train on handwritten digits, forget some, prove it, and write report.html."""
    from shardgraph.cli.demo import digits
    from shardgraph.cli.demo.report import report_of
    from shardgraph.cli.demo.story import LEARNED, run_story
    from shardgraph.cli.report.page import page

    bars = ProgressBars()

    def tell(title: str, rows: list[tuple[str, object]]) -> None:
        bars.close()
        if not as_json:
            print_facts(f"\n{title}", rows)

    with _folder(keep) as folder:
        try:
            rows = digits.digits()
            story = run_story(folder, rows, tell, bars)
            report = folder / REPORT
            report.write_text(page(report_of(story, rows)), encoding="utf-8")
            if keep:
                digits.write_images(rows, folder / ORIGINALS)
        finally:
            bars.close()
    tell("The report", [("open", report)])
    tell("The pages of the service", _serve_rows(keep, LEARNED))
    if as_json:
        print_json(story.to_json() | {"kept": str(keep) if keep else None, "report": str(report)})
    if not story.equal:
        raise VerificationError("the two models differ: this is an error in shardgraph, please report it")


def _serve_rows(keep: Path | None, workspace: str) -> list[tuple[str, object]]:
    """How to open the workspace in a browser; without --keep it must be created again first."""
    folder = keep or Path("demo-workspace")
    command = f"shardgraph serve {folder / workspace} --originals {folder / ORIGINALS}"
    first: list[tuple[str, object]] = [] if keep else [("first", f"shardgraph demo --keep {folder}")]
    return [*first, ("run", command), ("open", "http://127.0.0.1:8000")]


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The folder to keep, or a temporary one in which only the report remains."""
    import tempfile
    from shutil import rmtree

    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="shardgraph-demo-"))
        try:
            yield folder
        finally:
            for path in folder.iterdir():
                if path.is_dir():
                    rmtree(path, ignore_errors=True)
                elif path.name != REPORT:
                    path.unlink()
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(f"{keep} already exists and is not empty; choose another folder")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep
