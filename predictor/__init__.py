"""Forecasts of job duration and resources, learned from the logs of a cluster.

Importing this package sets ``OMP_WAIT_POLICY=passive`` unless it is set already: LightGBM's OpenMP
threads otherwise spin on shared cores and can run sixty times slower.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__version__ = "0.1.0"
__all__ = ["__version__"]
