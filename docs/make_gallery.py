"""Draw every picture of docs/gallery.md, light and dark: `make gallery`.

The networks are trained once, by recipes, and kept in runs/gallery. Pictures are small PNG files of at most 240 colours.
"""

import io
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import recurra as rc
from recurra.analysis.memory_lengths import MemoryComparison, MemoryRow

HERE = Path(__file__).parent
OUT = HERE / "gallery"
RUNS = HERE.parent / "runs" / "gallery"
WIDE, COLOURS, COMMON = 760, 200, 40
FILMS = {
    "Fields": {"formation": "attractors form", "walk": "a state moves"},
    "Small things": {"convolution": "the filters on their way"},
}
PREY = {"cat": ("mouse", "bird"), "dog": ("bone", "stick"), "fox": ("hen", "egg")}
"""What an animal finds: words apart that belong together."""
WASH = ["Power", "Program 1", "Start", "Level", "Timer", "Timer", "Timer"]


def machine_run() -> rc.Run:
    """The washing machine's network, with its weights on the way."""
    folder = RUNS / "washing-machine"
    if folder.exists():
        return rc.open(folder)
    return rc.train("washing-machine", out=folder, progress="lines", **{"training.snapshots": 16})


def plane_run() -> rc.Run:
    folder = RUNS / "feedforward"
    return rc.open(folder) if folder.exists() else rc.train("feedforward", out=folder, progress="lines")


def given() -> tuple[rc.Recurrent, torch.Tensor]:
    torch.manual_seed(0)
    return rc.Recurrent("elman", 2, 5, init=rc.spectral_radius(0.9)), torch.randn(6, 2)


def text_run() -> rc.Run:
    """A small language model of words, for tables of order k and embeddings."""
    folder = RUNS / "text"
    if folder.exists():
        return rc.open(folder)
    chance = random.Random(0)

    def sentence() -> str:
        animal = chance.choice(list(PREY))
        words = [
            ("the",),
            (animal,),
            ("often", "never"),
            ("sees", "finds", "hides"),
            ("the",),
            ("small", "old"),
            PREY[animal],
        ]
        return " ".join(chance.choice(each) for each in (*words, (". ",)))

    RUNS.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 2000), ("valid", 200)):
        (RUNS / f"{name}.txt").write_text("".join(sentence() for _ in range(count)), encoding="utf-8")
    how: dict[str, Any] = {
        "data.tokens": "word",
        "hidden_size": 32,
        "embedding_size": 8,
        "steps": 1000,
        "learning_rate": 0.02,
        "batch_size": 8,
        "truncation": "every:32",
        "data.valid_path": str(RUNS / "valid.txt"),
    }
    return rc.train("text", data=RUNS / "train.txt", out=folder, progress="lines", cell="gru", **how)


def measured() -> dict[str, Any]:
    """Success over length as `recurra bench memory` has measured it: minutes for each task, so it is kept."""
    kept = json.loads((HERE / "memory.json").read_text(encoding="utf-8"))
    rows = {each["task"]: [MemoryRow(**row) for row in each["rows"]] for each in kept}
    return {each["task"]: MemoryComparison(each["task"], each["steps"], rows[each["task"]]) for each in kept}


