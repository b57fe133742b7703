"""Endpoints are stored in the user's `config.toml`, which keeps everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotfish.config.endpoint_store import remove_endpoint, store_endpoint, stored_names
from pilotfish.config.settings import Endpoint, load_user
from pilotfish.errors import StorageError

ONE = Endpoint(name="one", url="http://one/v1", key_variable="ONE_KEY")
TWO = Endpoint(name="two", url="http://two/v1", api="anthropic")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "config.toml"
    monkeypatch.setenv("PILOTFISH_CONFIG", str(place))
    return place


def test_endpoints_are_added_replaced_and_removed_and_the_rest_stays(file: Path) -> None:
    file.write_text('model = "demo" # mine\n')
    for endpoint in (ONE, TWO):
        store_endpoint(endpoint)
    assert load_user().settings.endpoints == (ONE, TWO)
    changed = Endpoint(name="one", url="http://other/v1")
    store_endpoint(changed)
    assert load_user().settings.endpoints == (changed, TWO)
    assert stored_names() == {"one", "two"}
    assert (remove_endpoint("one"), remove_endpoint("one"), remove_endpoint("two")) == (True, False, True)
    assert load_user().settings.endpoints == ()
    assert file.read_text().strip() == 'model = "demo" # mine'


def test_an_inline_list_is_kept_as_one(file: Path) -> None:
    file.write_text('endpoints = [{ name = "one", url = "http://one/v1" }]\n')
    store_endpoint(TWO)
    assert [endpoint.name for endpoint in load_user().settings.endpoints] == ["one", "two"]


def test_a_file_of_another_shape_is_not_changed(file: Path) -> None:
    file.write_text('endpoints = "none"\n')
    with pytest.raises(StorageError, match="not a list of tables"):
        store_endpoint(ONE)
    assert file.read_text() == 'endpoints = "none"\n'
