"""Topology fit: which of the placements that a cluster could give runs a job fastest, and why."""
