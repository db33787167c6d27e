"""Kinds of event logs and series that the bench of defaults trains on, with the tool that people would use elsewhere."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from recurra.data.in_memory import write_data
from recurra.data.log_tasks import LOGS, log_rows, synthetic_log
from recurra.data.series import filled
from recurra.data.series_kinds import SERIES, synthetic_series
from recurra.training.backtest import roll

SEED = 7
"""Of the data."""
EPOCHS = 30
"""Of the plain script."""


def plain_name(row: str) -> str:
    """The name of a baseline without what differs from kind to kind: orders and seasons."""
    return re.sub(r",? (of order|order)? ?\d+$|, \d+$", "", row)


def write_events(name: str) -> Callable[[Path], list[str]]:
    """The log of a kind in a folder, to the settings that read it."""

    def write(folder: Path) -> list[str]:
        path = write_data("events", log_rows(synthetic_log(seed=SEED, **LOGS[name])), folder)
        return [f"data.path={path}", *(["data.attributes=kind"] if LOGS[name].get("attribute") else [])]

    return write


def write_series(name: str) -> Callable[[Path], list[str]]:
    """The series of a kind in a folder, to the settings that read it."""

    def write(folder: Path) -> list[str]:
        series = synthetic_series(seed=SEED, **SERIES[name])
        return [f"data.path={write_data('series', series, folder)}", f"backtest.horizon={horizon_of(series)}"]

    return write


def horizon_of(series: Tensor) -> int:
    """Steps ahead: a season, or what a short series leaves."""
    return 24 if len(series) >= 500 else 12


def plain_script(name: str) -> Callable[[], dict[str, float]]:
    """What a script of thirty lines gets: torch's LSTM of 100 units in two layers, on activities and the time between them, with
    Adam over 30 epochs; the epoch with the best validation counts."""

    def compare() -> dict[str, float]:
        torch.manual_seed(0)
        cases = synthetic_log(seed=SEED, **LOGS[name]).cases
        known = round(len(cases) * 2 / 3)
        train = known - max(1, round(0.1 * known))
        names = {what: k for k, what in enumerate(sorted({w for c in cases[:train] for w in c.activities}), start=1)}
        end = len(names) + 1
        what = [torch.tensor([names.get(w, 0) for w in case.activities]) for case in cases]
        moments = [case.times for case in cases if case.times is not None]
        gaps = [torch.from_numpy(np.log1p(np.diff(each, prepend=each[:1]))).float() / 10 for each in moments]
        true = [torch.cat([each[1:], torch.tensor([end])]) for each in what]
        embedding, layers, out = nn.Embedding(end, 32), nn.LSTM(33, 100, 2, batch_first=True), nn.Linear(100, end + 1)
        parameters = [*embedding.parameters(), *layers.parameters(), *out.parameters()]
        optimiser = torch.optim.Adam(parameters, 2e-3)

        def run(rows: list[int]) -> tuple[Tensor, Tensor]:
            x, dt, y = (pad_sequence([each[k] for k in rows], True, -1) for each in (what, gaps, true))
            hidden = layers(torch.cat([embedding(x.clamp(min=0)), dt[..., None]], -1))[0]
            return out(hidden), y

        best, state = np.inf, [p.detach().clone() for p in parameters]
        for _ in range(EPOCHS):
            for rows in torch.randperm(train).split(32):
                logits, y = run(rows.tolist())
                optimiser.zero_grad()
                nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-1).backward()
                optimiser.step()
            with torch.no_grad():
                logits, y = run(list(range(train, known)))
                loss = float(nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-1))
            if loss < best:
                best, state = loss, [p.detach().clone() for p in parameters]
        with torch.no_grad():
            for parameter, kept in zip(parameters, state, strict=True):
                parameter.copy_(kept)
            hits = []
            for rows in torch.arange(known, len(cases)).split(256):
                logits, y = run(rows.tolist())
                right, inside = logits.argmax(-1) == y, y >= 0
                hits.append(right[:, 1:][inside[:, 1:]])
        return {"a plain LSTM": float(torch.cat(hits).double().mean())}

    return compare


def exponential_smoothing(name: str) -> Callable[[], dict[str, float]] | None:
    """The state-space models of statsmodels, each channel alone: exponential smoothing with a damped trend and the season, where
    there is one, refitted at no origin; its parameters come from the training part."""
    if find_spec("statsmodels") is None:
        return None

    def compare() -> dict[str, float]:
        space: Any = import_module("statsmodels.tsa.statespace.exponential_smoothing")
        series = synthetic_series(seed=SEED, **SERIES[name])
        season = SERIES[name].get("periods", (1,))[0]
        T, horizon = len(series), horizon_of(series)
        test = T - int(T * 0.15)
        rolling = roll(series, test, horizon=horizon, window=1, origins=50, samples=1, seed=0)
        values = filled(series).numpy()
        scale = np.nanstd(series[: T - 2 * int(T * 0.15)].numpy(), axis=0, ddof=1) if series.shape[1] > 1 else 1.0
        found = np.zeros((len(rolling.origins), horizon, values.shape[1]))
        for c in range(values.shape[1]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                how = {"trend": True, "damped_trend": True, "seasonal": season if 1 < season <= 48 else None}
                fitted = space.ExponentialSmoothing(values[:test, c], **how).fit(disp=False, maxiter=50)
                for k, origin in enumerate(rolling.origins.tolist()):
                    found[k, :, c] = fitted.apply(values[: origin + 1, c]).forecast(horizon)
        error = np.abs(found - rolling.true.numpy()) / scale
        return {"exponential smoothing": float(np.nanmean(error))}

    return compare
