"""The cluster file of the documentation is one that Ray accepts."""

from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "docs" / "cluster.yaml"


@pytest.mark.slow
def test_the_cluster_file_is_valid_and_keeps_objects_off_the_disk():
    pytest.importorskip("ray")
    import yaml
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(yaml.safe_load(FILE.read_text()))
    validate_config(config)
    assert config["provider"]["type"] == "local" and config["max_workers"] == len(config["provider"]["worker_ips"])
    assert '"automatic_object_spilling_enabled": false' in " ".join(config["head_start_ray_commands"])
