"""The whole API under inputs that its description allows and forbids: no crash, no undocumented answer."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.services.live_service import LiveService, live_service

EXAMPLES = int(os.environ.get("PREDICTOR__TEST_EXAMPLES", "12"))  # for each operation
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
STREAMS = ("/v1/events",)  # has no end


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    with live_service(tmp_path_factory.mktemp("fuzz")) as made:
        yield made.start()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")  # those of the generator are not ours
def test_no_operation_fails_or_answers_otherwise_than_it_is_described(service: LiveService) -> None:
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    failures: list[str] = []
    found = list(schema.get_all_operations())
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    assert len(operations) == len(found)
    assert len(operations) > 20
    for operation in operations:
        if operation.path in STREAMS:
            continue
        try:
            _try(operation)
        except BaseExceptionGroup as group:
            failures += [f"{operation.label}: {error}" for error in group.exceptions]
        except AssertionError as error:
            failures.append(f"{operation.label}: {error}")
    assert failures == [], "\n\n".join(text[:1500] for text in failures)


def _try(operation: Any) -> None:  # Any: an operation of schemathesis, whose types it does not give
    strategy = st.one_of(
        operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE),
        operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE),
    )

    @seed(0)
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=strategy)
    def run(case: Any) -> None:  # Any: a case of schemathesis
        case.call_and_validate(checks=CHECKS, timeout=30)

    run()
