"""One group after the other, in this process."""

from collections.abc import Iterator, Sequence

from shardgraph.learn.executors.base import GroupResult, GroupTask, run_task


class SerialExecutor:
    """Runs tasks here, in order."""

    def run(self, tasks: Sequence[GroupTask]) -> Iterator[GroupResult]:
        """The results, one by one."""
        return (run_task(task) for task in tasks)
