"""How good forecasts are: scores, slices, and the rolling-origin backtest."""
