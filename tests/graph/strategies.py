"""Random graphs and samples for the properties of this room."""

from hypothesis import settings
from hypothesis import strategies as st

from shardgraph.graph import ShardGraph

# No deadline: the machine may be busy, and a slow example is no wrong one.
quick = settings(max_examples=40, deadline=None)

# Names with the separators that could be confused, and beyond ASCII.
NAMES = st.text(alphabet="ab/-:,é", min_size=1, max_size=4)


@st.composite
def graphs(draw, most: int = 8) -> ShardGraph:
    """A graph of one to `most` shards with any edges, self edges among them."""
    names = draw(st.lists(NAMES, min_size=1, max_size=most, unique=True))
    ends = st.sampled_from(names)
    return ShardGraph(tuple(names), frozenset(draw(st.sets(st.tuples(ends, ends), max_size=24))))


def columns(most: int = 24) -> st.SearchStrategy[tuple[list[str], list[str], list[str]]]:
    """Ids (unique), sources and labels of a few samples; "late" is no declared class."""
    ids = st.text(alphabet="01ab/é", min_size=1, max_size=5)
    sources = st.sampled_from(["ann", "bob/x", "web"])
    labels = st.sampled_from(["ant", "bee", "cat", "dog", "eel", "late"])
    rows = st.lists(st.tuples(ids, sources, labels), max_size=most, unique_by=lambda row: row[0])
    return rows.map(lambda found: tuple([row[i] for row in found] for i in range(3)))
