"""This module checks what is deployed: units, manifests, alert rules and the dashboard."""

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from pipelines.settings import load_settings
from predictor.cli import find_commands
from predictor.data.clusters.example_files import load_cluster
from predictor.scheduling.cluster_pools import cluster_pools
from serving.settings import PREFIX, Settings
from serving.telemetry import Telemetry

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted(
    path for path in (DEPLOY / "kustomize").glob("*.yaml") if path.name != "kustomization.yaml"
)
UNITS = sorted((DEPLOY / "systemd").iterdir())
RULES = DEPLOY / "prometheus" / "rules.yaml"
_METRIC = re.compile(r"\b(predictor_[a-z0-9_]+)")


def documents() -> list[dict[str, Any]]:
    return [document for path in MANIFESTS for document in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str) -> dict[str, Any]:
    return next(document for document in documents() if document["kind"] == kind)


def cron_jobs() -> list[dict[str, Any]]:
    return [document["spec"] for document in documents() if document["kind"] == "CronJob"]


def pods() -> list[dict[str, Any]]:
    jobs = [spec["jobTemplate"]["spec"]["template"]["spec"] for spec in cron_jobs()]
    return [of_kind("StatefulSet")["spec"]["template"]["spec"], *jobs]


def config(name: str) -> dict[str, str]:
    found = [one for one in documents() if one["kind"] == "ConfigMap" and one["metadata"]["name"] == name]
    data: dict[str, str] = found[0]["data"]
    return data


def parsed(arguments: list[str]) -> dict[str, Any]:
    """Return what a command of ours makes of its arguments, without running it."""
    name, *rest = arguments
    return typer.main.get_command(find_commands()[name].load()).make_context(name, rest).params


def test_containers_run_commands_of_ours() -> None:
    for pod in pods():
        (container,) = pod["containers"]
        assert parsed(container["args"])


def test_a_retraining_runs_alike_at_night_and_where_the_service_asks_for_it() -> None:
    nightly, requested = cron_jobs()
    assert (nightly["concurrencyPolicy"], requested["concurrencyPolicy"]) == ("Forbid", "Forbid")
    at_night, asked = (
        spec["jobTemplate"]["spec"]["template"]["spec"]["containers"][0] for spec in (nightly, requested)
    )
    usual, extra = at_night.pop("args"), asked.pop("args")
    assert nightly["jobTemplate"] == requested["jobTemplate"]  # all but the arguments
    assert extra[: len(usual)] == usual
    assert extra[len(usual) :] == ["--if-requested", config("predictor")["PREDICTOR_RETRAIN_REQUEST"]]


def test_files_in_config_maps_are_what_the_commands_read(tmp_path: Path) -> None:
    for name, text in {**config("predictor-cluster"), **config("predictor-retrain")}.items():
        (tmp_path / name).write_text(text)
    cluster = load_cluster(str(tmp_path / Path(config("predictor")["PREDICTOR_CLUSTER"]).name))
    assert cluster_pools(cluster)
    (outcomes,) = load_settings(tmp_path / "retrain.toml").data.outcomes
    assert Path(outcomes).is_relative_to("/var/lib/predictor/outcomes")


def exported_metrics() -> set[str]:
    telemetry = Telemetry()
    names = set()
    for family in telemetry.registry.collect():
        names |= {family.name, *(f"{family.name}_{end}" for end in ("total", "bucket", "count", "sum"))}
    return names


def test_kustomize_lists_every_manifest_and_no_other() -> None:
    base = yaml.safe_load((DEPLOY / "kustomize" / "kustomization.yaml").read_text())
    assert sorted(base["resources"]) == [path.name for path in MANIFESTS]


@pytest.mark.parametrize("document", documents(), ids=lambda found: str(found["kind"]))
def test_each_manifest_meets_the_schema_of_kubernetes(document: dict[str, Any]) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="the package kubernetes-validate is absent")
    validator.validate(document, "1.34", strict=True)


def test_pods_run_without_rights_and_cannot_change_their_image() -> None:
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]


def test_selectors_match_the_pods_they_are_meant_for() -> None:
    labels = of_kind("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for wanted in (
        of_kind("StatefulSet")["spec"]["selector"]["matchLabels"],
        of_kind("Service")["spec"]["selector"],
        of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ):
        assert wanted.items() <= labels.items()
    assert of_kind("StatefulSet")["spec"]["replicas"] > of_kind("PodDisruptionBudget")["spec"]["minAvailable"]


def test_volumes_and_names_that_pods_refer_to_exist() -> None:
    names = {(document["kind"], document["metadata"]["name"]) for document in documents()}
    for pod in pods():
        declared = {volume["name"] for volume in pod["volumes"]}
        for volume in pod["volumes"]:
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in names
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= declared


def test_every_variable_that_is_set_is_a_setting() -> None:
    (container,) = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
    given = {variable["name"] for variable in container["env"]} | set(of_kind("ConfigMap")["data"])
    given |= set(re.findall(r"(PREDICTOR_[A-Z_]+)=", (DEPLOY / "Dockerfile").read_text()))
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    assert {name for name in given if name.startswith(PREFIX)} <= known


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: str(path.name))
def test_units_are_hardened_and_complete(unit: Path) -> None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys of units have capitals
    parser.read(unit)
    if unit.suffix == ".timer":
        assert (DEPLOY / "systemd" / f"{unit.stem}.service").exists()
        assert parser["Timer"]["Persistent"] == "true"
        return
    if unit.suffix == ".path":  # what it waits for is what its service takes away
        wanted = configparser.RawConfigParser(strict=False, allow_no_value=True)
        wanted.optionxform = str  # type: ignore[assignment,method-assign]  # as above
        wanted.read(DEPLOY / "systemd" / f"{unit.stem}.service")
        taken = wanted["Service"]["ExecStart"].partition("--if-requested ")[2]
        assert parser["Path"]["PathExists"] == taken
        return
    service = parser["Service"]
    assert service["User"] == "predictor"
    assert (service["ProtectSystem"], service["NoNewPrivileges"]) == ("strict", "yes")
    assert service["ExecStart"].split()[1] in ("serve", "retrain")


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Its checker wants programs that exist: copies name one that does."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for unit in UNITS:
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / unit.name) for unit in UNITS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "predictor" in line]
    assert ours == []


def test_prometheus_accepts_the_rules_and_they_fire_as_meant() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed; as root, tests/services/install.sh installs it")
    for command in (["check", "rules", RULES.name], ["test", "rules", "rules_test.yaml"]):
        done = subprocess.run(
            ["promtool", *command], capture_output=True, text=True, check=False, cwd=RULES.parent
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_say_what_to_do_and_ask_only_for_metrics_that_exist() -> None:
    metrics = exported_metrics()
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert {"summary", "action"} <= set(rule["annotations"])
        assert set(_METRIC.findall(rule["expr"])) <= metrics, rule["alert"]


def test_the_dashboard_asks_only_for_metrics_that_exist() -> None:
    board = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    metrics = exported_metrics()
    identities = [panel["id"] for panel in board["panels"]]
    assert len(set(identities)) == len(identities)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    for panel in board["panels"]:
        for target in panel["targets"]:
            found = set(_METRIC.findall(target["expr"]))
            assert found, target["expr"]
            assert found <= metrics, panel["title"]
