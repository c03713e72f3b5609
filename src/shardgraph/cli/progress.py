"""Progress bars on standard error, where that is a terminal."""

import sys

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from shardgraph.cli.output import console


class Bars:
    """A workspace's `progress(what, done, of)`: bars that appear with the first piece of work and vanish at the end."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, of: int) -> None:
        if not sys.stderr.isatty() or not of:
            return
        if self._progress is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=console(stderr=True), transient=True)
            self._progress.start()
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=of)
        self._progress.update(self._tasks[what], completed=done, total=of)

    def close(self) -> None:
        """Take the bars off the terminal."""
        if self._progress is not None:
            self._progress.stop()
        self._progress, self._tasks = None, {}
