"""Each trouble of a queue is told once, with the numbers behind it; a healthy queue is quiet."""

from dataclasses import replace

import pytest

from predictor.monitoring.alert import AlertCode
from predictor.monitoring.queue_health import (
    CapacityView,
    HealthSettings,
    QueueView,
    TeamView,
    WaitingView,
    health_alerts,
)

JOB = WaitingView(job_id="7", team="vision", workload_class="experiment", pool="a100", waited_s=60.0,
                  gpu_count=8)  # fmt: skip
CALM = QueueView(
    waiting=(JOB,), running_count=3,
    capacity=(CapacityView(pool="a100", gpu_type="a100", total=64, free=8, scarce=True, idle_s=10.0),),
    teams=(TeamView(team="vision", pool="a100", used=8, quota=32, waiting=8),),
)  # fmt: skip


def test_a_healthy_queue_is_quiet() -> None:
    assert health_alerts(CALM, HealthSettings()) == []


STORIES = {
    "a job waits longer than its bound": (
        replace(CALM, waiting=(replace(JOB, waited_s=7200.0, bound_s=3600.0),)),
        AlertCode.STARVATION, "a100", {"jobs": 1.0, "longest_wait_s": 7200.0, "bound_s": 3600.0},
    ),
    "a job goes back to the queue again and again": (
        replace(CALM, waiting=(replace(JOB, requeues=4),)),
        AlertCode.REQUEUE_LOOP, "7", {"requeues": 4.0, "limit": 3.0},
    ),
    "scarce devices stand idle while jobs wait": (
        replace(CALM, capacity=(replace(CALM.capacity[0], idle_s=3600.0),)),
        AlertCode.SCARCE_IDLE, "a100/a100", {"free": 8.0, "total": 64.0, "idle_s": 3600.0},
    ),
    "everything is urgent": (
        replace(CALM, waiting=tuple(replace(JOB, job_id=str(n), urgent=n < 8) for n in range(12))),
        AlertCode.ALL_URGENT, "queue", {"urgent": 8.0, "waiting": 12.0, "largest_team": 8.0},
    ),
    "one team has what another is entitled to": (
        replace(CALM, teams=(*CALM.teams, TeamView(team="nlp", pool="a100", used=48, quota=16, waiting=0))),
        AlertCode.QUOTA_IMBALANCE, "a100",
        {"used": 48.0, "quota": 16.0, "short_used": 8.0, "short_quota": 32.0},
    ),
    "a job can never run": (
        replace(CALM, waiting=(replace(JOB, fits=False, gpu_count=128),)),
        AlertCode.QUEUE_DEADLOCK, "oversized", {"jobs": 1.0, "gpus": 128.0},
    ),
    "nothing runs and nothing starts": (
        replace(CALM, running_count=0, since_start_s=600.0),
        AlertCode.QUEUE_DEADLOCK, "queue", {"waiting": 1.0, "since_start_s": 600.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_each_trouble_is_told_with_its_numbers(story: str) -> None:
    view, code, subject, numbers = STORIES[story]
    (alert,) = health_alerts(view, HealthSettings())
    assert (alert.code, alert.subject, dict(alert.numbers)) == (code, subject, numbers)
    assert alert.fix
    assert alert.key == f"{code.value}:{subject}"
    assert alert.to_json()["sentence"] == alert.sentence
