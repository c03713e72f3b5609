"""Inputs: what a person passes to a `Workspace`, as the values that it works with.

    add, predict   Samples; a path or a URL; a frame, a table or a stream of Arrow; a data set; arrays; images; texts
    train          the names of the command line's options
    forget, plan   lists of names

This module is imported where something else than our own values is given.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from shardgraph.embedding.backbones.base import Backbone
from shardgraph.embedding.pipeline import embed
from shardgraph.embedding.readers.arrays import labelled_samples, read_arrays, samples_from, samples_in_parts
from shardgraph.embedding.readers.base import Reader
from shardgraph.embedding.readers.columns import Columns, columns_of
from shardgraph.embedding.readers.folder import SUFFIXES
from shardgraph.embedding.readers.lists import ListReader, is_picture, items_of
from shardgraph.embedding.records import EMBEDDING, IMAGE, TEXT, UNLABELLED, Record
from shardgraph.embedding.remote import Place, RemotePath, place_of
from shardgraph.errors import ConfigError, InputError, check_list
from shardgraph.forget.context import Context
from shardgraph.forget.erase.plan import NAMED, ForgetRequest
from shardgraph.forget.intake.admission import check_dims
from shardgraph.forget.intake.embed import OnBad, OnPresent, embed_stream, load_backbone_of
from shardgraph.forget.intake.stream import add_parts
from shardgraph.graph import Topology
from shardgraph.learn.recipe import Recipe, recipe
from shardgraph.storage.samples import Samples

if TYPE_CHECKING:
    from shardgraph.forget.workspace import Workspace

ARRAYS = (".npz", ".safetensors")
ACCEPTED = (
    "a path or a URL, a table or stream of Arrow (pandas, polars, DuckDB, pyarrow), a data set of `datasets`, "
    "arrays, a list of images, a list of texts, or Samples"
)
_GRAPH = ("coarse", "fine", "assignment", "shards", "degree", "safe")
_BILEVEL = ("bilevel", "bilevel-across", "by-source-bilevel")
_OTHERS = ("ids", "sources", "subjects", "splits")
_loaded: "WeakKeyDictionary[Context, Backbone]" = WeakKeyDictionary()


# Adding


def add_data(
    workspace: "Workspace",
    data: Any,
    labels: Iterable[Any] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    allow_return: bool = False,
    only_new: bool = False,
    skip_bad: bool = False,
    on_bad: OnBad | None = None,
    on_present: OnPresent | None = None,
    **others: Iterable[Any],
) -> int:
    """Add data of any kind; `labels` and `others` (ids, sources, subjects, splits) belong to arrays and lists."""
    if odd := sorted(set(others) - set(_OTHERS)):
        raise TypeError(f"add() got an unexpected keyword argument {odd[0]!r}")
    context, tell = workspace.context, on_present or (lambda count: None)
    names = columns_of(columns)
    beside = others if labels is None else {"labels": labels, **others}
    whole = isinstance(data, str | Path | RemotePath) or _is_frame(data)
    if whole and beside:
        raise InputError(f"{', '.join(beside)} belong to arrays and lists; name the columns of a table with columns=")
    if names is not None and not whole:
        raise InputError(f"columns= names the columns of a table, got {type(data).__name__}")
    if isinstance(data, str | Path | RemotePath):
        place = place_of(data)
        if names is None and place.suffix.lower() in ARRAYS:
            samples = _array_file(context, place, labelled=True)
        else:
            reader = _reader(context, place, names)
            if reader.modality != EMBEDDING:
                present: list[int] = []
                count = workspace.add_records(
                    reader,
                    "\n".join([_address(place), *sorted(f"{key}={name}" for key, name in (columns or {}).items())]),
                    allow_return=allow_return,
                    skip_bad=skip_bad,
                    on_bad=on_bad,
                    only_new=present.append if only_new else None,
                )
                tell(sum(present))
                return count
            return _stream(context, reader, allow_return, only_new, skip_bad, on_bad, tell)
    elif _is_frame(data):
        return _stream(context, _frame(context, data, names), allow_return, only_new, skip_bad, on_bad, tell)
    elif _takes(context) == EMBEDDING:
        samples = labelled_samples(_arrays(data) | _beside(beside), context.config.dtype)
    else:
        return _stream(context, _list(context, data, beside), allow_return, only_new, skip_bad, on_bad, tell)
    count = workspace.add(samples, allow_return=allow_return, only_new=only_new)
    tell(len(samples) - count)
    return count


def _stream(
    context: Context,
    reader: Reader,
    allow_return: bool,
    only_new: bool,
    skip_bad: bool,
    on_bad: OnBad | None,
    tell: OnPresent,
) -> int:
    """Add a reader's samples, all of them or none."""
    arrived = add_parts(
        context,
        _embedded(context, reader, skip_bad, on_bad),
        allow_return=allow_return,
        skip_present=only_new,
    )
    tell(arrived.present)
    return len(arrived.ids)


