"""Kinds of event logs and series that the bench of defaults trains on, with the tool that people would use elsewhere."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from recurra.data.events import Case
from recurra.data.in_memory import write_data
from recurra.data.log_tasks import LOGS, log_rows, synthetic_log
from recurra.data.series import filled
from recurra.data.series_kinds import SERIES, synthetic_series
from recurra.training.backtest import roll

SEED = 7
"""Of the data, to which that of the bench is added."""
Specialist = Callable[[Any, float], dict[str, float]]
"""From a run, and the seconds that it took, to another tool's scores on the same data."""
EPOCHS = 30
"""Of the plain script."""


def write_events(name: str, data_seed: int = 0) -> Callable[[Path], list[str]]:
    """The log of a kind in a folder, to the settings that read it."""

    def write(folder: Path) -> list[str]:
        path = write_data("events", log_rows(synthetic_log(seed=SEED + data_seed, **LOGS[name])), folder)
        return [f"data.path={path}", *(["data.attributes=kind"] if LOGS[name].get("attribute") else [])]

    return write


def write_series(name: str, data_seed: int = 0) -> Callable[[Path], list[str]]:
    """The series of a kind in a folder, to the settings that read it."""

    def write(folder: Path) -> list[str]:
        series = synthetic_series(seed=SEED + data_seed, **SERIES[name])
        return [f"data.path={write_data('series', series, folder)}", f"backtest.horizon={horizon_of(series)}"]

    return write


def horizon_of(series: Tensor) -> int:
    """Steps ahead: a season, or what a short series leaves."""
    return 24 if len(series) >= 500 else 12


def back_off(name: str, data_seed: int = 0) -> dict[str, float]:
    """Counts as a script has them: the most frequent follower of the last two activities, of the last one where training never
    saw those, or of any."""
    cases, train, known = _split(name, data_seed)
    counts: list[defaultdict[tuple[str, ...], Counter[str]]] = [defaultdict(Counter) for _ in range(3)]
    for case in cases[:train]:
        for t, then in enumerate([*case.activities[1:], ""], start=1):
            for order, each in enumerate(counts):
                each[tuple(case.activities[max(0, t - order) : t])][then] += 1
    hits = []
    for case in cases[known:]:
        for t in range(2, len(case.activities) + 1):
            places = ((each, tuple(case.activities[t - order : t])) for order, each in reversed([*enumerate(counts)]))
            found = next(each[past] for each, past in places if past in each)
            hits.append(found.most_common(1)[0][0] == ([*case.activities, ""][t]))
    return {"back-off of order 2": float(np.mean(hits))}


def _split(name: str, data_seed: int) -> tuple[list[Case], int, int]:
    """The cases of a kind, and where validation and test begin: as the recipe does it."""
    cases = synthetic_log(seed=SEED + data_seed, **LOGS[name]).cases
    known = round(len(cases) * 2 / 3)
    return cases, known - max(1, round(0.1 * known)), known


def plain_script(name: str, data_seed: int = 0) -> Specialist:
    """What a script of thirty lines gets: torch's LSTM of 100 units in two layers, on activities and the time between them, with
    Adam over 30 epochs; the epoch with the best validation counts."""

    def compare(_run: Any, _seconds: float) -> dict[str, float]:
        torch.manual_seed(0)
        cases, train, known = _split(name, data_seed)
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
        return {"a plain LSTM": float(torch.cat(hits).double().mean())} | back_off(name, data_seed)

    return compare


def statistical_models(name: str, data_seed: int = 0) -> Specialist | None:
    """AutoETS, AutoARIMA and AutoTheta of statsforecast, each channel alone and told the season: chosen and fitted on all that
    comes before the test part, and applied from each origin to what is known there. AutoARIMA takes minutes where a season meets
    more than a thousand steps, and is left out there."""
    if find_spec("statsforecast") is None:
        return None

    def compare(_run: Any, _seconds: float) -> dict[str, float]:
        models: Any = import_module("statsforecast.models")
        series = synthetic_series(seed=SEED + data_seed, **SERIES[name])
        season = SERIES[name].get("periods", (1,))[0]
        T, horizon = len(series), horizon_of(series)
        test = T - int(T * 0.15)
        rolling = roll(series, test, horizon=horizon, window=1, origins=50, samples=1, seed=0)
        values = filled(series).numpy()
        scale = np.nanstd(series[: T - 2 * int(T * 0.15)].numpy(), axis=0, ddof=1) if series.shape[1] > 1 else 1.0
        scores = {}
        for called in ("AutoETS", "AutoTheta", *(["AutoARIMA"] if T <= 1000 else [])):
            found = np.zeros((len(rolling.origins), horizon, values.shape[1]))
            for c in range(values.shape[1]):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fitted = getattr(models, called)(season_length=season).fit(values[:test, c])
                    for k, origin in enumerate(rolling.origins.tolist()):
                        found[k, :, c] = fitted.forward(y=values[: origin + 1, c], h=horizon)["mean"]
            scores[called] = float(np.nanmean(np.abs(found - rolling.true.numpy()) / scale))
        return scores

    return compare
