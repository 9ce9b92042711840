"""This module holds the examples of the API's description; a test sends them to the real routes."""

from typing import Any

JSON = dict[str, Any]  # Any: JSON values

JOB: JSON = {
    "job_id": "481516", "cluster": "alpha", "user": "ada", "account": "vision", "queue": "gpu",
    "job_name": "train-resnet50", "gpu_type": "a100", "requested_gpus": 4, "requested_nodes": 1,
    "requested_cpus": 32, "requested_memory_mib": 262144, "walltime_s": 86400,
    "submitted_at": "2026-11-03T09:30:00Z",
}  # fmt: skip
RUNNING_JOB: JSON = {**JOB, "elapsed_s": 3600, "ages_s": [7200, 43200]}
MODEL: JSON = {
    "name": "duration", "version": "2026.11.03-1", "digest": "9f2c" * 16, "feature_spec": "a41b09e2",
    "calibration_id": "2026.11.03-1+118",
}  # fmt: skip
PREDICTION: JSON = {
    "status": 200, "job_id": "481516",
    "quantiles_s": {"q05": 310.0, "q10": 620.0, "q25": 2400.0, "q50": 7900.0, "q75": 15300.0, "q90": 31000.0,
                    "q95": 52000.0},
    "mean_s": 12800.0, "limit_s": 86400.0, "fallback": None,
    "support": {"level": "template", "count": 37}, "model": MODEL,
}  # fmt: skip
RUNNING_PREDICTION: JSON = {
    **PREDICTION,
    "remaining": {
        "elapsed_s": 3600,
        "quantiles_s": {"q05": 240.0, "q10": 700.0, "q25": 2300.0, "q50": 6800.0, "q75": 14900.0,
                        "q90": 33000.0, "q95": 54000.0},
    },
    "survival": [{"age_s": 7200, "probability": 0.53}, {"age_s": 43200, "probability": 0.07}],
}  # fmt: skip
FAULTS: list[JSON] = [
    {"pointer": "/requested_gpu", "code": "unknown-field",
     "detail": "'requested_gpu' is no field; did you mean 'requested_gpus'?"},
    {"pointer": "/walltime_s", "code": "out-of-range", "detail": "expected float >= 0.0, got -5"},
]  # fmt: skip
FAILED_ITEM: JSON = {
    "status": 422, "job_id": "481517",
    "problem": {
        "type": "/problems/invalid-request", "title": "The request has faults", "status": 422,
        "detail": "expected float >= 0.0, got -5", "code": "invalid-request",
        "errors": [{"pointer": "/jobs/1/walltime_s", "code": "out-of-range",
                    "detail": "expected float >= 0.0, got -5"}],
    },
}  # fmt: skip
PREDICTION_REQUESTS: JSON = {
    "job": {"summary": "a job that was just submitted", "value": JOB},
    "running": {"summary": "a running job: what remains, and survival", "value": RUNNING_JOB},
    "batch": {
        "summary": "several jobs, one of them faulty",
        "value": {"jobs": [JOB, {"job_id": "481517", "user": "ada", "walltime_s": -5}]},
    },
}
PREDICTION_ANSWERS: JSON = {
    "job": {"value": PREDICTION},
    "running": {"value": RUNNING_PREDICTION},
    "batch": {"value": {"predictions": [PREDICTION, FAILED_ITEM], "failed": 1}},
}
SUBMITTED: JSON = {"event": "submitted", **JOB}
STARTED: JSON = {
    "event": "started", "job_id": "481516", "cluster": "alpha", "started_at": "2026-11-03T09:41:12Z",
}  # fmt: skip
FINISHED: JSON = {
    "event": "finished", "job_id": "481516", "cluster": "alpha", "state": "COMPLETED",
    "ended_at": "2026-11-03T12:07:55Z", "exit_code": 0, "peak_vram_mib": 61440,
}  # fmt: skip
UNANNOUNCED: JSON = {
    **JOB, "job_id": "481600", "state": "TIMEOUT", "started_at": "2026-11-03T09:41:12Z",
    "ended_at": "2026-11-04T09:41:12Z",
}  # fmt: skip
RECEIPT: JSON = {
    "status": 200, "result": "recorded", "event": "finished", "cluster": "alpha", "job_id": "481516",
    "attempt": 0,
}  # fmt: skip
OUTCOME_REQUESTS: JSON = {
    "submitted": {"summary": "a job entered the queue", "value": SUBMITTED},
    "started": {"summary": "it began to run", "value": STARTED},
    "finished": {"summary": "it ended", "value": FINISHED},
    "unannounced": {"summary": "the end of a job that was never announced", "value": UNANNOUNCED},
    "batch": {
        "summary": "several events in their order",
        "value": {"outcomes": [SUBMITTED, STARTED, FINISHED]},
    },
}
OUTCOME_ANSWERS: JSON = {
    "one": {"value": RECEIPT},
    "batch": {"value": {"outcomes": [RECEIPT, FAILED_ITEM], "failed": 1}},
}
