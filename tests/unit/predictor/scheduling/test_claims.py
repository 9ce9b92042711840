"""This module tests for which waiting jobs victims are looked for, and in which order."""

from dataclasses import replace

from predictor.contracts.decisions import Decision
from predictor.contracts.events import Tick
from predictor.scheduling.capacity import Pool
from predictor.scheduling.policy import Policy
from predictor.scheduling.quota import Quota
from predictor.scheduling.reservation import Reserve
from tests.unit.predictor.scheduling.builders import (
    NOW,
    a_cluster,
    a_job,
    ended,
    preempted,
    started,
)

_EIGHT = Pool(name="gpu", total=8)


def test_jobs_beyond_their_quota_use_up_nothing_of_what_a_pass_looks_at() -> None:
    policy = Policy(quotas=(Quota(team="a", units=2),), reserve=replace(Reserve(), depth=2))
    cluster = a_cluster(policy, _EIGHT)
    assert started(cluster.apply(a_job("first", width=2, team="a"))) == ["first"]
    for k in range(3):
        assert not started(cluster.apply(a_job(f"beyond-{k}", width=2, at_s=k, takes_s=60.0, team="a")))
    assert started(cluster.apply(a_job("other", width=4, at_s=5.0, team="b"))) == ["other"]


def test_jobs_that_cannot_be_resumed_do_not_evict_each_other_for_ever() -> None:
    cluster = a_cluster("las", _EIGHT)
    for name in "ab":
        cluster.apply(a_job(name, width=8, takes_s=40_000.0))
    took_s, left = dict.fromkeys("ab", 40_000.0), 2
    now_s, began_s = 0.0, {"a": 0.0}
    for _ in range(3000):
        now_s += 60.0
        for name in [each for each in began_s if now_s - began_s[each] >= took_s[each]]:
            del began_s[name]
            left -= 1
            _take_in(cluster.apply(ended(name, now_s)), began_s, now_s)
        _take_in(cluster.apply(Tick(now_s=NOW + now_s)), began_s, now_s)
    assert left == 0


def _take_in(decisions: tuple[Decision, ...], began_s: dict[str, float], now_s: float) -> None:
    for name in preempted(decisions):
        del began_s[name]
    began_s |= dict.fromkeys(started(decisions), now_s)
