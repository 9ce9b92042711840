"""The queue that decides: one deterministic Coordinator, its policies, and why it decided so."""
