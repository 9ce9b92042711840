"""This module keeps a service's request for a retraining, a file, until a retraining has answered it."""

from pathlib import Path

_TAKEN = ".taken"


def read_request(path: Path) -> str | None:
    """Return what was asked for, or what a retraining that was killed had begun with; None = nothing."""
    for each in (path, _taken(path)):
        try:
            return each.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
    return None


def take_request(path: Path) -> None:
    """Set a request aside: one that comes from now on is another one."""
    if path.exists():
        path.replace(_taken(path))


def finish_request(path: Path) -> None:
    """Forget the request that was taken."""
    _taken(path).unlink(missing_ok=True)


def _taken(path: Path) -> Path:
    return path.with_name(path.name + _TAKEN)
