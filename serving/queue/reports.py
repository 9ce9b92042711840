"""This module checks reports of what happened to jobs of the queue: moments, states, and fitting fields."""

from serving.decoding import moment_faults
from serving.outcome_checks import future_faults, state_faults
from serving.problems import Fault
from serving.queue.schemas import JobOutcome

_OWN = {
    "started": (),
    "progress": ("saved_s", "progress_ratio", "throughput_per_s"),
    "finished": ("state", "exit_code", "peak_vram_mib", "peak_host_memory_mib"),
}  # beside what every event may tell


def report_faults(report: JobOutcome, now_s: float) -> list[Fault]:
    """Return what is wrong with a report beyond the types of its fields."""
    faults = []
    if report.at is not None:
        faults += moment_faults("at", report.at) or future_faults("at", report.at, now_s)
    for event, names in _OWN.items():
        for name in names:
            if event != report.event and getattr(report, name) is not None:
                detail = (
                    f"'{name}' is told with the event '{event}' only, not with '{report.event}'; leave it out"
                )
                faults.append(Fault(pointer=f"/{name}", code="not-applicable", detail=detail))
    if report.event == "finished" and report.state is not None:
        faults += state_faults(report.state)
    return faults
