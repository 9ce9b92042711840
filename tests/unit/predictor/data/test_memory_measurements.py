"""This module checks readers of memory measurements: on rows made here, and on shared files at hand."""

import os
from pathlib import Path

import pandas as pd
import pytest

from predictor.contracts.memory import PeakKind
from predictor.contracts.workload import Method, TrainingSpec, VisionSpec
from predictor.data.measurements import read_measurements
from predictor.data.measurements.llm_tuning import longest, read_llm_tuning
from predictor.errors import FormatError
from predictor.forecasting.memory.analytical import estimate

SHARED = Path(os.environ.get("PREDICTOR_SHARED_DATA", Path(__file__).parents[4].parent / "shared" / "data"))
FOLDER = SHARED / "vram"
WANT = {  # set: rows kept, of them out of memory
    "timm_a100": [(4500, 678)],
    "synthetic_cnn": [(1620, 306)],
    "synthetic_mlp1": [(2367, 0)],
    "synthetic_mlp2": [(2377, 0)],
    "llm_finetune_a100_80gb": [(250, 77), (252, 77)],
    "peft_methods": [(63, 0)],
    "openmmlab_train_memory": [(808, 0)],
}


@pytest.mark.shared_data
@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no measurements in {FOLDER}; set PREDICTOR_SHARED_DATA")
def test_resident_memory_on_one_gpu_is_within_0_81_per_cent_of_the_formula() -> None:
    frame = pd.read_csv(FOLDER / "llm_finetune_a100_80gb.csv.gz")
    resident = frame["mem_torch_mem_alloc_in_bytes"]
    frame = frame[(frame["num_gpus"] == 1) & frame["train_runtime"].notna() & resident.notna()]
    _, torch = read_llm_tuning(frame)
    off = {Method.FULL: list[float](), Method.LORA: list[float](), Method.QLORA_NF4_DOUBLE: list[float]()}
    for request, measured in zip(torch.requests, resident[frame.index], strict=True):
        assert request.model is not None
        assert isinstance(request.run, TrainingSpec)
        off[request.run.method].append(
            abs(estimate(request.model, request.run).resident_bytes / measured - 1.0)
        )
    assert [len(each) for each in off.values()] == [11, 9, 54]
    assert sum(map(sum, off.values())) / 74 < 0.0081
    assert max(off[Method.FULL] + off[Method.LORA]) < 0.004


@pytest.mark.shared_data
@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no measurements in {FOLDER}; set PREDICTOR_SHARED_DATA")
@pytest.mark.parametrize("name", sorted(WANT))
def test_every_row_of_a_shared_set_is_kept_or_quarantined_with_a_reason(name: str) -> None:
    path = FOLDER / f"{name}.csv.gz"
    total = len(pd.read_csv(path, low_memory=False))
    sets = read_measurements(path)
    assert [(len(runs), int(runs.is_oom.sum())) for runs in sets] == WANT[name]
    for runs in sets:
        assert len(runs) + sum(runs.quarantined.values()) == total
        request = runs.requests[0]
        assert request.model is not None
        assert request.run is not None
        assert estimate(request.model, request.run).peak_bytes > 0


@pytest.mark.shared_data
@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no measurements in {FOLDER}; set PREDICTOR_SHARED_DATA")
def test_peaks_of_full_fine_tunes_on_one_gpu_are_within_2_per_cent_of_the_formula() -> None:
    _, torch = read_measurements(FOLDER / "llm_finetune_a100_80gb.csv.gz")
    off = [
        abs(estimate(request.model, run).tensor_peak_bytes / 2.0**20 / peak - 1.0)
        for request, peak, is_oom in zip(torch.requests, torch.peak_mib, torch.is_oom, strict=True)
        if request.model is not None and isinstance(run := request.run, TrainingSpec)
        and run.method is Method.FULL and run.gpu_count == 1 and not is_oom
    ]  # fmt: skip
    assert len(off) == 11
    assert sum(off) / len(off) < 0.02
    assert max(off) < 0.07


def test_a_file_of_unknown_columns_is_refused_with_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="no known measurements"):
        read_measurements(path)


def test_suspect_rows_are_out_of_memory_labels_and_rows_without_counts_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "timm.csv"
    path.write_text(
        "model,family,gpu_type,batch_size,image_size,parameters_m,gmacs,activations_m,faketensor_mib,"
        "peak_vram_mib,suspect\n"
        "vit_tiny,vit,A100-40GB,8,224,5.7,1.1,4.1,300,2100,0\n"
        "vit_tiny,vit,A100-40GB,999,224,5.7,1.1,4.1,300,900,1\n"
        "vit_odd,vit,A100-40GB,8,,,,,300,2100,0\n"
    )
    (runs,) = read_measurements(path)
    assert runs.kind is PeakKind.USED
    assert runs.is_oom.tolist() == [False, True]
    assert dict(runs.quarantined) == {"counts or peak missing": 1}
    model = runs.requests[0].model
    assert isinstance(model, VisionSpec)
    assert model.parameter_count == pytest.approx(5.7e6)


def test_layers_of_generated_networks_are_replayed_and_counted_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "mlp.csv"
    path.write_text(
        "Filename,Activations-Params,Total Activations,Total Parameters,Batch Size,Max GPU Memory (MiB)\n"
        '"input:61_output:12_depth:5_arch:pyramid_batch:777.out",'
        "\"[('linear', 262144, 1860), ('ReLU', 262144, 0), ('linear', 12, 156)]\",524300,2016,777,1451\n"
        "broken,nonsense,0,0,1,1451\n"
    )
    (runs,) = read_measurements(path)
    (request,) = runs.requests
    # a sample of 2^18 elements: what the function keeps, and the gradients of what it gave and read
    assert request.stored_mib["replayed"] == pytest.approx(3.0, abs=0.01)
    assert 0.0 < request.held_mib["replayed"] < 30.0
    assert request.numbers["share_linear"] == pytest.approx(0.5, abs=1e-3)
    assert request.numbers["given_input"] == 61.0
    assert "arch-pyramid" in request.words["shape"]
    assert runs.quarantined["no layers listed"] == 1


def test_packed_sequences_are_as_long_as_stated_and_others_as_their_largest_batch() -> None:
    assert longest(4096.0, 4, padded=True) == 4096
    assert longest(2048.0, 4, padded=True) == 2048
    # exponential lengths of mean 290: the longest of 4,000 is 290 (ln 4000 + 0.577), about 2,570
    assert longest(446.24, 4, padded=True) == pytest.approx(1900, rel=0.05)
    assert 290.29 < longest(290.29, 8, padded=False) < longest(290.29, 4, padded=False)
