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
MEMORY_JOB: JSON = {
    **JOB, "job_name": "tune-llama", "gpu_type": "a100", "memory_risk": 0.05, "precision": "bf16",
    "command": "torchrun --nproc_per_node 4 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B "
    "--per_device_train_batch_size 2 --max_seq_length 2048 --bf16 --lora_r 16 --gradient_checkpointing true",
}  # fmt: skip
PLACED_JOB: JSON = {
    **JOB, "model_family": "resnet50", "batch_size": 512, "image_size": 224,
    "candidates": [
        {"gpus_per_node": [4], "hosts": ["n1"]},
        {"gpus_per_node": [2, 2], "hosts": ["n1", "n2"], "gpu_indices": [[0, 1], [4, 5]]},
        {"gpu_type": "k80", "gpus_per_node": [4]},
    ],
}  # fmt: skip
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
BUNDLE: JSON = {"name": "vram", "version": "2026.11.03-1", "digest": "51ab" * 16, "feature_spec": "77d0c1aa"}
VRAM: JSON = {
    "p50_mib": 21980.0, "upper_mib": 27640.0, "risk": 0.05, "kind": "used", "regime": "full-spec",
    "support": 64, "few_groups": False, "floor_mib": 15316.0, "analytical_mib": 22450.0,
    "breakdown_mib": {"weights": 15316.0, "optimizer": 160.0, "activations": 2310.0, "logits": 2004.0,
                      "overhead": 1660.0},
    "fits_on": [
        {"gpu_class": "a100", "memory_mib": 40330.0, "oom_probability": 0.002, "fits": True},
        {"gpu_class": "t4", "memory_mib": 14910.0, "oom_probability": 0.998, "fits": False},
    ],
    "model": BUNDLE,
}  # fmt: skip
MEMORY_PREDICTION: JSON = {**PREDICTION, "vram": VRAM}
_QUANTILES: JSON = PREDICTION["quantiles_s"]
PLACED_PREDICTION: JSON = {
    **PREDICTION,
    "placements": [
        {
            "candidate": 0, "gpu_type": "a100", "gpus_per_node": [4], "hosts": ["n1"], "nodes_spanned": 1,
            "score": 1.0, "interval": [0.93, 1.0], "expected_slowdown": 1.02,
            "limiting_link": {"link": "NVSWITCH", "between": ["gpu0", "gpu1"], "step_comm_s": 0.0008},
            "evidence": "seen-job", "evidence_count": 18, "quantiles_s": _QUANTILES, "excluded": None,
            "reason": {"code": "measured-seen-job", "sentence": "4 GPUs on 1 node: as fast as the best; 18 "
                       "runs of this job on other shapes of this cluster"},
            "affinity": [{
                "host": "n1", "gpus": [0, 1, 2, 3], "cpu_bind": "0-63", "slurm_cpu_bind": "",
                "environment": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1,2,3"},
                "sentence": "GPUs 0, 1, 2, 3 of 8 free ones: its slowest link is NVSWITCH",
            }],
        },
        {
            "candidate": 2, "gpu_type": "k80", "gpus_per_node": [4], "hosts": [], "nodes_spanned": 1,
            "score": None, "interval": None, "expected_slowdown": None, "limiting_link": None,
            "evidence": None, "evidence_count": 0, "reason": None, "quantiles_s": None, "affinity": [],
            "excluded": {"code": "memory-does-not-fit",
                         "sentence": "the job may need 18,200 MiB per GPU, a k80 has 11,430 MiB"},
        },
    ],
    "topology": {
        "no_history": False, "model": {**BUNDLE, "name": "topology"},
        "level": {"level": "rack", "policy": "preferred", "loss": 0.03, "loss_beyond": 0.12,
                  "kueue": {"kueue.x-k8s.io/podset-preferred-topology": "rack"},
                  "slurm": ["--switches=1"]},
    },
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
    "memory": {"summary": "peak memory per GPU, from the command", "value": MEMORY_JOB},
    "placements": {"summary": "a ranking of placements", "value": PLACED_JOB},
    "batch": {
        "summary": "several jobs, one of them faulty",
        "value": {"jobs": [JOB, {"job_id": "481517", "user": "ada", "walltime_s": -5}]},
    },
}
PREDICTION_ANSWERS: JSON = {
    "job": {"value": PREDICTION},
    "running": {"value": RUNNING_PREDICTION},
    "memory": {"value": MEMORY_PREDICTION},
    "placements": {"value": PLACED_PREDICTION},
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
