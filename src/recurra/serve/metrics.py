"""What the server counts, in Prometheus's text format. Each worker counts for itself."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """The counters of one server."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "recurra_requests", "Requests by route and status.", ["route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "recurra_request_seconds", "Seconds of a request.", ["route"], buckets=SECONDS, registry=registry
        )
        self._steps = Counter("recurra_steps", "Session steps that were computed.", ["model"], registry=registry)
        self._batches = Histogram(
            "recurra_batch_size", "Sessions in one call of the engine.", ["model"], buckets=SIZES, registry=registry
        )
        self._engine = Counter("recurra_engine_seconds", "Seconds of engine and store.", ["model"], registry=registry)
        self._sessions = Gauge("recurra_sessions", "Sessions that are kept.", registry=registry)
        self._evicted = Gauge("recurra_sessions_evicted", "Sessions forgotten for lack of room.", registry=registry)
        self._expired = Gauge("recurra_sessions_expired", "Sessions forgotten for lack of use.", registry=registry)
        self._bound: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request that was answered. The labels of a route are looked up once: that takes as long as the rest."""
        bound = self._bound.get((route, status))
        if bound is None:
            bound = (self._requests.labels(route, str(status)), self._seconds.labels(route))
            self._bound[route, status] = bound
        bound[0].inc()
        bound[1].observe(seconds)

    def batch(self, model: str, size: int, steps: int, seconds: float) -> None:
        """A call of the engine."""
        self._batches.labels(model).observe(size)
        self._steps.labels(model).inc(steps)
        self._engine.labels(model).inc(seconds)

    def watch(self, sessions: Callable[[], int], evicted: Callable[[], int], expired: Callable[[], int]) -> None:
        """Numbers that are read when somebody asks."""

        def count() -> float:
            try:
                return float(sessions())
            except Exception:  # a store that is away must not take the other numbers with it
                return float("nan")

        self._sessions.set_function(count)
        self._evicted.set_function(lambda: float(evicted()))
        self._expired.set_function(lambda: float(expired()))

    def text(self) -> bytes:
        return generate_latest(self._registry)
