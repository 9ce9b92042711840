"""What a table of jobs is known to hold, and until when."""

from pipelines.job_data import describe_data
from predictor.data.synthetic import WorkloadSpec, generate


def test_an_end_in_the_future_does_not_date_what_is_known() -> None:
    frame = generate(WorkloadSpec(jobs=50, days=2.0, users=3, random_state=1)).frame
    usual = describe_data(frame, now_s=4e9).known_until_s
    assert usual < 4e9
    assert describe_data(frame, now_s=usual - 3600.0).known_until_s == usual - 3600.0
