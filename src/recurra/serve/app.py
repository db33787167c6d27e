"""The routes, as FastAPI documents them. What they do is in `service.py`; `gate.py` stands before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from recurra import __version__
from recurra.serve.errors import CODES, ApiError, from_bytes, to_bytes
from recurra.serve.metrics import Metrics
from recurra.serve.schemas import (
    ErrorBody,
    ForecastRequest,
    GenerateRequest,
    PredictRequest,
    ScoreRequest,
    SessionRequest,
    SessionStep,
    StateRequest,
    StepRequest,
    StepsRequest,
    TranslateRequest,
)
from recurra.serve.service import MOST_TOP, Served, Service, first_of
from recurra.serve.sessions import Session

DESCRIPTION = """Trained recurrent models over HTTP: batch verbs, and sessions that keep the state of a stream.
Errors have one shape: `{"error": {"code": …, "message": …}}`."""
DOCUMENTED = (400, 401, 404, 408, 409, 413, 415, 422, 429, 503)


class Json(Response):
    """JSON in ASCII, without NaN."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_bytes(content)


def make_app(service: Service) -> FastAPI:
    """The application of a service. No page of it loads scripts from elsewhere, so there is none."""
    app = FastAPI(
        title="Recurra",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        default_response_class=Json,
        responses={status: {"model": ErrorBody, "description": CODES[status]} for status in DOCUMENTED},
        redirect_slashes=False,
    )
    _add_health(app, service)
    _add_verbs(app, service)
    _add_sessions(app, service)

    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Json:
        return Json(error.body, error.status, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Json:
        first = error.errors()[0]
        where = ".".join(str(part)[:40] for part in first["loc"][1:6]) or "the body"
        return Json(ApiError(422, f"{where}: {first['msg']}.").body, 422)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Json:
        message = {404: "there is nothing here. See /openapi.json.", 405: "this method is not for this address."}
        told = ApiError(error.status_code, message.get(error.status_code, str(error.detail)[:200]))
        return Json(told.body, error.status_code, error.headers)

    return app


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthz() -> Any:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    async def readyz() -> Any:
        """Models are loaded, and the server is not about to stop."""
        if not service.ready:
            raise ApiError(503, "the server is starting or stopping.", {"Retry-After": "1"})
        return {"status": "ready", "models": list(service.models)}

    @app.get("/metrics", tags=["health"])
    async def metrics() -> Response:
        """Prometheus's text format."""
        return Response(await asyncio.to_thread(service.metrics.text), media_type=Metrics.content_type)

    @app.get("/v1/models", tags=["models"])
    async def models() -> Any:
        """What is served, and what each model can do."""
        return {"models": [served.describe() for served in service.models.values()]}


def _add_verbs(app: FastAPI, service: Service) -> None:
    @app.post("/v1/predict", tags=["verbs"])
    async def predict(asked: PredictRequest) -> Any:
        """Labels of sequences, or what follows in each case of an event log."""
        served = service.verb(asked.model, "predict")
        found = await service.call(served.run.predict, asked.data)
        return {"model": served.name} | found.to_json()

    @app.post("/v1/generate", tags=["verbs"])
    async def generate(asked: GenerateRequest) -> Response:
        """Text as it is produced: server-sent events with `{"text": …}`, and at the end an event `done`."""
        served = service.verb(asked.model, "generate")
        options = asked.model_dump(exclude={"model"})
        first, rest = await service.call(lambda: first_of(served.run.generate(**options)))
        return StreamingResponse(_events(service, first, rest), media_type="text/event-stream")

    @app.post("/v1/forecast", tags=["verbs"])
    async def forecast(asked: ForecastRequest) -> Any:
        """How a series goes on, free running, with an interval where the model draws many trajectories."""
        served = service.verb(asked.model, "forecast")
        found = await service.call(served.run.forecast, asked.steps, asked.data)
        return {"model": served.name} | found.to_json()

    @app.post("/v1/translate", tags=["verbs"])
    async def translate(asked: TranslateRequest) -> Any:
        """Translations of texts, by beam search."""
        served = service.verb(asked.model, "translate")
        found = await service.call(served.run.translate_all, asked.texts, beam=asked.beam)
        return {"model": served.name, "translations": [each.to_json() for each in found]}

    @app.post("/v1/score", tags=["verbs"])
    async def score(asked: ScoreRequest) -> Any:
        """The log-probability of each token of a text, given those before it."""
        served = service.verb(asked.model, "score")
        found = await service.call(served.run.score, asked.text, baselines=False)
        return {"model": served.name} | found.to_json()


async def _events(service: Service, first: str | None, rest: Iterator[str]) -> AsyncIterator[bytes]:
    """A text as server-sent events; the headers are out, so that a failure is an event too."""
    piece = first
    try:
        while piece is not None:
            yield b"data: " + to_bytes({"text": piece}) + b"\n\n"
            piece = await service.call(next, rest, None)
        yield b"event: done\ndata: {}\n\n"
    except ApiError as error:
        yield b"event: error\ndata: " + to_bytes(error.body) + b"\n\n"


def _add_sessions(app: FastAPI, service: Service) -> None:
    @app.post("/v1/sessions", tags=["sessions"], status_code=201)
    async def create(asked: SessionRequest) -> Any:
        """A new session: a stream of a model, with its state kept here."""
        session, _, opened = await service.create(asked.model, asked.state, asked.steps)
        return describe(service, session) | ({} if opened is None else {"prediction": opened})

    @app.get("/v1/sessions/{id}", tags=["sessions"])
    async def get(id: str) -> Any:
        """A session and its state."""
        session, served = await service.get(id)
        return describe(service, session) | {"state": _named(served, session)}

    @app.put("/v1/sessions/{id}/state", tags=["sessions"])
    async def restore(id: str, asked: StateRequest) -> Any:
        """Give a session another state: one that it had before, or that another session has."""
        session, _ = await service.restore(id, asked.state, asked.steps)
        return describe(service, session)

    @app.delete("/v1/sessions/{id}", tags=["sessions"])
    async def delete(id: str) -> Any:
        """Forget a session."""
        await service.delete(id)
        return {"deleted": id}

    steps = {
        "requestBody": {"required": True, "content": {"application/json": {"schema": StepRequest.model_json_schema()}}}
    }

    @app.post("/v1/sessions/{id}/step", tags=["sessions"], openapi_extra=steps)
    async def step(id: str, request: Request) -> Response:
        """Read one or more inputs, and predict what follows. This is the hot path: the gate answers it without the router."""
        return Response(await step_session(service, id, await request.body()), media_type="application/json")

    @app.post("/v1/steps", tags=["sessions"])
    async def many(asked: StepsRequest) -> Any:
        """Steps of many sessions at once; those of one session are read in the order given."""
        found: list[Any] = [None] * len(asked.steps)
        turns: dict[str, list[int]] = {}
        for k, each in enumerate(asked.steps):
            turns.setdefault(each.session, []).append(k)

        async def in_turn(places: list[int]) -> None:
            for k in places:
                found[k] = await _outcome(service, asked.steps[k])

        await asyncio.gather(*map(in_turn, turns.values()))
        return {"steps": found}


def _named(served: Served, session: Session) -> dict[str, Any]:
    assert served.streamer is not None
    return served.streamer.named(session.state)


async def _outcome(service: Service, asked: SessionStep) -> dict[str, Any]:
    """What one of many steps gave, or why it gave nothing."""
    try:
        return _stepped(asked.each, *await service.step(asked.session, asked.inputs, asked.top, asked.each))
    except ApiError as error:
        return error.body


def _stepped(each: bool, session: Session, answers: list[dict[str, Any]]) -> dict[str, Any]:
    told = {"predictions": answers} if each else {"prediction": answers[0]}
    return {"session": session.id, "steps": session.steps, **told}


def describe(service: Service, session: Session) -> dict[str, Any]:
    """A session without its state."""
    return {
        "id": session.id,
        "model": session.model,
        "steps": session.steps,
        "created": session.created,
        "used": session.used,
        "expires": session.used + service.settings.ttl,
    }


KEYS = {"inputs", "top", "each"}


async def step_session(service: Service, id: str, body: bytes) -> bytes:
    """One step request from bytes to bytes: what `StepRequest` says, checked by hand, which takes a tenth of the time."""
    asked = from_bytes(body)
    if not isinstance(asked, dict) or "inputs" not in asked or not asked.keys() <= KEYS:
        raise ApiError(422, "the body must be an object with inputs, and top and each if you like.")
    top, each = asked.get("top", 5), asked.get("each", False)
    if type(top) is not int or not 1 <= top <= MOST_TOP:
        raise ApiError(422, f"top must be a whole number from 1 to {MOST_TOP}.")
    if type(each) is not bool:
        raise ApiError(422, "each must be true or false.")
    return to_bytes(_stepped(each, *await service.step(id, asked["inputs"], top, each)))
