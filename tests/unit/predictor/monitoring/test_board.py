"""An alert is told once when it comes, keeps its beginning, and goes only when it stays away."""

from dataclasses import replace

from predictor.monitoring.alert import Alert, AlertCode, Severity
from predictor.monitoring.board import AlertBoard

DRIFT = Alert(code=AlertCode.FEATURE_DRIFT, severity=Severity.WARNING, subject="x", sentence="s", fix="f")
LOOP = replace(DRIFT, code=AlertCode.REQUEUE_LOOP, severity=Severity.CRITICAL, subject="7")


def test_an_alert_is_raised_once_and_keeps_its_beginning() -> None:
    board = AlertBoard()
    assert [one.alert for one in board.update([DRIFT], 10.0).raised] == [DRIFT]
    assert board.update([replace(DRIFT, sentence="other numbers")], 20.0).is_empty
    (standing,) = board.standing()
    assert (standing.since_s, standing.alert.sentence) == (10.0, "other numbers")


def test_an_alert_goes_after_it_stayed_away_for_two_looks() -> None:
    board = AlertBoard(calm_looks=2)
    board.update([DRIFT], 0.0)
    assert board.update([], 1.0).is_empty
    assert [one.alert for one in board.update([], 2.0).cleared] == [DRIFT]
    assert board.standing() == []


def test_one_that_flickers_is_not_told_again() -> None:
    board = AlertBoard(calm_looks=2)
    board.update([DRIFT], 0.0)
    board.update([], 1.0)
    assert board.update([DRIFT], 2.0).is_empty


def test_growing_severity_is_told_and_critical_ones_come_first() -> None:
    board = AlertBoard()
    board.update([DRIFT], 0.0)
    worse = replace(DRIFT, severity=Severity.CRITICAL)
    assert [one.alert for one in board.update([worse, LOOP], 5.0).raised] == [worse, LOOP]
    assert [one.alert.key for one in board.standing()] == ["FEATURE_DRIFT:x", "REQUEUE_LOOP:7"]
