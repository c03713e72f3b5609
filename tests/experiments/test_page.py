"""What is shown is what the records hold: no more, and nothing that holds for other data only."""

import pytest

from experiments import accuracy, cost, domains, page
from experiments.records import NoRecords, Records
from shardgraph.graph import Bilevel, BilevelAcross, BySourceBilevel
from tests.experiments import made_up


@pytest.fixture
def records(tmp_path) -> Records:
    return Records.load(made_up.recorded(tmp_path))


@pytest.mark.parametrize("name", sorted(set(page.EXPERIMENTS) - {"graphs"}))
def test_an_experiment_without_records_says_what_writes_them(name, records):
    with pytest.raises(NoRecords, match=rf"{name!r} needs records .*--cache CACHE"):
        page.show(name, Records({}))
    with pytest.raises(NoRecords):
        page.show(name, Records({"made_up--toy": records.sets["made_up--toy"][:1]}))


def test_a_set_that_is_not_finished_is_left_out(records):
    whole = records.sets["made_up--toy"]
    for count in range(0, len(whole), 67):
        both = Records({"made_up--toy": whole, "begun--toy": whole[:count]})
        for name in ("second", "accuracy", "cost", "fine", "instant", "adapters", "prototypes", "others"):
            assert page.show(name, both).tables


def test_cost_claims_only_what_was_measured(records):
    about = {"rival": "forget", "n": 64, "seed": 0, "adapter": "inca", "shape": [32, 2], "device": "cpu"}
    good, bad = ({"predicted": 2, "measured": n, "seconds": 0.1} for n in (2, 1))
    own = records.sets["made_up--toy"]
    own.append({**about, "forgets": [good, good]})
    shown = cost.show(records)
    assert "Every forget" in shown.about and shown.tables[1].columns[-1] == "ms, median, CPU"
    own[-1] = {**about, "forgets": [good, bad]}
    assert "1 of 2 forgets" in cost.show(records).about
    del about["device"]
    own.append({**about, "forgets": [good]})
    mixed = cost.show(records).tables[1]
    assert mixed.columns[-1] == "on" and [row[-1] for row in mixed.rows] == ["CPU", "GPU"]


def test_the_paper_is_named_for_its_data_sets_alone(records):
    own = records.sets["made_up--toy"]
    assert "paper" not in accuracy.show(records).about
    both = accuracy.show(Records({"made_up--toy": own, "cub200--toy": own})).about
    assert "as in the paper on cub200; by one rule" in both and "ViT-L/16" in both
    assert "(n_c, n_f) as in the paper." in accuracy.show(Records({"cub200--toy": own})).about


def test_four_domains_have_the_papers_shapes_and_others_as_many_shards_either_way():
    within, across = BySourceBilevel(8, 2, "balanced"), BilevelAcross(32, 2, "balanced")
    assert domains.graphs(4) == {
        "SISA in-domain": (BySourceBilevel(16, 1, "balanced"), "nothing"),
        "SAFE in-domain": (within, "first"),
        "Ours in-domain": (within, "second"),
        "SISA cross-domain": (Bilevel(64, 1, "balanced"), "nothing"),
        "SAFE cross-domain": (across, "first"),
        "Ours cross-domain": (across, "second"),
    }
    for count in (2, 3, 7):
        for name, (topology, _) in domains.graphs(count).items():
            shards = topology.coarse * topology.fine
            assert shards * (count if "in-domain" in name else 1) == 16 * count


def test_domains_name_pacs_for_pacs_alone():
    data = made_up.data(240, classes=4, sources=3)
    found = [{"study": "domains", **record} for record in domains.domains(data, 0, "cpu")]
    assert {len(record["domains"]) for record in found} == {3}
    mine = domains.show(Records({"made_up--toy": found})).about
    assert "48 shards in all" in mine and "PACS" not in mine
    four = [{**record, "domains": {**record["domains"], "more": 1.0}} for record in found]
    theirs = domains.show(Records({"pacs--toy": four})).about
    assert "64 shards in all. PACS stands in for DomainNet-126" in theirs
