"""The house: rooms and the one direction between them, doors that are thin, no drawers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import shardgraph

PACKAGE = Path(shardgraph.__file__).parent
ROOMS = ("graph", "storage", "cluster", "embedding", "learn", "forget", "cli")
DOORS = ("cli", "service")  # side by side
MODULES = sorted(PACKAGE.rglob("*.py"))
IDS = [str(path.relative_to(PACKAGE)) for path in MODULES]
DRAWERS = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc", "internal"}


def room_of(path):
    """The room a module is in; None for the few that stand before all rooms."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def imports(path):
    """The modules of ours that a module imports, also within functions; names under TYPE_CHECKING count, too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute, so that the arrows can be read"
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "shardgraph")


def rank(room):
    return ROOMS.index("cli" if room in DOORS else room)


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path)], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_from_rooms_to_its_left_only(path):
    own = room_of(path)
    for name in imports(path):
        other = name.split(".")[1] if "." in name else None
        if other in (*ROOMS, *DOORS):
            assert rank(other) <= rank(own), f"{own} imports {name}"


@pytest.mark.parametrize("name", ["digest.py", "errors.py"])
def test_what_stands_before_the_rooms_imports_none_of_them(name):
    assert list(imports(PACKAGE / name)) == []


def test_there_are_no_other_rooms_and_no_drawers():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= {*ROOMS, *DOORS}
    names = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    assert not names & DRAWERS


def called(path):
    """The dotted names of all calls in a module."""
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return {ast.unparse(call) for call in calls}


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_no_module_touches_a_global_seed(path):
    seeds = {"torch.manual_seed", "torch.random.manual_seed", "np.random.seed", "numpy.random.seed", "random.seed"}
    assert not called(path) & seeds


def test_the_group_training_reads_no_clock_and_no_unseeded_randomness():
    clocks = ("time.", "datetime.", "os.urandom", "uuid.", "secrets.", "random.", "np.random.default_rng")
    pure = ("group", "inca", "prototypes", "recipe")
    found = {name for module in pure for name in called(PACKAGE / "learn" / f"{module}.py")}
    drawn = {name for name in found if name.startswith(clocks) or name.startswith("torch.rand")}
    assert drawn == set()


BLOCKED_IMPORT = """
import importlib, pkgutil, sys
blocked, names = sys.argv[1].split(","), sys.argv[2].split(",")

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in blocked:
            raise ImportError(name + " must not be needed here")

sys.meta_path.insert(0, Blocker())
for name in names:
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", []), name + "."):
        if not found.name.startswith(("shardgraph.learn.cuda", "shardgraph.learn.executors.gpu")):
            importlib.import_module(found.name)
print(len([name for name in sys.modules if name.startswith("shardgraph")]))
"""

HEAVY = ("pyarrow", "typer", "rich", "transformers", "PIL", "sklearn", "networkx", "triton", "ray")


def fresh(script, *arguments):
    """What a script prints in a new interpreter that knows our package and nothing else of this process."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("rooms", "without"),
    [
        ("shardgraph.graph", ("torch", "safetensors", "sqlite3", "cryptography", *HEAVY)),
        ("shardgraph.graph,shardgraph.learn", HEAVY),
        ("shardgraph.forget.classifier", HEAVY),
    ],
    ids=["graph", "learn", "the classifier"],
)
def test_a_room_can_be_entered_without_what_it_does_not_need(rooms, without):
    assert int(fresh(BLOCKED_IMPORT, ",".join(without), rooms)) > 5


def test_importing_the_package_loads_no_room():
    loaded = fresh("import sys, shardgraph; print([n for n in sys.modules if n.startswith(('shardgraph.', 'torch'))])")
    assert loaded == "[]"
