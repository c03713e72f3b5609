"""This process's one connection to Ray, shared by all its users; it closes when the last of them leaves.

Without an address a cluster is started on this machine and ends with the session. It has no dashboard, sends no usage
reports, writes no object to the disk, and keeps its logs in a temporary folder that is deleted with it.
"""

import os
import shutil
import tempfile
import threading
from concurrent.futures import Future
from importlib import import_module
from typing import Any

from shardgraph.errors import ConfigError

LOCAL = "local"

_LOCK = threading.Lock()
_session: "RaySession | None" = None


def import_ray() -> Any:
    """The `ray` package, which is optional."""
    try:
        return import_module("ray")
    except ImportError as problem:
        raise ConfigError("executor 'ray' needs the package ray: pip install 'shardgraph[ray]'") from problem


def resolve_address(given: str | None) -> str:
    """The address of the cluster: as given, else the variable RAY_ADDRESS, else "local"."""
    address = given or os.environ.get("RAY_ADDRESS") or LOCAL
    if address.startswith("ray://"):
        raise ConfigError(f"a command must run on a node of the cluster, got the client's address {address}")
    return address


def session() -> "RaySession":
    """The session of this process, made when it is first needed."""
    global _session
    with _LOCK:
        if _session is None:
            _session = RaySession()
        return _session


class RaySession:
    """A connection with a count of its users: every `enter` needs one `leave`."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._users = 0
        self._address = ""
        self._stop: threading.Event | None = None  # None: not connected, or connected by other code
        self._keeper: threading.Thread | None = None

    def enter(self, address: str, cpus: int | None) -> Any:
        """Connect, unless this process is connected already; the `ray` package."""
        ray = import_ray()
        with self._guard:
            if not self._users and not ray.is_initialized():
                self._connect(ray, address, cpus)
            elif self._users and self._address != address:
                raise ConfigError(f"this process is connected to Ray at {self._address}, got {address}")
            self._users += 1
            self._address = address
        return ray

    def leave(self) -> None:
        """Leave the connection; a cluster that was started for it ends with its last user."""
        with self._guard:
            self._users -= 1
            if not self._users and self._stop and self._keeper:
                self._stop.set()
                self._keeper.join()
                self._stop = self._keeper = None

    def _connect(self, ray: Any, address: str, cpus: int | None) -> None:
        stop, connected = threading.Event(), Future[None]()
        keeper = threading.Thread(target=_keep, args=(ray, address, cpus, stop, connected), daemon=True)
        keeper.start()
        connected.result()
        self._stop, self._keeper = stop, keeper


def _keep(ray: Any, address: str, cpus: int | None, stop: threading.Event, connected: "Future[None]") -> None:
    """Connect, wait, disconnect: in a thread of its own, as Ray's processes end with the thread that started them."""
    folder = tempfile.mkdtemp(prefix="shardgraph-ray-") if address == LOCAL else None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **_own_cluster(folder, cpus))
        connected.set_result(None)
        stop.wait()
    except BaseException as problem:
        reason = str(problem).strip().split("\n")[0]
        error = ConfigError(f"no Ray cluster can be reached at {address!r} ({reason}); `ray start --head` starts one")
        connected.set_exception(error if isinstance(problem, Exception) else problem)
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _own_cluster(folder: str | None, cpus: int | None) -> dict[str, Any]:
    if folder is None:
        return {}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return {
        "num_cpus": cpus or os.cpu_count(),
        "include_dashboard": False,
        "_temp_dir": folder,
        "_system_config": {"automatic_object_spilling_enabled": False},  # objects hold samples that may be forgotten
    }
