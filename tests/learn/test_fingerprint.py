import torch

from shardgraph.learn.fingerprint import difference, fingerprint, fingerprint_digest


def test_the_fingerprint_names_library_versions_and_the_machine():
    values = dict(fingerprint())
    assert values["torch"] == torch.__version__
    assert values["capability"] == torch.backends.cpu.get_cpu_capability()
    assert values["device"] and values["machine"] and "one-thread" in values["path"]


def test_a_difference_is_named_with_both_values():
    ours, theirs = dict(fingerprint()), {**dict(fingerprint()), "torch": "1.0", "moon": "full"}
    assert difference(ours, ours) == ""
    assert (
        difference(ours, theirs)
        == f"moon is 'unknown' here, was 'full'; torch is '{torch.__version__}' here, was '1.0'"
    )
    assert fingerprint_digest(tuple(ours.items())) != fingerprint_digest(tuple(theirs.items()))
