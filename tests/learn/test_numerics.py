"""The numerics fingerprint: what it names, and that it notices settings of the libraries."""

import os
import subprocess
import sys

import pytest
import torch

from shardgraph.learn.numerics import arithmetic, difference, fingerprint, fingerprint_digest


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
    assert difference(ours, ours | {"arithmetic": "0"}) == f"arithmetic is '{arithmetic()}' here, was '0'"
    assert "arithmetic" not in difference(ours, theirs | {"arithmetic": "0"})


def elsewhere(**settings):
    """The arithmetic of another process."""
    code = "from shardgraph.learn.numerics import arithmetic; print(arithmetic())"
    run = subprocess.run([sys.executable, "-c", code], env=os.environ | settings, capture_output=True, text=True)
    return run.stdout.strip()


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="the setting is one of MKL's")
def test_instructions_that_a_setting_chooses_are_part_of_the_fingerprint():
    assert fingerprint()["arithmetic"] == arithmetic() == elsewhere(OMP_NUM_THREADS="2", TZ="Asia/Tokyo")
    if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
        assert elsewhere(MKL_CBWR="COMPATIBLE") != arithmetic()