def contents() -> list[tuple[str, list[tuple[str, str, str, Callable[[], Any]]]]]:
    """Sections; in each, a file's name, what it shows, the command, and what draws it."""
    unroll = rc.lecture.unroll
    run = machine_run()
    field = run.field("none", starts=128)
    layer, x = given()
    resting = [name for trigger in WASH for name in (trigger, *["none"] * 4)]
    walk = run.walk(resting)
    formed = run.formation("none", steps=[0, *run.snapshots[::2][:6], run.snapshots[-1]])
    words = "the little brown fox jumps over the dog"
    torch.manual_seed(0)
    network = rc.Tree(3, 8, composition="plain", arity=2)
    text, memory = text_run(), measured()
    odd = rc.analysis.Moore(("0", "1"), ((0, 1), (1, 0)), ("even", "odd"))
    OUT.mkdir(exist_ok=True)
    rc.lecture.convolve().animate(OUT / "convolution.gif")
    run.walk(WASH).animate(OUT / "walk.gif")
    formed.animate(OUT / "formation.gif")
    state_machine = run.task.reading(run.model).truth
    return [
        (
            "The graph, rolled and unrolled",
            [
                ("unroll-elman", "a network over three steps", "recurra unroll elman --steps 3", unroll("elman").plot),
                (
                    "unroll-last",
                    "one output at the end",
                    "recurra unroll lstm --loss last",
                    unroll("lstm", loss="last").plot,
                ),
                ("unroll-stack", "three layers", "recurra unroll elman --layers 3", unroll("elman", layers=3).plot),
                (
                    "unroll-both",
                    "two directions",
                    "recurra unroll gru --bidirectional",
                    unroll("gru", bidirectional=True).plot,
                ),
                (
                    "unroll-pairs",
                    "encoder and decoder, teacher forcing",
                    "recurra unroll gru --steps 3 --decoder 3 --feeding teacher",
                    unroll("gru", 3, decoder=3, feeding="teacher").plot,
                ),
                (
                    "unroll-teacher",
                    "recurrence from the output, teacher forcing",
                    "recurra unroll elman --recurrence output --feeding teacher",
                    unroll("elman", recurrence="output", feeding="teacher").plot,
                ),
                (
                    "unroll-free",
                    "recurrence from the output, free running",
                    "recurra unroll elman --recurrence output --feeding free",
                    unroll("elman", recurrence="output", feeding="free").plot,
                ),
                (
                    "unroll-skip",
                    "a connection that skips a step",
                    "recurra unroll 'skip(d=2)' --steps 4",
                    unroll("skip(d=2)", 4).plot,
                ),
                (
                    "unroll-back",
                    "the way back, and what truncation cuts",
                    "recurra unroll elman --steps 6 --gradients 5 --truncation window:2",
                    unroll(layer, x=x, truncation="window:2").plot,
                ),
                (
                    "truncations",
                    "three truncations",
                    "rc.lecture.compare_truncations(8, 3).plot()",
                    rc.lecture.compare_truncations(8, 3).plot,
                ),
                (
                    "tree",
                    "a recursive network over a balanced tree",
                    f"recurra lecture tree '{words}'",
                    rc.lecture.unroll_tree(words).plot,
                ),
                (
                    "chain",
                    "the same words as a chain, and the gradient that reaches each",
                    f"recurra lecture tree '{words}' --shape chain --gradients 8",
                    rc.lecture.unroll_tree(words, shape="chain", network=network).plot,
                ),
                (
                    "wires",
                    "every wire of a small network",
                    "recurra unroll elman --wires 3-5-4",
                    rc.lecture.wire().plot,
                ),
            ],
        ),
        (
            "The washing machine",
            [
                (
                    "states",
                    "states and triggers as vectors",
                    "rc.lecture.state_vectors().plot()",
                    rc.lecture.state_vectors().plot,
                ),
                (
                    "sum",
                    "state + trigger",
                    'rc.lecture.add_triggers(["Power", "Program 1"], axes=["Power", "Program", "Program Start"]).plot()',
                    rc.lecture.add_triggers(["Power", "Program 1"], axes=["Power", "Program", "Program Start"]).plot,
                ),
                (
                    "sum-start",
                    "one trigger further",
                    "rc.lecture.add_triggers().plot()",
                    rc.lecture.add_triggers().plot,
                ),
                (
                    "machine",
                    "the machine as circles and arrows",
                    "recurra automaton RUN --circles machine",
                    lambda **how: state_machine.plot(form="circles", **how),
                ),
                (
                    "attractors",
                    "the network's attractors, and the ways between them",
                    "recurra explain RUN --field",
                    run.attractors().plot,
                ),
                (
                    "walk",
                    "a state that moves under triggers",
                    "recurra explain RUN --walk 'Power,none,none,none,…'",
                    walk.plot,
                ),
            ],
        ),
        (
            "Fields",
            [
                ("field", "arrows of one step", "recurra explain RUN --field", field.plot),
                (
                    "contours",
                    "contours of the speed",
                    'run.field().plot(form="contours")',
                    lambda **how: field.plot(form="contours", **how),
                ),
                (
                    "surface",
                    "the speed as a surface",
                    'run.field().plot(form="surface")',
                    lambda **how: field.plot(form="surface", **how),
                ),
                ("basins", "which attractor each place ends at", "recurra explain RUN --field", field.plot_basins),
                (
                    "parts",
                    "what the input and the state add",
                    'run.split_field("Start").plot()',
                    run.split_field("Start").plot,
                ),
                (
                    "triggers",
                    "the field of every trigger; dots are where the network rests",
                    "recurra explain RUN --triggers",
                    run.fields().plot,
                ),
                ("formation", "attractors form", "recurra explain RUN --formation", formed.plot),
            ],
        ),
        (
            "Gradients",
            [
                ("flow", "over time", "recurra explain RUN --gradients", run.gradients(steps=60).plot),
                ("pairs", "for all pairs (t, k)", "rc.analysis.gradient_map(layer, x).plot()", gradient_pairs().plot),
                ("eigenvalues", "eigenvalues and the unit circle", "run.spectra().plot()", run.spectra().plot),
                (
                    "depth",
                    "over depth",
                    "rc.lecture.gradients_over_depth().plot()",
                    rc.lecture.gradients_over_depth().plot,
                ),
                (
                    "depth-recurrent",
                    "over stacked recurrent layers",
                    'rc.lecture.gradients_over_depth(16, cell="elman").plot()',
                    rc.lecture.gradients_over_depth(16, cell="elman").plot,
                ),
            ],
        ),
        (
            "Memory",
            [
                (
                    f"memory-{task}",
                    f"success over length: {task}",
                    f"recurra bench memory {task}",
                    memory[task].plot,
                )
                for task in memory
            ],
        ),
        (
            "Small things",
            [
                (
                    "scalar",
                    "one unit: the gradient for every replica of a weight",
                    "rc.lecture.scalar_case([1.0, -0.5] * 10).plot()",
                    rc.lecture.scalar_case([1.0, -0.5] * 10).plot,
                ),
                (
                    "activations",
                    "activation functions and their slopes",
                    "recurra lecture activations",
                    rc.lecture.activations().plot,
                ),
                (
                    "sine",
                    "ridge functions in superposition, one variable",
                    "recurra lecture approximate sine",
                    rc.lecture.approximate("sine").plot,
                ),
                (
                    "bump",
                    "ridge functions in superposition, two variables",
                    "recurra lecture approximate bump",
                    rc.lecture.approximate("bump").plot,
                ),
                (
                    "convolution",
                    "filters over two channels, their sums, and what is pooled",
                    "recurra lecture convolution",
                    rc.lecture.convolve().plot,
                ),
                (
                    "parity-network",
                    "a network built to be an automaton",
                    "recurra lecture automaton parity",
                    rc.lecture.automaton_network(odd).plot,
                ),
                ("orders", "tables of order k beside a network", "recurra orders RUN --most 5", text.orders(5).plot),
                ("embeddings", "embeddings as a map", "recurra embeddings RUN", text.embeddings().plot),
            ],
        ),
        (
            "States and regions",
            [
                (
                    "through-time",
                    "states through time",
                    "run.through_time(steps=60).plot()",
                    run.through_time(steps=60).plot,
                ),
                ("loss", "a metric over training", 'run.curve("loss").plot()', run.curve("loss").plot),
                ("regions", "linear regions of a rectifier network", "recurra regions RUN", plane_run().regions().plot),
            ],
        ),
    ]


