"""What requests hold: types, ranges and one line about each, as the OpenAPI document shows them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from recurra.serve.service import MOST_TOP

MOST_TEXT = 20_000
Number = Annotated[float, Field(allow_inf_nan=False)]
Cell = Number | str | None
Text = Annotated[str, Field(max_length=MOST_TEXT)]


class Asked(BaseModel):
    """What all requests share: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class ModelAsked(Asked):
    model: str | None = Field(None, max_length=200, description="which model; not needed where one is served")


class PredictRequest(ModelAsked):
    """Sequences to label (texts, or numbers `[T]` or `[T, D]`), or the rows of an event log."""

    data: (
        Annotated[list[Text], Field(min_length=1, max_length=1000)]
        | Annotated[list[list[Number]], Field(min_length=1, max_length=1000)]
        | Annotated[list[list[list[Number]]], Field(min_length=1, max_length=1000)]
        | Annotated[list[dict[str, Cell]], Field(min_length=1, max_length=20_000)]
    )


class GenerateRequest(ModelAsked):
    """Text that follows a prime, sent as it is produced."""

    prime: Text = ""
    length: int = Field(200, ge=1, le=10_000, description="at most so many tokens")
    greedy: bool = False
    temperature: float = Field(1.0, gt=0, le=100, allow_inf_nan=False)
    top_k: int | None = Field(None, ge=1, le=1_000_000)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    given: str | None = Field(None, max_length=200, description="the class, of a class-conditional model")
    seed: int | None = Field(None, ge=0, le=2**63 - 1, description="the same seed gives the same text")


class ForecastRequest(ModelAsked):
    """How a series goes on: that of the run, or the one in `data`, `[T]` or `[T, C]` numbers."""

    steps: int = Field(24, ge=1, le=2000)
    data: (
        Annotated[list[Number], Field(min_length=2, max_length=50_000)]
        | Annotated[
            list[Annotated[list[Number], Field(min_length=1, max_length=100)]], Field(min_length=2, max_length=50_000)
        ]
        | None
    ) = None


class TranslateRequest(ModelAsked):
    texts: list[Annotated[str, Field(min_length=1, max_length=2000)]] = Field(min_length=1, max_length=64)
    beam: int = Field(4, ge=1, le=16)


class ScoreRequest(ModelAsked):
    text: Annotated[str, Field(min_length=1, max_length=MOST_TEXT)]


class SessionRequest(ModelAsked):
    """A new session; with `state`, one that goes on from there."""

    state: dict[str, Any] | None = Field(None, description="as GET /v1/sessions/ID gives it")
    steps: int = Field(0, ge=0, le=2**53, description="how many steps the state has behind it")


class StateRequest(Asked):
    state: dict[str, Any] = Field(description="as GET /v1/sessions/ID gives it")
    steps: int | None = Field(None, ge=0, le=2**53)


class StepRequest(Asked):
    """One or more inputs of a session."""

    inputs: str | list[Any] = Field(description="what the model reads: see `reads` of GET /v1/models")
    top: int = Field(5, ge=1, le=MOST_TOP, description="how many names a prediction has, most probable first")
    each: bool = Field(False, description="a prediction after each input, not after the last alone")


class SessionStep(StepRequest):
    session: str = Field(min_length=32, max_length=32)


class StepsRequest(Asked):
    """Steps of many sessions in one request. Each is answered, or refused, by itself."""

    steps: list[SessionStep] = Field(min_length=1, max_length=1000)


class Refusal(BaseModel):
    code: str
    message: str


class ErrorBody(BaseModel):
    """How every refusal looks."""

    error: Refusal
