"""``predictor explain`` asks a live service, with a key where it wants one."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.commands.explain import app
from tests.services.live_service import live_service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_live_queue_explains_its_jobs_in_words_and_as_it_answers(tmp_path: Path) -> None:
    with live_service(tmp_path, secure=True) as service:
        header = service.key("predict", "submit")
        service.start()
        service.client.headers.update(header)
        for name in ("first", "second"):
            service.post(
                "/v1/jobs", {"job_id": name, "requested_gpus": 40, "walltime_s": 3600, "user": "ada"}
            )
        key_file = tmp_path / "key"
        key_file.write_text(header["authorization"].removeprefix("Bearer ") + "\n")

        def explain(*arguments: str) -> tuple[int, str]:
            answer = CliRunner().invoke(app, [*arguments, "--url", service.url])
            return answer.exit_code, answer.output

        code, words = explain("second", "--key-file", str(key_file))
        assert code == 0
        assert "second: waiting, place 1" in words
        assert "why not now  [" in words
        code, text = explain("second", "--json", "--key-file", str(key_file))
        mine, its = json.loads(text), service.get("/v1/jobs/second/explanation")
        assert (mine["reason"], mine["promise"]) == (its["reason"], its["promise"])
        assert mine.keys() == its.keys()
        assert explain("nobody", "--key-file", str(key_file))[0] == 1
        code, told = explain("second")
        assert code == 2
        assert "key" in told
