"""Duration forecasts: experts, their pool, its calibration, baselines, and the bundle they ship in."""