def _embedded(context: Context, reader: Reader, skip_bad: bool, on_bad: OnBad | None) -> Iterator[Samples]:
    if reader.modality == EMBEDDING:
        _require_precomputed(context, "embeddings")
        return samples_in_parts(reader, context.config.dtype)
    return embed_stream(context, reader, skip_bad=skip_bad, on_bad=on_bad)


def _address(place: Place) -> str:
    """What identifies an input that was interrupted."""
    return place.url if isinstance(place, RemotePath) else str(place.resolve())


# Predicting


def queries(context: Context, data: Any, columns: Mapping[str, str] | None = None) -> Iterator[Samples]:
    """The samples to predict, in batches, in the order of the data; all with the dimensions of the workspace.

    In a workspace for texts a string is a text; the path of a table is given as a `Path`.
    """
    for batch in (data,) if isinstance(data, Samples) else _queries(context, data, columns_of(columns)):
        check_dims(batch, context.config)
        yield batch


def _queries(context: Context, data: Any, names: Columns | None) -> Iterator[Samples]:
    takes = _takes(context)
    if isinstance(data, str) and takes == TEXT:
        data = [data]
    if isinstance(data, str | Path | RemotePath):
        yield from _queries_at(context, place_of(data), names)
    elif names is not None and not _is_frame(data):
        raise InputError(f"columns= names the columns of a table, got {type(data).__name__}")
    elif _is_frame(data):
        yield from _queried(context, _frame(context, data, names, labelled=False))
    elif takes == EMBEDDING:
        arrays = _arrays(data)
        yield samples_from({k: a[None] if k == "features" and a.ndim == 1 else a for k, a in arrays.items()},
                           context.config.dtype)  # fmt: skip
    else:
        yield from _queried(context, _list(context, data, None))


def queries_at(context: Context, place: str | Path, columns: Mapping[str, str] | None = None) -> Iterator[Samples]:
    """The samples at a path or a URL, in batches."""
    yield from _queries_at(context, place_of(place), columns_of(columns))


def _queries_at(context: Context, place: Place, names: Columns | None) -> Iterator[Samples]:
    if names is None and place.suffix.lower() in ARRAYS:
        yield _array_file(context, place, labelled=False)
    elif names is None and place.suffix.lower() in SUFFIXES and not (isinstance(place, Path) and place.is_dir()):
        if isinstance(place, Path) and not place.exists():
            raise InputError(f"a path must exist, '{place}' does not")
        yield from embed([Record(place.name, UNLABELLED, place)], _backbone(context, IMAGE))
    else:
        yield from _queried(context, _reader(context, place, names, labelled=False))


def _queried(context: Context, reader: Reader) -> Iterator[Samples]:
    if reader.modality == EMBEDDING:
        _require_precomputed(context, "embeddings")
        yield from samples_in_parts(reader, context.config.dtype)
    else:
        yield from embed(reader, _backbone(context, reader.modality))


def _backbone(context: Context, modality: str) -> Backbone:
    """The workspace's backbone, which stays loaded while the workspace is open."""
    if context not in _loaded or _loaded[context].modality != modality:
        _loaded[context] = load_backbone_of(context.root, context.config, modality, context.backbone_path)
    return _loaded[context]


# Kinds of data


def _takes(context: Context) -> str:
    """What the workspace's backbone reads."""
    return str(context.config.backbone.get("modality", EMBEDDING))


def _is_frame(data: Any) -> bool:
    if isinstance(data, Mapping | list | tuple | np.ndarray):
        return False
    from shardgraph.embedding.readers.arrow import is_frame

    return is_frame(data)


def _frame(context: Context, data: Any, columns: Columns | None, *, labelled: bool = True) -> Reader:
    from shardgraph.embedding.readers.arrow import read_frame

    return read_frame(data, columns, labelled=labelled, for_=_takes(context))


def _reader(context: Context, place: Place, columns: Columns | None, *, labelled: bool = True) -> Reader:
    from shardgraph.embedding.readers.registry import read

    return read(place, columns, labelled=labelled, for_=_takes(context))


def _array_file(context: Context, place: Place, *, labelled: bool) -> Samples:
    _require_precomputed(context, f"'{place.name}'")
    return read_arrays(place, context.config.dtype, labelled=labelled)


def _require_precomputed(context: Context, given: str) -> None:
    if _takes(context) != EMBEDDING:
        raise InputError(
            f"the backbone of this workspace is {context.config.backbone['name']}, which does not accept embeddings, "
            f"got {given}: create another workspace for them, with --backbone precomputed"
        )


