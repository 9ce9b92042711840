"""This module is the command ``predictor cluster``: show, import and measure cluster profiles."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pipelines.cluster_picture import (
    cluster_figure,
    cost_table,
    has_link_table,
    level_tree,
    link_table,
    parts_of,
)
from predictor.contracts.cluster import ClusterProfile, LinkClass, LinkCost, NodeType
from predictor.data.clusters.assemble import profile_of_kubernetes, profile_of_slurm
from predictor.data.clusters.collective_logs import read_collectives
from predictor.data.clusters.cores import read_cores
from predictor.data.clusters.example_files import example_names, load_cluster
from predictor.data.clusters.kubernetes_nodes import read_kubernetes_nodes, read_topology_levels
from predictor.data.clusters.nvidia_topology import parse_nvidia_topology
from predictor.data.clusters.slurm_nodes import read_slurm_nodes
from predictor.data.clusters.slurm_topology import read_slurm_topology
from predictor.data.clusters.toml_file import cost_tables, write_cluster
from predictor.errors import ArgumentError
from predictor.forecasting.topology.affinity import choose_gpus
from predictor.forecasting.topology.alpha_beta import FittedLink, fit_links
from predictor.forecasting.topology.collectives import Collective

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True,
    help="Show, import and measure cluster profiles.",
)  # fmt: skip

EXAMPLES = """
Examples:

  predictor cluster examples

  predictor cluster show hgx-h100-8nic

  predictor cluster show mycluster.toml --plot mycluster.png

  predictor cluster import --slurm-nodes nodes.txt --slurm-topology topology.conf --out my.toml

  predictor cluster import --kubernetes-nodes nodes.json --nvidia a100=topo.txt --out my.toml

  predictor cluster fit-links all_reduce_perf.txt --toml >> my.toml

  predictor cluster affinity dgx-a100 --free 0,1,4,5 --gpus 2
"""


@app.command("show", epilog=EXAMPLES)
def show(
    cluster: Annotated[str, typer.Argument(help="TOML file, or the name of an example.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a drawing.")] = False,
    plot: Annotated[Path | None, typer.Option(help="File for a picture (png, svg, pdf).")] = None,
) -> None:
    """Draw a cluster: levels, nodes, links, NUMA nodes, cards, costs."""
    profile = load_cluster(cluster)
    if as_json:
        typer.echo(json.dumps(document(profile), indent=2))
    else:
        console = Console()
        console.print(level_tree(profile))
        for kind in profile.node_types:
            console.print()
            for line in parts_of(kind):
                console.print(line, highlight=False)
            if has_link_table(kind):
                console.print(link_table(kind))
        if profile.link_costs or profile.network_costs:
            console.print()
            console.print(cost_table(profile))
    if plot is not None:
        try:
            cluster_figure(profile).savefig(plot)
        except (OSError, ValueError) as error:  # no such folder, or no such format
            raise ArgumentError(f"the picture cannot be written: {error}") from error
        typer.echo(f"wrote {plot}", err=True)


@app.command("examples", epilog=EXAMPLES)
def examples(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False
) -> None:
    """List the clusters that come with the package."""
    profiles = [load_cluster(name) for name in example_names()]
    if as_json:
        rows = [{"name": one.name, "nodes": one.node_count, "gpus": one.gpu_count} for one in profiles]
        typer.echo(json.dumps(rows, indent=2))
        return
    for one in profiles:
        typer.echo(f"{one.name:<22} {one.node_count:>5} nodes  {one.gpu_count:>6} GPUs")


@app.command("affinity", epilog=EXAMPLES)
def affinity(
    cluster: Annotated[str, typer.Argument(help="TOML file, or the name of an example.")],
    *,
    gpus: Annotated[int, typer.Option(help="How many GPUs the job gets on the node.")],
    free: Annotated[str, typer.Option(help="Free GPUs, such as 0-3,6; by default all.")] = "",
    node_type: Annotated[str, typer.Option(help="Node type, where the cluster has several.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Say which GPUs, cores and cards of a node a job should use."""
    kind = _node_type(load_cluster(cluster), node_type)
    hint = choose_gpus(kind, read_cores(free, "--free") if free else tuple(range(kind.gpu_count)), gpus)
    found = {
        "gpus": list(hint.gpus), "slowest_link": hint.slowest.name, "numa": list(hint.numa),
        "nics": list(hint.nics), "environment": hint.environment, "cpu_bind": hint.cpu_bind,
        "slurm_cpu_bind": hint.slurm_cpu_bind, "reason": hint.sentence,
    }  # fmt: skip
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"# {hint.sentence}")
    for name, value in hint.environment.items():
        typer.echo(f"export {name}={value}")
    if hint.cpu_bind:
        typer.echo(f"# taskset -c {hint.cpu_bind}, or srun --cpu-bind={hint.slurm_cpu_bind}")


