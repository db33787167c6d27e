"""The rival of `recurra bench serve`: the handler that one writes first, FastAPI around `nn.LSTM`, a call for each request.

python -m recurra.benchmarks.plain_server RUN
"""

from __future__ import annotations

import secrets
import socket
import sys
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from recurra.tasks.train import open_run


class Asked(BaseModel):
    inputs: list[int]


def make_app(path: str) -> FastAPI:
    """Sessions in a dictionary; a step reads one or more tokens and answers the five most probable ones."""
    torch.set_num_threads(1)  # of one row at a time: more only wait for each other
    run = open_run(path)
    task: Any = run.task
    model, names = run.model, task.token_names
    lstm = model.recurrent.to_torch().eval()
    sessions: dict[str, Any] = {}
    app = FastAPI()

    def advance(id: str, inputs: list[int]) -> dict[str, Any]:
        with torch.inference_mode():
            hidden, sessions[id] = lstm(model.embedding(torch.tensor([inputs])), sessions[id])
            chances, places = model.output(hidden[:, -1]).double().softmax(-1).topk(5)
        return {"tokens": [names[k] for k in places[0].tolist()], "probabilities": chances[0].tolist()}

    @app.post("/v1/sessions")
    async def create() -> dict[str, str]:
        id = secrets.token_urlsafe(24)
        sessions[id] = None
        advance(id, task.opening([]))
        return {"id": id}

    @app.post("/v1/sessions/{id}/step")
    async def step(id: str, asked: Asked) -> dict[str, Any]:
        return {"prediction": advance(id, asked.inputs)}

    @app.post("/threads/{id}/step")
    def step_in_a_thread(id: str, asked: Asked) -> dict[str, Any]:
        return {"prediction": advance(id, asked.inputs)}

    return app


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(make_app(sys.argv[1]), log_level="warning", access_log=False)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[listening])
