"""The whole API under inputs that its description allows and forbids, with and without the right key."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from serving.problems import PROBLEM_TYPE
from serving.security.guard import is_open
from serving.security.keys import ADMIN, SCOPES
from tests.services.live_service import LiveService, live_service

EXAMPLES = int(os.environ.get("PREDICTOR__TEST_EXAMPLES", "12"))  # for each operation
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
STREAMS = ("/v1/events",)  # has no end
Case = Any  # of schemathesis, whose types it does not give
Headers = dict[str, str]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),  # those of the generator are not ours
]


@pytest.fixture(scope="module")
def keys(service: LiveService) -> dict[str, Headers]:
    """Return headers by what the key lacks, "" = nothing."""
    made = {
        scope: service.key(*(other for other in SCOPES if other not in (scope, ADMIN))) for scope in SCOPES
    }
    made[""] = service.key(ADMIN)
    for headers in made.values():  # a running service takes new keys up in a moment
        while service.client.get(f"{service.url}/v1/queue", headers=headers).status_code == 401:
            time.sleep(0.05)
    return made


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """A service that asks for keys, and takes new ones up at once."""
    quick = {"PREDICTOR_KEYS_REFRESH_S": "0.1"}
    with live_service(tmp_path_factory.mktemp("fuzz"), secure=True, settings=quick) as made:
        made.key(ADMIN)  # without any it does not start
        yield made.start()


def test_no_operation_fails_or_answers_otherwise_than_it_is_described(
    service: LiveService, keys: dict[str, Headers]
) -> None:
    def run(case: Case) -> None:
        case.call_and_validate(checks=CHECKS, timeout=30, headers=keys[""])

    operations = [one for one in operations_of(service) if one.path not in STREAMS]
    assert len(operations) > 20
    assert faults_of(operations, run, EXAMPLES) == []


def test_without_a_key_every_operation_is_refused_whatever_is_sent(service: LiveService) -> None:
    def run(case: Case) -> None:
        check_refused(case.call(timeout=30, headers={"authorization": "Bearer prk_0000000000_x"}), 401)

    assert faults_of(guarded(service), run, EXAMPLES // 4) == []


def test_a_key_of_other_scopes_is_refused_by_every_operation_whatever_is_sent(
    service: LiveService, keys: dict[str, Headers]
) -> None:
    operations = guarded(service)
    assert {needed_by(operation) for operation in operations} == set(SCOPES)

    def run(case: Case) -> None:
        check_refused(case.call(timeout=30, headers=keys[needed_by(case.operation)]), 403)

    assert faults_of(operations, run, EXAMPLES // 4) == []


def operations_of(service: LiveService) -> list[Any]:
    own_keys = SchemathesisConfig.from_dict({"generation": {"with-security-parameters": False}})
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json", config=own_keys)
    found = list(schema.get_all_operations())
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    assert len(operations) == len(found)
    return operations


def guarded(service: LiveService) -> list[Any]:
    """Return the operations that need a key: all but health, metrics and explanations."""
    found = [one for one in operations_of(service) if not is_open({"type": "http", "path": one.path})]
    assert len(found) > 18
    return found


def needed_by(operation: Any) -> str:  # Any: an operation of schemathesis
    """Return the scope that an operation is described to need."""
    [requirement] = operation.definition.raw["security"]
    [scope] = requirement["apiKey"]
    return str(scope)


def check_refused(answer: Any, status: int) -> None:  # Any: an answer as schemathesis gives it
    assert answer.status_code == status, f"{answer.status_code} in place of {status}"
    assert answer.headers["content-type"] == [PROBLEM_TYPE]
    assert answer.json()["status"] == status


def faults_of(operations: list[Any], run: Callable[[Case], None], examples: int) -> list[str]:
    """Return what goes wrong when cases of all operations are run."""
    faults: list[str] = []
    for operation in operations:
        try:
            _try(operation, run, examples)
        except BaseExceptionGroup as group:
            faults += [f"{operation.label}: {error}"[:1500] for error in group.exceptions]
        except AssertionError as error:
            faults.append(f"{operation.label}: {error}"[:1500])
    return faults


def _try(operation: Any, run: Callable[[Case], None], examples: int) -> None:
    strategy = st.one_of(
        operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE),
    )

    @seed(0)
    @settings(
        max_examples=max(examples, 1), deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=strategy)
    def tried(case: Case) -> None:
        run(case)

    tried()
