"""This module reads published measurements of GPU memory: one reader for each kind of file."""

from predictor.data.measurements.base import MeasuredRuns
from predictor.data.measurements.registry import read_measurements

__all__ = ["MeasuredRuns", "read_measurements"]
