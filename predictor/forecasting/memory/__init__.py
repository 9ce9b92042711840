"""Forecasts of peak GPU memory: an analytical model, its learned correction and the bound over both."""
