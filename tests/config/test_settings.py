from __future__ import annotations

from pathlib import Path

import pytest

from pilotfish.config.settings import SettingProblem, Settings, load, read_config


def test_without_any_layer_the_built_in_values_apply() -> None:
    loaded = load()
    assert (loaded.settings, loaded.sources, loaded.problems) == (Settings(), {}, ())
    assert loaded.settings.max_iterations is None
    assert loaded.settings.tool_history_rounds is None


def test_the_editor_beats_the_environment_beats_the_file() -> None:
    loaded = load(
        config={"model": "file", "mode": "plan", "maxIterations": 3},
        environment={"PILOTFISH_MODEL": "env", "PILOTFISH_MODE": "edit"},
        editor={"model": "editor"},
    )
    assert (loaded.settings.model, loaded.settings.mode, loaded.settings.max_iterations) == ("editor", "edit", 3)
    assert loaded.sources == {"model": "editor", "mode": "environment", "maxIterations": "config file"}


def test_camel_case_and_snake_case_name_the_same_setting() -> None:
    loaded = load(config={"max_iterations": 3, "tool_retries": 1}, editor={"maxIterations": 5})
    assert (loaded.settings.max_iterations, loaded.settings.tool_retries, loaded.problems) == (5, 1, ())
    assert loaded.sources == {"maxIterations": "editor", "toolRetries": "config file"}


def test_null_means_not_set_here() -> None:
    loaded = load(config={"baseUrl": "http://127.0.0.1:1"}, editor={"baseUrl": None})
    assert loaded.settings.base_url == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("mode", "yolo", "mode: Input should be 'ask', 'plan', 'edit' or 'auto'"),
        ("maxIterations", 0, "maxIterations: Input should be greater than or equal to 1"),
        ("modle", "x", "there is no setting 'modle'"),
        ("budget", {"tokens": -1}, "budget.tokens: Input should be greater than 0"),
    ],
)
def test_an_invalid_value_is_ignored_and_reported(field: str, value: object, message: str) -> None:
    loaded = load(editor={field: value, "model": "kept"})
    assert loaded.problems == (SettingProblem("editor", field, message),)
    assert loaded.settings == Settings(model="kept")


def test_a_broken_config_file_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("model = ", "utf-8")
    values, problems = read_config(file)
    assert values == {}
    assert [problem.source for problem in problems] == ["config file"]


def test_rules_of_workspaces_in_the_config_file_are_not_settings(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('model = "m"\n[workspace."/x"]\ntrusted = true\n', "utf-8")
    assert read_config(file) == ({"model": "m"}, ())


def test_endpoints_of_the_file_and_of_the_editor_stand_side_by_side() -> None:
    file = [{"name": "a", "url": "http://file/a"}, {"name": "b", "url": "http://file/b"}]
    loaded = load(config={"endpoints": file}, editor={"endpoints": [{"name": "b", "url": "http://editor/b"}]})
    found = [(endpoint.name, endpoint.url) for endpoint in loaded.settings.endpoints]
    assert found == [("a", "http://file/a"), ("b", "http://editor/b")]
