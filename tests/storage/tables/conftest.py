import pytest

from shardgraph.storage.catalogue import Catalogue


@pytest.fixture
def catalogue(tmp_path):
    opened = Catalogue(tmp_path / "catalog.sqlite")
    yield opened
    opened.close()
