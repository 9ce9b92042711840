"""This module dispatches ``predictor COMMAND`` to the sub-command that an entry point names.

Only the chosen sub-command is imported, so ``predictor --help`` answers at once.

Exit codes: 0 done; 1 the command ran and refuses (a gate, a fault in the data); 2 the call was wrong;
3 another run holds the lock.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

from predictor import __version__
from predictor.errors import InputError, LockHeldError, PipelineError, PredictorError

SUMMARIES = {
    "demo": "the whole loop on the embedded sample, offline",
    "ingest": "read scheduler logs into the canonical job table",
    "ingest-metrics": "measured GPU memory from monitors onto the job table",
    "generate": "write a synthetic log with known truth",
    "backtest": "our forecasts beside every baseline, rolling origin",
    "estimate-vram": "GPU memory of a model and a run, and the GPUs it fits on",
    "retrain": "the batch job: data, train, evaluate, gate, register, publish",
    "models": "list, show, promote, rollback and verify model bundles",
    "cluster": "show, import and measure cluster profiles",
    "simulate": "recorded jobs under other policies, by the code that schedules live",
    "policy": "show, write and check policies of the queue, each setting with what it means",
    "explain": "why a job has its place in the queue, why not now, when",
    "serve": "answer schedulers over HTTP",
    "keys": "make, list and revoke API keys of the service",
    "store": "migrate, check, back up, export and prune the database of the service",
    "review": "open the MLflow UI on our store",
}
EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_LOCKED = 3


def find_commands() -> dict[str, EntryPoint]:
    """Return the installed sub-commands by name."""
    return {point.name: point for point in entry_points(group="predictor.commands")}


def usage(commands: dict[str, EntryPoint]) -> str:
    """Return the text of ``predictor --help``."""
    names = [name for name in SUMMARIES if name in commands] + sorted(set(commands) - set(SUMMARIES))
    lines = [f"  {name:<14} {SUMMARIES.get(name, '')}" for name in names]
    return "\n".join(
        [
            f"predictor {__version__}: calibrated forecasts of job duration and resources",
            "",
            "usage: predictor COMMAND [OPTIONS]      predictor COMMAND --help shows options and examples",
            "",
            *lines,
            "",
            "examples:",
            "  predictor ingest jobs.psv --format sacct --out jobs.parquet",
            "  predictor backtest jobs.parquet --target duration",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command and return the exit code; errors of the domain become one clear message."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    commands = find_commands()
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage(commands))
        return 0
    if argv[0] in ("-V", "--version"):
        print(__version__)
        return 0
    if argv[0] not in commands:
        print(f"predictor: '{argv[0]}' is no command; known: {', '.join(commands)}", file=sys.stderr)
        return EXIT_USAGE
    try:
        app = commands[argv[0]].load()
        result = app(args=argv[1:], prog_name=f"predictor {argv[0]}", standalone_mode=False)
    except PredictorError as error:
        print(f"predictor {argv[0]}: [{error.code}] {error}", file=sys.stderr)
        if isinstance(error, LockHeldError):
            return EXIT_LOCKED
        return EXIT_USAGE if isinstance(error, InputError) else EXIT_REFUSED
    except OSError as error:  # such as a disk that is full
        if error.filename is None:
            raise
        told = f"'{error.filename}': {error.strerror}"
        print(f"predictor {argv[0]}: [{PipelineError.code}] {told}", file=sys.stderr)
        return EXIT_REFUSED
    except Exception as error:
        show = getattr(error, "show", None)  # click's usage errors know how to print themselves
        if show is None:
            raise
        show()
        return int(getattr(error, "exit_code", EXIT_USAGE))
    return result if isinstance(result, int) else 0


def run() -> None:
    """Run the console script."""
    sys.exit(main())


if __name__ == "__main__":
    run()
