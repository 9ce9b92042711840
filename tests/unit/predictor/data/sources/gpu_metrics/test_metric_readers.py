"""This module holds the readers of GPU metrics to what monitors and programs really write."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from predictor.data.sources.gpu_metrics.oom_messages import find_out_of_memory
from predictor.data.sources.gpu_metrics.registry import metric_readers, read_metrics
from predictor.data.sources.gpu_metrics.samples import SAMPLE_COLUMNS, MetricOptions, MetricRead
from predictor.data.sources.logfile import LogFile
from predictor.errors import ArgumentError, FormatError

START = 1_767_225_600.0  # 2026-01-01T00:00:00Z
SMI = """timestamp, index, uuid, memory.used [MiB], mig.mode.current
2026/01/01 01:00:00.000, 0, GPU-a, 1024 MiB, Disabled
2026/01/01 01:00:10.000, 0, GPU-a, 2048 MiB, Disabled
2026/01/01 01:00:20.000, 0, GPU-a, [N/A], Disabled
timestamp, index, uuid, memory.used [MiB], mig.mode.current
2026/01/01 01:00:20.000, 1, GPU-b, 10 MiB, Enabled
"""
DCGM = """timestamp,Hostname,gpu,UUID,metric,value,GPU_I_ID
2026-01-01T00:00:00Z,n1.site:9400,0,GPU-a,DCGM_FI_DEV_FB_USED,1000,
2026-01-01T00:00:30Z,n1.site:9400,0,GPU-a,DCGM_FI_DEV_FB_USED,3000,
2026-01-01T00:00:30Z,n1.site:9400,0,GPU-a,DCGM_FI_DEV_GPU_UTIL,97,
2026-01-01T00:00:30Z,n1.site:9400,1,GPU-b,DCGM_FI_DEV_FB_USED,500,3
"""
PROMETHEUS = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [
    {"metric": {"__name__": "DCGM_FI_DEV_FB_USED", "Hostname": "n1", "gpu": "0", "UUID": "GPU-a"},
     "values": [[START, "1000"], [START + 30, "3000"]]},
    {"metric": {"__name__": "nvidia_smi_memory_used_bytes", "instance": "n2:9835", "gpu": "1"},
     "values": [[START, str(2**30)]]},
    {"metric": {"__name__": "node_load1", "instance": "n2:9100"},
     "values": [[START, "1"], [START + 30, "2"]]},
]}})  # fmt: skip
MLFLOW = "\n".join([
    "run_id,key,value,timestamp,step",
    f"r,system/gpu_0_memory_usage_megabytes,1048.576,{START * 1e3:.0f},0",
    f"r,system/gpu_0_memory_usage_megabytes,2097.152,{(START + 10) * 1e3:.0f},1",
    f"r,system/gpu_0_utilization_percentage,50,{START * 1e3:.0f},0",
])  # fmt: skip
WANDB = "\n".join(json.dumps(row) for row in [
    {"_timestamp": START, "system.gpu.0.memoryAllocatedBytes": 2**30, "system.gpu.0.memoryAllocated": 5.0,
     "system.gpu.process.0.memoryAllocatedBytes": 2**29},
    {"_timestamp": START + 15, "system.gpu.0.memoryAllocatedBytes": 2**31,
     "system.gpu.0.memoryAllocated": 9.0, "system.gpu.process.0.memoryAllocatedBytes": 2**29},
])  # fmt: skip
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of "
    "79.15 GiB of which 1.10 GiB is free. Including non-PyTorch memory, this process has 78.04 GiB memory in "
    "use. Of the allocated memory 76.00 GiB is allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but "
    "unallocated."
)
TORCH = f"""step 10 loss 2.1 max_memory_allocated: 1073741824
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 1                 |
| Allocated memory      |   1024 MiB |   4096 MiB |  10240 MiB |   9216 MiB |
| GPU reserved memory   |   4500 MiB |   5000 MiB |   5000 MiB |      0 B   |
{OOM}
"""


def read(text: str, name: str = "auto", *, file: str = "log.txt", **options: str) -> tuple[str, MetricRead]:
    return read_metrics(LogFile(name=file, data=text.encode()), name, MetricOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "want"),
    [(SMI, "nvidia-smi"), (DCGM, "dcgm"), (PROMETHEUS, "prometheus"), (MLFLOW, "mlflow"), (WANDB, "wandb"),
     (TORCH, "torch")],
    ids=["nvidia-smi", "dcgm", "prometheus", "mlflow", "wandb", "torch"],
)  # fmt: skip
def test_a_format_is_found_by_its_content_and_every_value_is_accounted_for(text: str, want: str) -> None:
    name, result = read(text)
    assert name == want
    assert result.read == len(result.samples) + sum(result.dropped.values())
    assert tuple(result.samples.columns) == SAMPLE_COLUMNS
    assert result.samples["used_mib"].between(0, 2**22).all()
    assert [reader for reader in metric_readers().values() if reader.name == want]


def test_nvidia_smi_times_are_local_and_unreadable_values_are_counted() -> None:
    _, result = read(SMI, tz := "nvidia-smi", host="n1", zone="Europe/Berlin")
    assert tz == "nvidia-smi"
    samples = result.samples
    assert samples["moment_s"].tolist() == [START, START + 10, START + 20]
    assert samples["used_mib"].tolist() == [1024, 2048, 10]
    assert samples["host"].unique().tolist() == ["n1"]
    assert samples["shared"].tolist() == [False, False, True]
    assert samples["interval_s"].tolist()[:2] == [10, 10]
    assert result.dropped == {"header-line": 1, "memory-unreadable": 1}


def test_dcgm_tables_count_mib_and_mark_slices() -> None:
    _, result = read(DCGM)
    assert result.samples["used_mib"].tolist() == [1000, 3000, 500]
    assert result.samples["host"].tolist() == ["n1.site"] * 3
    assert result.samples["shared"].tolist() == [False, False, True]
    assert result.dropped == {"other-metric": 1}


def test_lines_of_the_dcgm_exporter_are_read() -> None:
    line = f'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-a",Hostname="n1"}} 812 {START * 1e3:.0f}\n'
    name, result = read(line + line.replace(f" {START * 1e3:.0f}", ""))
    assert name == "dcgm"
    assert result.samples["used_mib"].tolist() == [812]
    assert result.dropped == {"time-unreadable": 1}


def test_prometheus_series_are_scaled_by_their_names_and_unknown_ones_counted() -> None:
    _, result = read(PROMETHEUS)
    assert result.samples["used_mib"].tolist() == [1000, 3000, 1024]
    assert result.samples["host"].tolist() == ["n1", "n1", "n2"]
    assert result.dropped == {"other-metric": 2}


def test_mlflow_megabytes_are_no_mebibytes_and_averages_are_noted() -> None:
    _, result = read(MLFLOW)
    assert result.samples["used_mib"].tolist() == pytest.approx([1000, 2000])
    assert result.notes == {"averaged-over-window": 2}
    history = [{"key": "system/gpu_1_memory_usage_megabytes", "value": 1.048576, "timestamp": START * 1e3}]
    _, again = read(json.dumps(history), host="n7")
    assert again.samples[["host", "gpu", "used_mib"]].to_numpy().tolist() == [["n7", "1", pytest.approx(1.0)]]


def test_wandb_takes_the_card_before_the_process_and_leaves_percentages() -> None:
    _, result = read(WANDB)
    assert result.samples["used_mib"].tolist() == [1024, 2048]
    assert result.dropped == {"process-of-known-card": 2, "percentage": 2}
    with pytest.raises(FormatError, match="percentages"):
        read('{"_timestamp": 1, "system.gpu.0.memoryAllocated": 5.0}', "wandb")


def test_torch_logs_give_peaks_by_kind_and_the_job_of_their_file() -> None:
    _, result = read(TORCH, file="slurm-4711.out")
    rows = result.samples[["job_id", "kind", "gpu", "used_mib"]].to_numpy().tolist()
    assert rows == [
        ["4711", "allocated", "", 1024], ["4711", "allocated", "1", 4096], ["4711", "reserved", "1", 5000]
    ]  # fmt: skip
    assert np.isnan(result.samples["moment_s"]).all()
    assert result.notes == {"out-of-memory": 1}
    assert result.lower_bounds.to_numpy().tolist() == [["4711", "", "1", 78 * 1024]]


@pytest.mark.parametrize(
    ("message", "want_gib"),
    [
        (OOM, 78.0),
        ("RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 15.78 GiB total capacity; "
         "14.00 GiB already allocated; 100.00 MiB free; 14.50 GiB reserved in total by PyTorch)", 14.5),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
         "17179869184 bytes.", 16.0),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity "
         "of 63.98 GiB of which 0 bytes is free. Of the allocated memory 60.00 GiB is allocated by "
         "PyTorch", 61.0),
    ],
    ids=["torch 2", "torch 1", "jax", "rocm"],
)  # fmt: skip
def test_an_out_of_memory_message_bounds_the_need_from_below(message: str, want_gib: float) -> None:
    (found,) = find_out_of_memory(f"step 1\n{message}\nTraceback")
    assert found.lower_bound_mib / 1024 == want_gib


def test_a_message_without_sizes_says_that_it_happened_and_no_more() -> None:
    (found,) = find_out_of_memory("RuntimeError: CUDA error: out of memory\n")
    assert np.isnan(found.lower_bound_mib)
    assert find_out_of_memory("NVRM: Xid 31, oom-killer killed process 7 (python)") == []


def test_two_messages_are_two_and_a_repeated_one_is_one() -> None:
    other = OOM.replace("2.00 GiB", "4.00 GiB")
    assert len(find_out_of_memory(f"{OOM}\n{other}\n")) == 2
    assert len(find_out_of_memory(f"{OOM}\n{OOM}\n")) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: read("a,b\n1,2\n"),
        lambda: read("a,b\n1,2\n", "nvidia-smi"),
        lambda: read('{"status": "success"}', "prometheus"),
        lambda: read('{"data": {"resultType": "vector", "result": []}}', "prometheus"),
        lambda: read("key,value\nx,1\n", "mlflow"),
        lambda: read("nothing here", "torch"),
    ],
)
def test_a_log_of_another_format_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(FormatError):
        call()


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match="prometheus"):
        read(SMI, "ganglia")
