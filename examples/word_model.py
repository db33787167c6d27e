"""A word model in the manner of AWD-LSTM (Merity et al. 2018), in a loop of one's own: three layers of different sizes, dropout
of recurrent weights, mixed precision, a state that is carried from chunk to chunk, accumulated gradients, and plain checkpoints.

    python word_model.py                                                         # the help topics of Python, on the CPU
    python word_model.py --data corpus.txt --sizes 1152 1152 400 --device cuda --steps 20000 --compile
"""

import argparse
import math
import re
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import torch
from torch import nn

import recurra as rc


class WordModel(nn.Module):
    """Words to the logits of the next word; the matrix of the embedding is that of the output."""

    def __init__(self, words, sizes, dropout, weight_dropout):
        super().__init__()
        self.embedding = nn.Embedding(words, sizes[-1])
        self.drop = nn.Dropout(dropout)
        self.recurrent = rc.Recurrent("lstm", sizes[-1], sizes, dropout=dropout, weight_dropout=weight_dropout)
        self.output = nn.Linear(sizes[-1], words)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.output.weight = self.embedding.weight

    def forward(self, tokens, state=None):
        trace = self.recurrent(self.drop(self.embedding(tokens)), state)
        return self.output(self.drop(trace.outputs)), trace.final


def read_words(path):
    """A text as numbers of words, in order; words that are rare are one."""
    text = Path(path).read_text() if path else " ".join(topics[name] for name in sorted(topics))
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    counts = Counter(words)
    numbers = {word: k for k, word in enumerate(sorted(word for word in counts if counts[word] > 5), 1)}
    return torch.tensor([numbers.get(word, 0) for word in words]), len(numbers) + 1


def in_streams(tokens, rows):
    """`[B, T]`: as many streams, each a part of the text."""
    return tokens[: len(tokens) // rows * rows].view(rows, -1)


def loss_of(model, chunk, state):
    logits, state = model(chunk[:, :-1], state)
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), chunk[:, 1:].flatten()), rc.detach(state)


@torch.no_grad()
def perplexity(model, streams, length, autocast):
    model.eval()
    state, total, count = None, 0.0, 0
    for chunk in streams.unfold(1, length + 1, length).unbind(1):
        with autocast():
            loss, state = loss_of(model, chunk, state)
        total, count = total + float(loss), count + 1
    model.train()
    return math.exp(total / count)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="a text; the help topics of Python otherwise")
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 128, 64])
    parser.add_argument("--steps", type=int, default=300, help="updates")
    parser.add_argument("--rows", type=int, default=16, help="streams that are read side by side")
    parser.add_argument("--length", type=int, default=35, help="words of a chunk, over which gradients flow back")
    parser.add_argument("--accumulate", type=int, default=2, help="chunks of one update")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument(
        "--checkpoint", type=Path, default=Path("word_model.pt"), help="where it goes on from, and is kept"
    )
    options = parser.parse_args()

    torch.manual_seed(0)
    tokens, words = read_words(options.data)
    held_out = len(tokens) // 20
    streams = in_streams(tokens[:-held_out], options.rows).to(options.device)
    validation = in_streams(tokens[-held_out:], 4).to(options.device)
    model = WordModel(words, options.sizes, dropout=0.1, weight_dropout=0.2).to(options.device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    made = 0
    if options.checkpoint.exists():
        kept = torch.load(options.checkpoint, map_location=options.device, weights_only=True)
        model.load_state_dict(kept["model"])  # by the names of the cell's equations
        optimiser.load_state_dict(kept["optimiser"])
        made = kept["step"]
        print(f"goes on after step {made}")
    run = torch.compile(model) if options.compile else model

    def autocast():
        return torch.autocast(options.device, torch.bfloat16)

    chunks = streams.unfold(1, options.length + 1, options.length).unbind(1)
    state, place = None, 0
    for step in range(made + 1, made + options.steps + 1):
        total = 0.0
        for _ in range(options.accumulate):
            if place == 0:
                state = None  # the text begins anew
            with autocast():
                loss, state = loss_of(run, chunks[place], state)
            (loss / options.accumulate).backward()
            total += float(loss.detach()) / options.accumulate
            place = (place + 1) % len(chunks)
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 50 == 0 or step == made + options.steps:
            found = perplexity(model, validation, options.length, autocast)
            print(f"step {step}: perplexity {math.exp(total):.1f}, on held-out words {found:.1f} of {words}")
            torch.save(
                {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, options.checkpoint
            )


if __name__ == "__main__":
    main()
