"""This module is the command ``predictor models``: look at published models and choose which one serves."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pipelines.fallback import make_fallback
from pipelines.given_options import refuse
from pipelines.output_paths import folder_faults
from pipelines.settings import PipelineSettings, load_settings
from pipelines.targets import store_of
from pipelines.tracking_access import open_tracker
from predictor.errors import ArgumentError, BundleError, PredictorError
from predictor.forecasting.store import CHAMPION, FileModelStore, ModelRef

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="List, show, promote, roll back and verify published models.",
)

_Config = Annotated[Path | None, typer.Option(help="TOML file with settings.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Target = Annotated[str, typer.Option(help="What the model forecasts: duration, vram or topology.")]
_Version = Annotated[str, typer.Argument(help="A version, or an alias: champion, challenger, previous.")]


@app.command("list", epilog="Example:  predictor models list --target vram --json")
def list_models(*, config: _Config = None, target: _Target = "duration", as_json: _Json = False) -> None:
    """List the published versions, the newest first, with their aliases."""
    store = store_of(load_settings(config), target)
    aliases = _by_version(store)
    rows = [{"version": name, "aliases": aliases.get(name, [])} for name in reversed(store.versions())]
    if as_json:
        typer.echo(json.dumps({"root": str(store.root), "models": rows}, indent=2))
        return
    if not rows:
        typer.echo(f"no model is published in '{store.root}'; train one with 'predictor retrain'")
        return
    table = Table(title=f"models in {store.root}")
    table.add_column("version")
    table.add_column("aliases")
    for row in rows:
        table.add_row(str(row["version"]), ", ".join(row["aliases"]))
    Console().print(table)


@app.command(epilog="Example:  predictor models show champion")
def show(
    version: _Version, *, config: _Config = None, target: _Target = "duration", as_json: _Json = False
) -> None:
    """Show the card of a version, or with --json its manifest."""
    store = store_of(load_settings(config), target)
    ref = _find(store, version)
    manifest = _manifest(ref.directory)
    if as_json:
        document = {
            "version": ref.version, "aliases": _by_version(store).get(ref.version, []),
            "digest": ref.digest, "directory": str(ref.directory), "manifest": manifest,
        }  # fmt: skip
        typer.echo(json.dumps(document, indent=2))
        return
    for name in ("card.md", "model_card.md", "README.md"):
        if (ref.directory / name).is_file():
            typer.echo((ref.directory / name).read_text(encoding="utf-8"))
            return
    typer.echo(json.dumps(manifest, indent=2))


@app.command(epilog="Example:  predictor models promote 20260301T120000Z-0123abcd")
def promote(
    version: _Version, *, config: _Config = None, target: _Target = "duration", as_json: _Json = False
) -> None:
    """Make a version champion; the champion becomes previous. The service swaps to it by itself."""
    settings = load_settings(config)
    store = store_of(settings, target)
    _report(settings, target, store.promote(_find(store, version).version), as_json=as_json)


@app.command(epilog="Example:  predictor models rollback")
def rollback(*, config: _Config = None, target: _Target = "duration", as_json: _Json = False) -> None:
    """Swap champion and previous."""
    settings = load_settings(config)
    _report(settings, target, store_of(settings, target).rollback(), as_json=as_json)


@app.command(epilog="Example:  predictor models verify            (all versions)")
def verify(
    version: Annotated[str | None, typer.Argument(help="A version or an alias; without it all.")] = None,
    *,
    config: _Config = None,
    target: _Target = "duration",
    as_json: _Json = False,
) -> None:
    """Read bundles and check every digest; the exit code is 1 where one is damaged."""
    store = store_of(load_settings(config), target)
    names = store.versions() if version is None else (_find(store, version).version,)
    faults: dict[str, str | None] = {}
    for name in names:
        try:
            store.verify(name)
            faults[name] = None
        except BundleError as error:
            faults[name] = f"[{error.code}] {error}"
    if as_json:
        rows = [{"version": name, "valid": fault is None, "fault": fault} for name, fault in faults.items()]
        typer.echo(json.dumps({"models": rows}, indent=2))
    else:
        for name, fault in faults.items():
            typer.echo(f"{name}: {fault or 'valid'}")
    if any(faults.values()):
        raise typer.Exit(1)


def _find(store: FileModelStore, name: str) -> ModelRef:
    aliases = store.aliases()
    if name in aliases:
        return store.resolve(name)
    digest = next((ref.digest for ref in aliases.values() if ref.version == name), "")
    return ModelRef(version=name, digest=digest, directory=store.directory(name))


def _by_version(store: FileModelStore) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for alias, ref in store.aliases().items():
        named.setdefault(ref.version, []).append(alias)
    return named


def _manifest(directory: Path) -> object:
    try:
        return json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _report(settings: PipelineSettings, target: str, aliases: dict[str, ModelRef], *, as_json: bool) -> None:
    """Let the registry follow, and tell what serves now; the store has changed whatever MLflow says."""
    warning = ""
    try:
        open_tracker(settings).follow(target, aliases)
    except PredictorError as error:
        warning = str(error)
    named = {alias: ref.version for alias, ref in aliases.items()}
    if as_json:
        typer.echo(json.dumps({"aliases": named, "warning": warning or None}, indent=2))
        return
    typer.echo(f"champion is {named[CHAMPION]}")
    for alias, version in named.items():
        if alias != CHAMPION:
            typer.echo(f"{alias} is {version}")
    if warning:
        typer.echo(f"warning: {warning}", err=True)


@app.command("make-fallback", epilog="Example:  predictor models make-fallback --out models/fallback")
def make_fallback_bundle(*, out: Annotated[Path, typer.Option(help="New or empty directory.")]) -> None:
    """Train the tiny bundle that the service answers with while nothing else can be loaded."""
    refuse(folder_faults("--out", out))
    if out.exists() and any(out.iterdir()):
        raise ArgumentError(f"'{out}' is not empty; remove it, or name another directory")
    info = make_fallback(out)
    typer.echo(f"wrote {out} (digest {info.digest[:12]})")
