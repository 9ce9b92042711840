"""Problems: the catalogue, and what the domain's errors become."""

import ast
import inspect
from pathlib import Path

import pytest

import predictor.errors
import serving
from predictor.errors import ArgumentError, BundleCorruptError, NotFittedError, PredictorError
from serving.problems import catalogue, domain_problem, status_problem


@pytest.mark.parametrize(
    ("error", "want_status", "want_code"),
    [
        (ArgumentError("x"), 422, "argument"),
        (BundleCorruptError("x"), 503, "bundle-corrupt"),
        (NotFittedError("x"), 503, "not-fitted"),
        (PredictorError("x"), 500, "predictor-error"),
    ],
)
def test_domain_errors_keep_their_code_and_get_a_status(
    error: PredictorError, want_status: int, want_code: str
) -> None:
    found = domain_problem(error)
    assert (found.status, found.code) == (want_status, want_code)


def test_every_class_of_the_domain_has_a_status() -> None:
    classes = [
        c for _, c in inspect.getmembers(predictor.errors, inspect.isclass) if issubclass(c, PredictorError)
    ]
    assert all(400 <= domain_problem(kind("x")).status < 600 for kind in classes)


def test_faults_of_a_domain_error_are_carried_over() -> None:
    found = domain_problem(ArgumentError("two faults", faults=["a", "b"]))
    assert [fault.detail for fault in found.faults] == ["a", "b"]


def test_a_status_without_catalogue_entry_is_still_a_problem() -> None:
    found = status_problem(418, "")
    assert (found.status, found.code, found.title) == (418, "http-418", "I'm a Teapot")


def test_every_code_used_in_the_service_is_in_the_catalogue() -> None:
    used = set()
    for path in Path(serving.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "problem":
                used |= {arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)}
    assert used
    assert used <= set(catalogue())
