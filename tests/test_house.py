"""The house: rooms and the one direction between them, folders that can be overlooked, thin doors, no drawers."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import shardgraph
from shardgraph import forget

PACKAGE = Path(shardgraph.__file__).parent
ROOMS = ("graph", "storage", "cluster", "embedding", "learn", "forget", "cli")
DOORS = ("cli", "service")  # side by side
MODULES = sorted(PACKAGE.rglob("*.py"))
IDS = [str(path.relative_to(PACKAGE)) for path in MODULES]
DRAWERS = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc", "internal"}
NOT_COUNTED = {"__init__", "base", "registry"}
MOST_MODULES, MOST_LINES = 12, 400
SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+(OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM"
    r"|(CREATE|DROP|ALTER)\s+(TABLE|INDEX)|PRAGMA\s|VACUUM)\b",
    re.DOTALL,
)
REPEATED = {  # file names that stand in several rooms, and the one meaning that they have in all of them
    "forget": "where a person asks to forget: the command, the page",
    "requests": "what people ask to have forgotten: its tables, its routes, its pages",
    "rights": "which part of the data a consumer may use: the values, the routes, the page",
    "statistics": "figures about requests and models of the past",
    "twins": "samples that hold the same content: the search, the command",
}


def room_of(path: Path) -> str | None:
    """The room a module is in; None for the few that stand before all rooms."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def imports_in(text: str, where: str = "") -> Iterator[str]:
    """The modules of ours that a text imports, also within functions; names under TYPE_CHECKING count, too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{where}: imports are absolute, so that the arrows can be read"
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "shardgraph")


def imports(path: Path) -> Iterator[str]:
    return imports_in(path.read_text(), str(path))


def rank(room: str) -> int:
    return ROOMS.index("cli" if room in DOORS else room)


def wrong_arrows(own: str, names: Iterator[str]) -> list[str]:
    """Imports from a room to the right."""
    others = ((name, name.split(".")[1]) for name in names if "." in name)
    return [name for name, other in others if other in (*ROOMS, *DOORS) and rank(other) > rank(own)]


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path)], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_from_rooms_to_its_left_only(path):
    assert wrong_arrows(room_of(path), imports(path)) == []


@pytest.mark.parametrize("name", ["digest.py", "errors.py"])
def test_what_stands_before_the_rooms_imports_none_of_them(name):
    assert list(imports(PACKAGE / name)) == []


def test_there_are_no_other_rooms_and_no_drawers():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= {*ROOMS, *DOORS}
    names = {path.stem for path in MODULES} | {path.parent.name for path in MODULES}
    assert not names & DRAWERS


def sql_in(text: str) -> list[str]:
    """The string constants of a module, docstrings excepted, that hold SQL."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [node.value for node in constants if id(node) not in docstrings and SQL.search(node.value)]


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path) != "storage"], ids=lambda p: str(p.name))
def test_only_storage_knows_sql(path):
    assert sql_in(path.read_text()) == []


def crowded(folders: dict[Path, list[str]]) -> list[str]:
    """The folders with more modules than can be overlooked."""
    counted = {folder: [name for name in names if name not in NOT_COUNTED] for folder, names in folders.items()}
    return [folder.name for folder, names in counted.items() if len(names) > MOST_MODULES]


def test_a_folder_holds_at_most_a_dozen_modules_and_no_file_is_too_long():
    folders: dict[Path, list[str]] = defaultdict(list)
    for path in MODULES:
        folders[path.parent].append(path.stem)
    assert crowded(folders) == []
    assert [str(path) for path in MODULES if len(path.read_text().splitlines()) > MOST_LINES] == []


def ambiguous(paths: list[Path]) -> set[str]:
    """File names that stand in several folders without an agreed meaning."""
    folders = defaultdict(set)
    for path in paths:
        if path.stem not in NOT_COUNTED:
            folders[path.stem].add(path.parent)
    return {name for name, found in folders.items() if len(found) > 1} - REPEATED.keys()


def test_a_file_name_has_one_meaning():
    assert ambiguous(MODULES) == set()
    assert {path.stem for path in MODULES} >= REPEATED.keys(), "a meaning that no file has any more"


def below_the_front(names: Iterator[str]) -> list[str]:
    """Imports of what lies below the front of `forget`."""
    fronts = {"shardgraph.forget", *(f"shardgraph.forget.{name}" for name in forget.__all__)}
    return [name for name in names if name.startswith("shardgraph.forget") and name not in fronts]


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path) in DOORS], ids=lambda p: str(p.name))
def test_doors_import_only_the_front_of_forget(path):
    assert below_the_front(imports(path)) == []


def test_everything_that_the_front_names_is_there():
    for name in forget.__all__:
        assert getattr(forget, name) is not None


def test_each_rule_breaks_when_it_is_violated():
    assert wrong_arrows("graph", iter(["shardgraph.learn.group"])) and not wrong_arrows(
        "cli", iter(["shardgraph.graph"])
    )
    assert sql_in('"""SELECT in a docstring FROM nowhere."""\nx = "SELECT id FROM samples"') == [
        "SELECT id FROM samples"
    ]
    assert sql_in('y = f"UPDATE {1} SET a"\nz = "DELETE FROM samples"') == ["DELETE FROM samples"]
    assert crowded({Path("room"): [f"m{i}" for i in range(MOST_MODULES + 1)]}) == ["room"]
    assert not crowded({Path("room"): ["__init__", "base", *(f"m{i}" for i in range(MOST_MODULES))]})
    assert ambiguous([Path("a/ledger.py"), Path("b/ledger.py"), Path("a/base.py"), Path("b/base.py")]) == {"ledger"}
    assert below_the_front(imports_in("from shardgraph.forget.erase import execute")) != []
    assert below_the_front(imports_in("from shardgraph.forget import Workspace")) == []


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
        ("shardgraph.forget.learned", HEAVY),
    ],
    ids=["graph", "learn", "learned in memory"],
)
def test_a_room_can_be_entered_without_what_it_does_not_need(rooms, without):
    assert int(fresh(BLOCKED_IMPORT, ",".join(without), rooms)) > 5


def test_importing_the_package_loads_no_room():
    loaded = fresh("import sys, shardgraph; print([n for n in sys.modules if n.startswith(('shardgraph.', 'torch'))])")
    assert loaded == "[]"
