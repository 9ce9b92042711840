"""This module names the process that holds a lease so that others on its machine see when it is gone."""

import os
import socket
from pathlib import Path


def this_process() -> str:
    """Return a name for the present process that no other has, in space and time."""
    return "/".join(
        (socket.gethostname().replace("/", "_"), _machine(), str(os.getpid()), _born(os.getpid()))
    )


def is_gone(holder: str) -> bool:
    """Whether a holder ran on this machine and has ended; False also where that cannot be told."""
    parts = holder.split("/")
    if len(parts) != 4 or not parts[2].isdigit() or parts[1] != _machine() or not parts[1]:
        return False
    return _born(int(parts[2])) != parts[3]


def _machine() -> str:
    """Return boot and process namespace: containers on one machine do not see each other's processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        return ""
    return f"{boot}.{namespace.strip('pid:[]')}"


def _born(pid: int) -> str:
    """Return when a process began, in ticks since the boot: a number that is used again begins later."""
    try:
        # what follows the name of the program, which is in brackets and may hold anything
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