def _node_type(profile: ClusterProfile, name: str) -> NodeType:
    kinds = {kind.name: kind for kind in profile.node_types if kind.gpu_count}
    if name in kinds:
        return kinds[name]
    if name or len(kinds) != 1:
        raise ArgumentError(
            f"'{profile.name}' has no one node type with GPUs '{name}'; pass --node-type with one of: "
            f"{', '.join(kinds) or 'none, it has no GPUs'}"
        )
    return next(iter(kinds.values()))


@app.command("import", epilog=EXAMPLES)
def import_profile(
    *,
    out: Annotated[Path, typer.Option(help="TOML file to write.")],
    name: Annotated[str, typer.Option(help="Name of the cluster.")] = "cluster",
    slurm_nodes: Annotated[
        Path | None, typer.Option(help="Output of 'scontrol show node' (text or --json).")
    ] = None,
    slurm_topology: Annotated[
        Path | None, typer.Option(help="topology.conf, or output of 'scontrol show topology'.")
    ] = None,
    kubernetes_nodes: Annotated[
        Path | None, typer.Option(help="Output of 'kubectl get nodes -o json'.")
    ] = None,
    kueue_topology: Annotated[
        Path | None, typer.Option(help="A Kueue Topology as JSON: which labels are levels.")
    ] = None,
    nvidia: Annotated[
        list[str] | None,
        typer.Option(help="GPUTYPE=FILE with the output of 'nvidia-smi topo -m' on such a node."),
    ] = None,
) -> None:
    """Make a cluster profile of what Slurm, Kubernetes and nvidia-smi tell."""
    if (slurm_nodes is None) == (kubernetes_nodes is None):
        raise ArgumentError("give either --slurm-nodes or --kubernetes-nodes")
    boxes = _boxes(nvidia or [])
    if slurm_nodes is not None:
        tree = None if slurm_topology is None else read_slurm_topology(_text(slurm_topology))
        profile = profile_of_slurm(read_slurm_nodes(_text(slurm_nodes)), tree, name=name, boxes=boxes)
    else:
        assert kubernetes_nodes is not None  # noqa: S101  (one of the two is given; for the type checker)
        labels = None if kueue_topology is None else read_topology_levels(_text(kueue_topology))
        levels, nodes = read_kubernetes_nodes(_text(kubernetes_nodes), labels)
        profile = profile_of_kubernetes(levels, nodes, name=name, boxes=boxes)
    try:
        out.write_text(write_cluster(profile), encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"'{out}' cannot be written: {error}") from error
    typer.echo(
        f"wrote {out}: {profile.node_count} nodes, {profile.gpu_count} GPUs in {len(profile.groups)} groups",
        err=True,
    )


