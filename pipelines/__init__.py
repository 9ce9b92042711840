"""Batch jobs around the domain library: ingest, train, evaluate, promote, retrain, review."""