def _arrays(data: Any) -> dict[str, np.ndarray]:
    """Arrays by name: of a mapping, or one array of tokens [n, t, d] or features [n, d]."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            if not _is_array(value) and not isinstance(value, list | tuple):
                kind = type(value).__name__
                raise InputError(f"arrays must be given by name, as in an .npz file, {name!r} is {kind}")
        return {str(name): _array(value) for name, value in data.items()}
    if isinstance(data, list | tuple) and any(isinstance(value, str | Path) for value in data):
        raise InputError("this workspace takes embeddings: give arrays, not a list of texts or paths")
    if not _is_array(data) and not isinstance(data, list | tuple):
        raise InputError(f"data must be {ACCEPTED}; got {type(data).__name__}")
    array = _array(data)
    return {"tokens" if array.ndim == 3 else "features": array}


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "__array__") or hasattr(value, "detach")


def _array(value: Any) -> np.ndarray:
    """The NumPy array of an array, a tensor or a list; a column of objects that are strings and integers is text."""
    if hasattr(value, "detach"):  # of torch
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as problem:
        raise InputError(f"arrays must be made of rows of equal length, got {problem}") from problem
    if array.dtype == object and all(isinstance(cell, str | int | np.integer) for cell in array.ravel()):
        return array.astype(np.str_)
    return array


def _beside(named: Mapping[str, Iterable[Any]]) -> dict[str, np.ndarray]:
    """Labels, ids and the like of arrays."""
    for name, values in named.items():
        check_list(values, name)
    return {name: _array(values if _is_array(values) else list(values)) for name, values in named.items()}


def _list(context: Context, data: Any, beside: Mapping[str, Iterable[Any]] | None) -> Reader:
    """The reader of images or texts that are given one by one; without `beside` they are only to be predicted."""
    takes = _takes(context)
    if isinstance(data, Mapping) or not (isinstance(data, Iterable | bytes) or is_picture(data)):
        hint = ": take one of its splits" if isinstance(data, Mapping) else ""
        raise InputError(f"data must be {ACCEPTED}; got {type(data).__name__}{hint}")
    columns = None if beside is None else {name: list(values) for name, values in _beside(beside).items()}
    return ListReader(takes, items_of(data, takes), columns)


# Training and forgetting


def training_values(
    topology: Topology | str | None, how: Recipe | str | None, options: Mapping[str, Any]
) -> tuple[Topology | None, Recipe | None]:
    """The topology and the recipe of a training, by the names of the command line's options."""
    given = {name: value for name, value in options.items() if value is not None}
    graph = {name: given.pop(name) for name in _GRAPH if name in given}
    if isinstance(topology, Topology) and graph:
        raise ConfigError(f"a topology has parameters of its own, got also {', '.join(graph)}")
    if not isinstance(topology, Topology) and (topology is not None or graph):
        kind = topology or "bilevel"
        if kind in _BILEVEL:
            graph = {"coarse": 1, "fine": 1} | graph
        topology = Topology.from_json({"kind": kind} | graph)
    if given.pop("no_prototypes", False):
        given["prototypes"] = False
    if odd := sorted(set(given) - {field.name for field in fields(Recipe)} | {"name"} & set(given)):
        known = ", ".join([*_GRAPH, *(field.name for field in fields(Recipe) if field.name != "name")])
        raise TypeError(f"train() got an unexpected keyword argument {odd[0]!r}; it has {known}")
    if isinstance(how, Recipe) and given:
        raise ConfigError(f"a recipe has settings of its own, got also {', '.join(given)}")
    if isinstance(how, str) or given:
        how = recipe(how if isinstance(how, str) else "default", **given)
    assert not isinstance(topology, str) and not isinstance(how, str)
    return topology, how


def request_of(order: object, named: Mapping[str, Any]) -> ForgetRequest:
    """The request for lists of samples, sources, subjects, shards and labels; an error if there is an order, too."""
    if order is not None:
        raise InputError(f"give a request, a plan or names to forget, got {type(order).__name__} and {[*named]}")
    reason = named.get("reason", "")
    lists = {kind: names for kind, names in named.items() if kind != "reason" and names is not None}
    if odd := sorted(set(lists) - set(NAMED)):
        raise TypeError(f"forget() got an unexpected keyword argument {odd[0]!r}; it has {', '.join(NAMED)}, reason")
    for kind, names in lists.items():
        check_list(names, f"the {kind} of a request")
    request = ForgetRequest(**{kind: tuple(map(str, names)) for kind, names in lists.items()}, reason=reason)
    if not request.selectors():
        raise InputError("a request must name what to forget: samples, sources, subjects, shards or labels")
    return request