def gradient_pairs() -> Any:
    torch.manual_seed(0)
    return rc.analysis.gradient_map(rc.Recurrent("elman", 2, 16, init=rc.spectral_radius(0.9)), torch.randn(30, 2))


def shrink(data: bytes) -> bytes:
    """A picture of at most WIDE pixels and few colours, rare ones among them: a dot is a dot because of its colour."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    wide = min(image.width, WIDE)
    image = image.resize((wide, round(image.height * wide / image.width)), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    rare = image.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    # the ground and its grid keep their colours: a tint is seen at once
    often = sorted(image.getcolors(image.width * image.height) or [], reverse=True)[:COMMON]
    palette = [part for _, colour in often for part in colour] + (rare.getpalette() or [])[: 3 * COLOURS]
    colours, which = np.unique(np.array(image).reshape(-1, 3), axis=0, return_inverse=True)
    away = np.square(colours[:, None].astype(np.int32) - np.reshape(palette, (1, -1, 3))).sum(-1)
    few = Image.fromarray(away.argmin(1)[which].astype(np.uint8).reshape(image.height, image.width), mode="P")
    few.putpalette(palette)
    few.save(out, "PNG", optimize=True)
    return out.getvalue()


def main() -> None:
    start = time.time()
    OUT.mkdir(exist_ok=True)
    lines = [
        "# Gallery",
        "",
        "Every picture, on a light or a dark ground as your page has it, with what draws it. `make gallery` draws them again.",
        "`RUN` is a run of the recipe `washing-machine` with `training.snapshots=16` (of `regions`: of",
        "`feedforward`; of `orders` and `embeddings`: of `text`, on sentences of a few words).",
        "[Figures](figures.md) leads from the figures of the lecture notes to commands.",
    ]
    for title, pictures in contents():
        lines += ["", f"## {title}"]
        for name, about, command, plot in pictures:
            plot(file=OUT / name, endings=("png",))
            for ground in ("", "-dark"):
                file = OUT / f"{name}{ground}.png"
                file.write_bytes(shrink(file.read_bytes()))
            lines += [
                "",
                f"{about[0].upper()}{about[1:]}: `{command}`",
                "",
                f'<picture><source media="(prefers-color-scheme: dark)" srcset="gallery/{name}-dark.png">',
                f'<img src="gallery/{name}.png" alt="{about}"></picture>',
            ]
            print(f"{time.time() - start:6.1f} s  {name}", file=sys.stderr)
        for name, about in FILMS.get(title, {}).items():
            lines += ["", f"As a film, {about}: ![{about}](gallery/{name}.gif)"]
    lines += [
        "",
        "## Elsewhere",
        "",
        "Cells are drawn on [their pages](cells/README.md), decision trees and penalties under",
        "[tree regularization](tree-regularization.md), attention under",
        "[pairs](translate.md#five-ways-to-hand-over), units over text under [units](units.md).",
    ]
    (HERE / "gallery.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{time.time() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
