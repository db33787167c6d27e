"""Models of every kind that can be exported, small and untrained, with what they say about given inputs."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import recurra as rc
from recurra.layers.front import Front

M = rc.models
LENGTHS = torch.tensor([9, 4, 1])


@dataclass(frozen=True)
class Example:
    """A model, inputs by the names of its network, and what the model itself computes from them, by the names of outputs."""

    model: nn.Module
    inputs: dict[str, Tensor]
    expected: Callable[[], dict[str, Tensor]]


def tokens(size: int = 11) -> Tensor:
    return torch.randint(size, (3, 9))


def language() -> Example:
    model, given = M.LanguageModel(11, rc.Recurrent("gru", 5, 8, layers=2), deep_input=1, deep_output=2), tokens()
    return Example(model, {"tokens": given}, lambda: {"logits": model(given, None, LENGTHS)[0]})


def tied() -> Example:
    model, given = M.LanguageModel(11, rc.Recurrent("lstm", 8, 8, residual=True, layers=2), tied=True), tokens()
    return Example(model, {"tokens": given}, lambda: {"logits": model(given, None, LENGTHS)[0]})


def forecaster(head: str) -> Callable[[], Example]:
    def make() -> Example:
        layers = rc.Recurrent("gru", 4, 8)
        model, x = M.Forecaster(layers, channels=2, head=head, change=True, gaps=True, skip=True), torch.randn(3, 9, 2)
        assert model.skip is not None
        nn.init.normal_(model.skip.weight)
        x[0, 2, 1] = float("nan")
        return Example(model, {"x": x}, lambda: {"predicted": model(x, None, LENGTHS)[0]})

    return make


def binary() -> Example:
    model, x = M.Forecaster(rc.Recurrent("leaky", 5, 8), channels=5, head="bernoulli"), torch.randn(3, 9, 5).round()
    return Example(model, {"x": x}, lambda: {"predicted": model(x, None, LENGTHS)[0]})


def classifier(head: str, **options: bool) -> Callable[[], Example]:
    def make() -> Example:
        layers = rc.Recurrent("gru", 6, 8, **options)
        model, x = M.Classifier(layers, classes=4, head=head, front=Front(3, 6, 3, 2)), torch.randn(3, 9, 3)
        return Example(model, {"x": x}, lambda: {"logits": model(x, lengths=LENGTHS)})

    return make


def tagger() -> Example:
    layers = rc.Recurrent("lstm_norm", 6, 8, bidirectional=True, merge="mul")
    model, given = M.Tagger(layers, classes=4, vocabulary_size=11), tokens()
    return Example(model, {"tokens": given}, lambda: {"logits": model(given, lengths=LENGTHS)})


def events() -> Example:
    model = M.EventModel(rc.Recurrent("gru_after", 38, 32), activities=10, values=[4], times=6, predicted=[0])
    what, values, times = tokens(10), torch.randint(4, (3, 9, 1)), torch.randn(3, 9, 6)

    def expected() -> dict[str, Tensor]:
        found = model(what, times, values, LENGTHS)
        return {"logits": found.logits, "gap": found.gaps[..., None], "attribute_0_logits": found.attributes[0]}

    return Example(model, {"activities": what, "attribute_0": values[..., 0], "times": times}, expected)


def stopping() -> Example:
    model, given = M.LanguageModel(11, rc.Recurrent("gru", 5, 8), stop=10, deep_output=1), tokens()

    def expected() -> dict[str, Tensor]:
        hidden = model.hidden(given, None, LENGTHS)[0]
        free = nn.functional.linear(model.output.before(hidden), model.output.weight, model.output.bias)
        stop = model(given, None, LENGTHS)[0][..., 10:].exp()  # what the model itself says of its end
        return {"logits": free, "stop": stop}

    return Example(model, {"tokens": given}, expected)


def length_first() -> Example:
    model, given = M.LengthLanguageModel(M.LanguageModel(11, rc.Recurrent("lstm", 5, 8)), longest=8), tokens()
    left = (LENGTHS[:, None] - 1 - torch.arange(9)).clamp(min=0)
    return Example(model, {"tokens": given, "left": left}, lambda: {"logits": model(given, LENGTHS)})


def conditioned(told: str = "input", **condition: int) -> Callable[[], Example]:
    def make() -> Example:
        language = M.LanguageModel(11, rc.Recurrent("lstm" if told == "both" else "gru", 5, 8))
        model = M.ConditionedLanguageModel(language, told=told, **condition)
        given = torch.tensor([1, 4, 0]) if "classes" in condition else torch.randn(3, condition["condition_size"])
        inputs = {"tokens": tokens(), "label" if "classes" in condition else "condition": given}

        def expected() -> dict[str, Tensor]:
            first = model.given(given).first
            names = [state.name for state in language.recurrent.cell.graph.states]
            starts = {} if first is None else dict(zip(names, first[0][0], strict=True))
            read = model.given(given)(inputs["tokens"], language.recurrent.initial_state(3), LENGTHS)[0]
            return {"logits": read} | {f"first_{name}_0": value for name, value in starts.items()}

        return Example(model, inputs, expected)

    return make


def jordan() -> Example:
    model, given, before = M.Jordan(11, 5, 7), tokens(), tokens(6)
    return Example(model, {"tokens": given, "before": before}, lambda: {"logits": model.predict(given, before)})


def echo(inputs: int, feedback: bool) -> Callable[[], Example]:
    def make() -> Example:
        model = M.EchoState(inputs, 2, feedback=feedback, hidden_size=20, layers=2, reservoirs=2)
        series, drive = torch.randn(300, 2).cumsum(0) / 10, torch.randn(300, inputs) if inputs else None
        model.standardise(series, drive)
        model.learn(series, drive, washout=20, penalty=1e-3)
        x, before = torch.randn(3, 9, inputs).double(), torch.randn(3, 9, 2).double()
        raw = torch.cat([x, before] if feedback else [x], dim=-1)
        size = raw.shape[-1]

        def expected() -> dict[str, Tensor]:
            read = (raw - model.shift[:size]) / model.scale[:size]
            return {"y": model(read)[0] * model.scale[inputs:] + model.shift[inputs:]}

        given = ({"x": x} if inputs else {}) | ({"before": before} if feedback else {})
        return Example(model, given, expected)

    return make


MODELS: dict[str, Callable[[], Example]] = {
    "language": language,
    "tied": tied,
    **{f"forecaster-{head}": forecaster(head) for head in ("gaussian", "mixture", "quantiles")},
    "binary": binary,
    **{f"classifier-{head}": classifier(head, bidirectional=True) for head in ("last", "mean", "max", "attention")},
    "classifier-one-way": classifier("last"),
    "tagger": tagger,
    "events": events,
    "conditioned-class": conditioned(classes=5),
    "conditioned-vector": conditioned(condition_size=3),
    "conditioned-state": conditioned("state", classes=5),
    "conditioned-both": conditioned("both", condition_size=3),
    "stopping": stopping,
    "length-first": length_first,
    "jordan": jordan,
    **{f"echo-{inputs}-{feedback}": echo(inputs, feedback) for inputs, feedback in ((0, True), (1, False), (1, True))},
}


def make(name: str) -> Example:
    torch.manual_seed(0)
    example = MODELS[name]()
    example.model.eval()
    return example
