"""Settings: known variables only, and all faults at once."""

import socket
from pathlib import Path

import pytest

from predictor.errors import ArgumentError
from serving.commands.serve import check_address, check_queue_settings
from serving.settings import read_settings


def test_variables_with_the_prefix_become_settings() -> None:
    settings = read_settings({"PREDICTOR_MAX_JOBS": "5", "predictor_models": "/srv/models", "HOME": "/root"})
    assert (settings.max_jobs, settings.models) == (5, Path("/srv/models"))


def test_by_default_the_service_looks_where_retraining_publishes() -> None:
    assert read_settings({}).models == Path("models/store") / "duration"
    assert read_settings({}).fallback_directory().parts[-2:] == ("models", "fallback")


def test_settings_of_the_batch_jobs_may_lie_in_the_same_environment() -> None:
    assert read_settings({"PREDICTOR_GATE__MIN_ROWS": "5"}).max_jobs == 10_000


def test_the_command_line_wins_over_the_environment_and_none_says_nothing() -> None:
    environ = {"PREDICTOR_MODELS": "a", "PREDICTOR_OUTCOMES": "b"}
    settings = read_settings(environ, models=Path("c"), outcomes=None)
    assert (settings.models, settings.outcomes) == (Path("c"), Path("b"))


def test_every_fault_is_named_at_once_and_a_misspelt_name_gets_a_hint() -> None:
    environ = {"PREDICTOR_MAX_JOB": "5", "PREDICTOR_POLL_S": "never", "PREDICTOR_MAX_JOBS": "0"}
    with pytest.raises(ArgumentError) as caught:
        read_settings(environ)
    faults = "\n".join(caught.value.faults)
    assert len(caught.value.faults) == 3
    assert "did you mean PREDICTOR_MAX_JOBS?" in faults
    assert "PREDICTOR_POLL_S='never'" in faults
    assert "PREDICTOR_MAX_JOBS='0'" in faults


def test_reading_settings_ignores_the_process_environment_when_another_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PREDICTOR_MAX_JOBS", "7")
    assert read_settings({}).max_jobs == 10_000
    assert read_settings().max_jobs == 7


def test_serve_refuses_settings_of_a_queue_where_there_is_none() -> None:
    given = {"PREDICTOR_RETRAIN_REQUEST": "r.json", "PREDICTOR_POLICY": "p.toml"}
    with pytest.raises(ArgumentError, match="--cluster") as caught:
        check_queue_settings(read_settings(given))
    assert len(caught.value.faults) == len(given)
    check_queue_settings(read_settings({**given, "PREDICTOR_CLUSTER": "dgx-a100"}))


def test_serve_refuses_an_address_where_somebody_listens_or_that_is_not_ours() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ArgumentError, match="another service"),
    ):
        check_address("127.0.0.1", taken.getsockname()[1])
    check_address("127.0.0.1", 0)
    with pytest.raises(ArgumentError, match="cannot listen"):
        check_address("192.0.2.1", 0)
