"""The graph page: the shard graph as a drawing and as a list, and one shard in detail."""

from collections import defaultdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from shardgraph.errors import WorkspaceError
from shardgraph.forget import GraphView
from shardgraph.service.auth.access import CurrentRuntime
from shardgraph.service.pages.rendering import PREFIX, make_visible, render
from shardgraph.service.pages.visitors import Inspector, PageRoute

ROWS = 100  # shards on a page of the list
router = APIRouter(prefix=PREFIX, route_class=PageRoute, include_in_schema=False)
ShardName = Annotated[str, Query(max_length=1024)]


@router.get("/graph")
def show(
    request: Request,
    who: Inspector,
    runtime: CurrentRuntime,
    shard: ShardName = "",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """The page, with a shard if one is selected."""
    if not runtime.queries.config.trained:
        return render(request, "graph.html", graph=None)
    found = runtime.queries.graph()
    pages = max(1, -(-len(found.shards) // ROWS))
    facts: dict[str, Any] = {
        "groups": len({one.group for one in found.shards}),
        "rows": found.shards[(min(page, pages) - 1) * ROWS :][:ROWS],
        "page": min(page, pages),
        "pages": pages,
        "shard": runtime.queries.shard(shard) if shard else None,
        "seconds": runtime.statistics.expected_seconds(),
    }
    return render(request, "graph.html", graph=found, **facts)


@router.get("/graph/shard")
def show_shard(request: Request, who: Inspector, runtime: CurrentRuntime, name: ShardName) -> Response:
    """The part of the page that the script fetches when a shard is clicked."""
    seconds = runtime.statistics.expected_seconds()
    return render(request, "shard.html", shard=runtime.queries.shard(name), seconds=seconds)


@router.get("/graph.json")
def data(who: Inspector, runtime: CurrentRuntime) -> Response:
    """The graph for the script: shards by group, and which group learns from which."""
    if not runtime.queries.config.trained:
        raise WorkspaceError("this workspace has not been trained yet; run: shardgraph train")
    return JSONResponse(elements(runtime.queries.graph()))


def elements(found: GraphView) -> dict[str, Any]:
    """Groups with their shards [name, samples, label, state], and edges between groups [from, to, private].

    Within a group every shard learns from every other, which the group's box says; between two groups one arrow stands
    for all edges.
    """
    groups: dict[str, list[list[Any]]] = defaultdict(list)
    group_of = {}
    for one in found.shards:
        groups[one.group].append([one.name, one.samples, make_visible(one.name), one.state])
        group_of[one.name] = one.group
    learning = [group for group in found.graph.groups() if group.name in groups]
    plain = {(group.name, group_of[other]) for group in learning for other in group.neighbourhood if other in group_of}
    private = {(group.name, group_of[other]) for group in learning for other in group.private if other in group_of}
    arrows = {edge: edge not in plain for edge in plain | private if edge[0] != edge[1]}
    edges = [[source, target, secret] for (source, target), secret in sorted(arrows.items())]
    shown = [{"name": name, "label": make_visible(name), "shards": shards} for name, shards in groups.items()]
    return {"groups": shown, "edges": edges}
