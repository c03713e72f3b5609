"""The store: files and catalogue stay in step, also when a move is interrupted and done again."""

from itertools import count

import pytest

from shardgraph.errors import DamagedFile
from shardgraph.storage import store
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.files import sweep
from shardgraph.storage.samples import pack_samples
from shardgraph.storage.store import Store
from shardgraph.storage.tables import inventory
from tests.strategies import all_bytes, embed, interrupted, many

ROWS = many(9)
HERE, THERE = [row.id for row in ROWS[:5]], [row.id for row in ROWS[5:]]
TARGETS = [("shard:a", i) for i in HERE[:4]] + [("test:3", HERE[4])] + [("shard:b", i) for i in THERE]


@pytest.fixture
def opened(fast_path):
    """Opens stores in folders of their own, and closes them."""
    made = []

    def open_store(name):
        root = fast_path / name
        root.mkdir(exist_ok=True)
        made.append(Catalogue(root / "catalog.sqlite"))
        return Store(root, made[-1])

    yield open_store
    for catalogue in made:
        catalogue.close()


def with_inbox(store):
    """Two chunks in the inbox, and where each sample belongs."""
    store.put_inbox(embed(ROWS[:3]))
    store.put_inbox(embed(ROWS[3:]))
    store.aim(TARGETS)
    return store


def leave(store, ids):
    """What accepting a forget does to the catalogue."""
    units = {row.unit for row in inventory.find_by_id(store.catalogue, ids)}
    with store.catalogue.transaction() as db:
        inventory.remove_samples(db, ids)
        inventory.mark_units_dirty(db, units)
    return sorted(units)


def sample_files(store):
    return {name: raw for name, raw in all_bytes(store.root).items() if name.endswith(".safetensors")}


def in_step(store):
    """Every unit's file is there with its digest and its samples, and there is no other file."""
    units = inventory.unit_digests(store.catalogue)
    for unit in units:
        assert set(store.read(unit).ids) == {row.id for row in inventory.find_in_unit(store.catalogue, unit)}
    assert {str(store.path(unit).relative_to(store.root)) for unit in units} == set(sample_files(store))
    assert not inventory.any_unit_dirty(store.catalogue)


def test_samples_wait_in_the_inbox_until_they_are_placed(opened):
    store = with_inbox(opened("s"))
    assert {row.unit for row in inventory.find_by_id(store.catalogue, HERE)} == {"inbox:1", "inbox:2"}
    store.place()
    in_step(store)
    assert set(inventory.unit_digests(store.catalogue)) == {"shard:a", "shard:b", "test:3"}
    assert store.read("shard:a").ids == tuple(HERE[:4])
    assert not list((store.root / "inbox").iterdir())


def test_a_shards_bytes_are_those_of_its_samples_whatever_way_they_came(opened):
    store = with_inbox(opened("s"))
    store.place()
    late = many(12)[9:]
    store.put_inbox(embed(late))
    store.aim([("shard:b", row.id) for row in late])
    store.place()
    store.remove(leave(store, THERE[:2]))
    expected = pack_samples(embed([row for row in [*ROWS, *late] if row.id in THERE[2:] or row in late]))
    assert store.path("shard:b").read_bytes() == expected
    in_step(store)


def test_the_last_sample_takes_its_file_and_folder_along(opened):
    store = with_inbox(opened("s"))
    store.place()
    folder = store.path("shard:b").parent
    store.remove(leave(store, THERE))
    assert not folder.exists()
    assert "shard:b" not in inventory.unit_digests(store.catalogue)
    in_step(store)


def test_a_large_addition_waits_in_files_of_bounded_size(opened, monkeypatch):
    monkeypatch.setattr(store, "CHUNK_BYTES", 100)
    kept = opened("s")
    kept.put_inbox(embed(ROWS))
    units = inventory.unit_digests(kept.catalogue)
    assert len(units) > 3
    assert sorted(i for unit in units for i in kept.read(unit).ids) == sorted(row.id for row in ROWS)
    kept.aim(TARGETS)
    kept.place()
    in_step(kept)
    assert sample_files(kept) == placed_files(opened("whole"))


def placed_files(store):
    with_inbox(store).place()
    return sample_files(store)


ACTS = {
    "place": (with_inbox, lambda store: store.place()),
    "remove": (
        lambda store: (with_inbox(store).place(), leave(store, [HERE[0], HERE[4], *THERE])),
        lambda store: store.remove(["shard:a", "shard:b", "test:3"]),
    ),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_move_interrupted_anywhere_and_done_again_gives_the_same_files(opened, act):
    prepare, do = ACTS[act]
    smooth = opened("smooth")
    prepare(smooth)
    do(smooth)
    in_step(smooth)
    for after in count(1, 29):  # every 29th line of the room, which has hundreds on the way
        store = opened(str(after))
        prepare(store)
        stopped = interrupted(after, lambda store=store: do(store), sums=True)
        sweep(store.root)
        do(store)
        assert sample_files(store) == sample_files(smooth), f"interrupted before line {after}"
        in_step(store)
        store.catalogue.close()
        if not stopped:
            break
    assert after > 100


def test_an_addition_interrupted_anywhere_is_there_whole_or_leaves_no_byte(opened):
    found = set()
    for after in count(1, 13):
        store = opened(str(after))
        stopped = interrupted(after, lambda store=store: store.put_inbox(embed(ROWS)), sums=True)
        sweep(store.root)
        store.drop_empty_inbox()
        found.add(inventory.count_samples(store.catalogue))
        in_step(store)
        store.catalogue.close()
        if not stopped:
            break
    assert found == {0, len(ROWS)}


@pytest.mark.parametrize("damage", ["a flipped bit", "a missing end", "no file"])
def test_a_damaged_file_is_named(opened, damage):
    store = with_inbox(opened("s"))
    store.place()
    path = store.path("shard:a")
    raw = bytearray(path.read_bytes())
    if damage == "no file":
        path.unlink()
    else:
        raw[-1] ^= 1
        path.write_bytes(raw if damage == "a flipped bit" else raw[:-1])
    with pytest.raises(DamagedFile, match=path.name):
        store.read("shard:a")


def test_a_file_that_lost_samples_is_not_rewritten(opened):
    """The catalogue wants a sample that the file does not have: an error, and the file stays."""
    store = with_inbox(opened("s"))
    store.place()
    raw = pack_samples(embed([row for row in ROWS if row.id in HERE[1:4]]))
    store.path("shard:a").write_bytes(raw)
    units = leave(store, [HERE[1]])
    with pytest.raises(DamagedFile, match="shard:a") as caught:
        store.remove(units)
    assert caught.value.ids == (HERE[0],)
    assert store.path("shard:a").read_bytes() == raw