@app.command("fit-links", epilog=EXAMPLES)
def fit(
    files: Annotated[
        list[Path], typer.Argument(help="Outputs of nccl-tests (text) or of a collective profiler (CSV).")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    as_toml: Annotated[
        bool, typer.Option("--toml", help="Print the costs as a cluster file states them.")
    ] = False,
    link: Annotated[
        str, typer.Option(help="With --toml, the class of the slowest link among the GPUs of one node.")
    ] = LinkClass.NVSWITCH.name,
) -> None:
    """Fit latency and bandwidth of links to measured times of collectives."""
    if link not in LinkClass.__members__:
        raise ArgumentError(f"link '{link}' is no class; known are {', '.join(LinkClass.__members__)}")
    fitted = [(path.name, one) for path in files for one in fit_links(read_collectives(path))]
    if as_toml:
        typer.echo(_toml_of([one for _, one in fitted], LinkClass[link]))
        return
    rows = [_row(name, one) for name, one in fitted]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    typer.echo(
        f"{'operation':<12} {'workers':>7} {'per node':>8} {'latency us':>10} {'GB/s':>7} {'error':>6}  file"
    )
    for row in rows:
        typer.echo(
            f"{row['operation']:<12} {row['workers']:>7} {row['per_node']:>8} {row['alpha_us']:>10.0f} "
            f"{row['bandwidth_gb_per_s']:>7.1f} {row['error_ratio']:>6.0%}  {row['file']}"
        )


def _row(file: str, link: FittedLink) -> dict[str, Any]:  # Any: texts and numbers
    return {
        "file": file, "operation": link.operation.value, "workers": link.workers,
        "per_node": link.per_node, "points": link.points, **cost_document(link.cost),
    }  # fmt: skip


def _toml_of(fitted: list[FittedLink], link: LinkClass) -> str:
    """Return the costs of the largest all-reduce inside a node and of the largest between nodes."""
    rings = [one for one in fitted if one.operation is Collective.ALL_REDUCE]
    inside = max((one for one in rings if one.is_inside_node), key=lambda one: one.workers, default=None)
    between = max(
        (one for one in rings if not one.is_inside_node), key=lambda one: one.per_node, default=None
    )
    if inside is None and between is None:
        raise ArgumentError("no all-reduce was fitted; costs of a cluster file are those of all-reduces")
    return cost_tables(
        {} if inside is None else {link: inside.cost}, () if between is None else (between.cost,)
    )


def document(profile: ClusterProfile) -> dict[str, object]:
    """Return a profile as JSON-able values."""
    return {
        "name": profile.name, "levels": list(profile.levels), "nodes": profile.node_count,
        "gpus": profile.gpu_count,
        "node_types": [
            {
                "name": kind.name, "gpu_type": kind.gpu_type, "gpu_count": kind.gpu_count,
                "gpu_memory_mib": kind.gpu_memory_mib, "cpus": kind.cpus, "memory_mib": kind.memory_mib,
                "islands": [list(island) for island in kind.islands],
                "links": [[link.name for link in row] for row in kind.links],
                "numa": [{"cores": list(domain.cores), "gpus": list(domain.gpus)} for domain in kind.numa],
                "nics": [
                    {"name": nic.name, "gbit_per_s": nic.gbit_per_s, "gpus": list(nic.gpus)}
                    for nic in kind.nics
                ],
            }
            for kind in profile.node_types
        ],
        "groups": [
            {"hosts": group.hosts, "count": len(group.names), "node_type": group.node_type,
             "domains": list(group.domains), "pool": group.pool, "region": group.region}
            for group in profile.groups
        ],
        "links": {link.name: cost_document(cost) for link, cost in profile.link_costs.items()},
        "network": [cost_document(cost) for cost in profile.network_costs],
    }  # fmt: skip


def cost_document(cost: LinkCost) -> dict[str, float | str | None]:
    """Return a cost as JSON-able values."""
    return {
        "alpha_us": cost.alpha_s * 1e6, "bandwidth_gb_per_s": cost.bandwidth_bytes_per_s / 1e9,
        "source": cost.source, "error_ratio": cost.error_ratio,
    }  # fmt: skip


def _boxes(given: list[str]) -> dict[str, NodeType]:
    boxes = {}
    for text in given:
        gpu_type, separator, path = text.partition("=")
        if not separator or not gpu_type:
            raise ArgumentError(f"--nvidia {text}: write it as GPUTYPE=FILE, such as a100=topo.txt")
        boxes[gpu_type.lower()] = parse_nvidia_topology(_text(Path(path)), gpu_type=gpu_type)
    return boxes


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"'{path}' cannot be read: {error}") from error
