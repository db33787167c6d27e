"""Forecast a NumPy array, with an interval around the forecast and a picture."""

import numpy as np

import recurra as rc

step = np.arange(800)
series = np.sin(step / 8) + 0.5 * np.sin(step / 29) + 0.1 * np.random.default_rng(0).normal(size=800)
run = rc.train("forecast", data=series, steps=150, hidden_size=24)
print(run.evaluate())  # a backtest beside naive, seasonal and autoregressive forecasts

ahead = run.forecast(60)
ahead.plot("forecast.png")
print(ahead.predictions[:5, 0], ahead.low[:5, 0], ahead.high[:5, 0], sep="\n")
