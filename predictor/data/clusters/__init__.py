"""Readers of cluster profiles: our own TOML, and what Slurm, Kubernetes and NVIDIA's tools print."""
