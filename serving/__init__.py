"""The HTTP service that answers schedulers and people."""
