"""The graph: drawn, and as a list; a shard looked at closely."""

from collections import defaultdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from shardgraph.errors import WorkspaceError
from shardgraph.forget.build.manifest import Manifest
from shardgraph.forget.views.graph_view import Portrait, ShardView, shard_view
from shardgraph.service.access import TheOffice
from shardgraph.service.office import Office
from shardgraph.service.pages.rendering import PREFIX, render, visible
from shardgraph.service.pages.visiting import Looker, Page
from shardgraph.service.timing import expected_seconds

ROWS = 100  # shards on a page of the list
router = APIRouter(prefix=PREFIX, route_class=Page, include_in_schema=False)
Shard = Annotated[str, Query(max_length=1024)]


@router.get("/graph")
def graph(
    request: Request,
    who: Looker,
    office: TheOffice,
    shard: Shard = "",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """The graph's page, with a shard if one is chosen."""
    if not office.reader.config.trained:
        return render(request, "graph.html", portrait=None)
    found = office.reader.portrait()
    pages = max(1, -(-len(found.shards) // ROWS))
    rows = found.shards[(min(page, pages) - 1) * ROWS :][:ROWS]
    chosen = _chosen(office, shard) if shard else None
    facts: dict[str, Any] = {
        "groups": len({one.group for one in found.shards}),
        "rows": rows,
        "page": min(page, pages),
        "pages": pages,
    }
    return render(request, "graph.html", portrait=found, **facts | {"shard": chosen, "seconds": _seconds(office)})


@router.get("/graph/shard")
def shard(request: Request, who: Looker, office: TheOffice, name: Shard) -> Response:
    """What the script puts beside the drawing when a shard is clicked."""
    return render(request, "shard.html", shard=_chosen(office, name), seconds=_seconds(office))


@router.get("/graph.json")
def drawn(who: Looker, office: TheOffice) -> Response:
    """The graph for the script: shards by group, and which group learns from which."""
    if not office.reader.config.trained:
        raise WorkspaceError("this workspace has not been trained yet; run: shardgraph train")
    return JSONResponse(elements(office.reader.portrait()))


def elements(found: Portrait) -> dict[str, Any]:
    """Groups with their shards [name, samples, label, state], and edges between groups [from, to, private].

    Within a group everybody learns from everybody, so a box says it; between groups one arrow stands for all edges.
    """
    groups: dict[str, list[list[Any]]] = defaultdict(list)
    group_of = {}
    for one in found.shards:
        groups[one.group].append([one.name, one.samples, visible(one.name), one.state])
        group_of[one.name] = one.group
    reading = [group for group in found.graph.groups() if group.name in groups]
    plain = {(group.name, group_of[other]) for group in reading for other in group.neighbourhood if other in group_of}
    private = {(group.name, group_of[other]) for group in reading for other in group.private if other in group_of}
    arrows = {edge: edge not in plain for edge in plain | private if edge[0] != edge[1]}
    edges = [[source, target, secret] for (source, target), secret in sorted(arrows.items())]
    shown = [{"name": name, "label": visible(name), "shards": shards} for name, shards in groups.items()]
    return {"groups": shown, "edges": edges}


def _chosen(office: Office, name: str) -> ShardView:
    reader = office.reader
    return shard_view(reader.store, reader.config, Manifest.load(reader.root), name)


def _seconds(office: Office) -> float | None:
    return expected_seconds(office.reader.catalogue)
