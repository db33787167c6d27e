"""What a network sees, and in which order: nothing twice, nothing lost, and the same again after a stop."""

from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recurra.data.batches import Batch, Chunks, Generated, Sequences
from recurra.errors import DataError, OptionError


def make_sequences(count, longest, seed=0):
    """Sequences whose tokens say where they come from: number · 1000 + place + 1, so that no token is a zero of padding."""
    random = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, longest + 1, (count,), generator=random).tolist()
    return [torch.arange(size) + 1000 * k + 1 for k, size in enumerate(sizes)]


def take(batches, count):
    return [batches.next() for _ in range(count)]


def assert_equal(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.targets, other.targets)
        assert (one.lengths is None) == (other.lengths is None)
        assert one.lengths is None or torch.equal(one.lengths, other.lengths)
        assert one.fresh == other.fresh


def assert_joined(parts, whole):
    """The rows of all ranks, one after the other, are the rows of one."""
    for name in ("inputs", "targets", "lengths"):
        rows = [getattr(part, name) for part in parts]
        if getattr(whole, name) is None:
            assert rows == [None] * len(rows)
        else:
            assert torch.equal(torch.cat(rows), getattr(whole, name))
    assert {part.fresh for part in parts} == {whole.fresh}


def true_rows(batch, name):
    rows = getattr(batch, name)
    lengths = [rows.shape[1]] * len(rows) if batch.lengths is None else batch.lengths.tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def streams(**options):
    """One of each kind, with several epochs' worth of steps."""
    return [
        Chunks(torch.arange(1, 200), 6, 5, seed=3, **options),
        Sequences(make_sequences(45, 12), 6, seed=3, **options),
    ]


@given(
    N=st.integers(30, 120),
    batch_size=st.integers(1, 4),
    length=st.integers(1, 7),
    shuffle=st.booleans(),
    seed=st.integers(-(2**70), 2**70),
)
def test_streams_are_continuous_parts_of_the_text(N, batch_size, length, shuffle, seed):
    streams = Chunks(torch.arange(N), batch_size, length, shuffle=shuffle, seed=seed)
    for epoch in range(3):
        batches = take(streams, streams.steps_per_epoch)
        assert [batch.fresh for batch in batches] == [True] + [False] * (len(batches) - 1)
        assert all(batch.inputs.shape == (batch_size, length) and batch.lengths is None for batch in batches)
        assert (streams.epoch, streams.step) == (epoch, streams.steps_per_epoch)
        inputs = torch.cat([batch.inputs for batch in batches], dim=1)
        targets = torch.cat([batch.targets for batch in batches], dim=1)
        starts = inputs[:, 0]
        # the text counts from 0, so that continuous means one more each time
        assert torch.equal(inputs, starts[:, None] + torch.arange(inputs.shape[1]))
        assert torch.equal(targets, inputs + 1)
        assert targets.max() < N
        assert 0 <= starts[0] < (length if shuffle else 1)
        assert len(torch.unique(inputs)) == inputs.numel(), "two streams share a token"
        assert N - inputs.numel() <= 2 * batch_size * length + length, "too much is left out"


def test_every_offset_comes_up_and_changes_with_epoch_and_seed():
    def offsets(seed):
        streams = Chunks(torch.arange(100), 2, 8, seed=seed)
        return [int(streams.next().inputs[0, 0]) for _ in range(streams.steps_per_epoch * 60)][
            :: streams.steps_per_epoch
        ]

    assert set(offsets(0)) == set(range(8))
    assert offsets(0) == offsets(0) != offsets(1)


def test_a_text_with_room_for_one_chunk_only():
    for shuffle in (False, True):
        streams = Chunks(torch.arange(41), 4, 10, shuffle=shuffle)
        assert streams.steps_per_epoch == 1
        assert torch.equal(streams.next().inputs.flatten(), torch.arange(40))
        assert torch.equal(streams.next().targets.flatten(), torch.arange(1, 41))
        assert streams.epoch == 1


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_text_that_is_too_short_to_train_on(shuffle):
    streams = Chunks(torch.arange(40), 4, 10, shuffle=shuffle)
    for ask in (streams.next, lambda: streams.steps_per_epoch):
        with pytest.raises(DataError, match=r"4 streams of 10 steps needs .* at least 41 tokens; this one has 40"):
            ask()
    assert sum(batch.tokens for batch in streams.one_pass()) == 39


def test_a_view_of_a_longer_text():
    """The streams are cut from memory by place: a text that is part of another, or of fewer bits, is still itself."""
    for text in (torch.arange(300)[100:200], torch.arange(100, 300, 2), torch.arange(100, 220, dtype=torch.int32)):
        streams = Chunks(text, 3, 4, shuffle=False)
        assert torch.equal(streams.next().inputs[0], text[:4].long())
        assert streams.next().targets.dtype == torch.int64


@given(N=st.integers(2, 60), batch_size=st.integers(1, 5), length=st.integers(1, 70))
def test_one_pass_over_streams_counts_each_target_once(N, batch_size, length):
    streams = Chunks(torch.arange(N) + 1, batch_size, length)
    batches = list(streams.one_pass())
    assert [batch.fresh for batch in batches] == [True] + [False] * (len(batches) - 1)
    assert sum(batch.tokens for batch in batches) == N - 1
    assert all(batch.inputs.shape[1] <= length for batch in batches)
    found = []
    for stream in range(batch_size):
        inputs = torch.cat([true_rows(batch, "inputs")[stream] for batch in batches])
        targets = torch.cat([true_rows(batch, "targets")[stream] for batch in batches])
        assert torch.equal(targets, inputs + 1), "a stream goes on where it stopped"
        found.append(targets)
    assert torch.equal(torch.cat(found), torch.arange(2, N + 1))
    for batch in batches:
        if batch.lengths is not None:
            outside = torch.arange(batch.inputs.shape[1]) >= batch.lengths[:, None]
            assert not batch.inputs[outside].any()
            assert not batch.targets[outside].any()
        # so that state carried over a row of length 0 is only ever at the end of a stream
        assert batch is batches[-1] or batch.lengths is None or length == batch.inputs.shape[1]


def test_one_pass_with_one_stream_is_the_text():
    batches = list(Chunks(torch.arange(10), 1, 4).one_pass())
    assert [batch.inputs.tolist() for batch in batches] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8]]]
    assert [batch.targets.tolist() for batch in batches] == [[[1, 2, 3, 4]], [[5, 6, 7, 8]], [[9]]]
    with pytest.raises(DataError, match="at least 2 tokens; this one has 1"):
        next(Chunks(torch.tensor([5]), 1, 4).one_pass())


def test_one_pass_leaves_the_place_alone():
    for batches, same in zip(streams(), streams(), strict=True):
        take(batches, 3)
        list(batches.one_pass())
        take(same, 3)
        assert_equal(take(batches, 5), take(same, 5))
        assert_equal(list(batches.one_pass()), list(same.one_pass()))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 4, 6, 8, 13])
def test_resuming_goes_on_as_if_nothing_had_happened(steps, shuffle):
    for batches, fresh in zip(streams(shuffle=shuffle), streams(shuffle=shuffle), strict=True):
        take(batches, steps)
        saved = batches.state_dict()
        assert all(type(value) is int for value in saved.values())
        expected = take(batches, 15)
        take(fresh, 2)
        fresh.load_state_dict(saved)
        assert fresh.state_dict() == saved
        assert_equal(take(fresh, 15), expected)


def test_a_place_may_be_taken_up_by_another_number_of_ranks():
    for whole, half in zip(streams(), streams(rank=1, world=2), strict=True):
        take(whole, 4)
        half.load_state_dict(whole.state_dict())
        assert torch.equal(half.next().inputs, whole.next().inputs[3:])


def test_a_place_in_other_data_is_refused():
    saved = Chunks(torch.arange(100), 4, 5, seed=1).state_dict()
    with pytest.raises(
        DataError, match=r"taken with symbols=100, length=5, but there is symbols=90, length=6 now\. Resume with"
    ):
        Chunks(torch.arange(90), 4, 6, seed=1).load_state_dict(saved)
    with pytest.raises(DataError, match="has no examples"):
        Sequences(make_sequences(9, 9), 2).load_state_dict(saved)
    other = Sequences(make_sequences(9, 9), 4, seed=1)
    with pytest.raises(DataError, match="seed=1, but there is seed=2"):
        Sequences(make_sequences(9, 9), 4, seed=2).load_state_dict(other.state_dict())


@given(
    world=st.integers(1, 4),
    rows=st.integers(1, 3),
    length=st.integers(1, 6),
    N=st.integers(2, 90),
    shuffle=st.booleans(),
)
def test_streams_of_all_ranks_are_those_of_one(world, rows, length, N, shuffle):
    def build(**options):
        return Chunks(torch.arange(N) + 1, world * rows, length, seed=5, shuffle=shuffle, **options)

    whole, ranks = build(), [build(rank=rank, world=world) for rank in range(world)]
    if world * rows * length < N:
        for _ in range(2 * whole.steps_per_epoch + 1):
            assert_joined([rank.next() for rank in ranks], whole.next())
    for *parts, one in zip(*(rank.one_pass() for rank in ranks), whole.one_pass(), strict=True):
        assert_joined(parts, one)


@given(world=st.integers(1, 5), batch_size=st.integers(1, 7), count=st.integers(1, 30), shuffle=st.booleans())
def test_sequences_of_all_ranks_are_those_of_one(world, batch_size, count, shuffle):
    def build(**options):
        return Sequences(make_sequences(count, 9), batch_size, seed=5, shuffle=shuffle, **options)

    whole, ranks = build(), [build(rank=rank, world=world) for rank in range(world)]
    for _ in range(2 * whole.steps_per_epoch + 1):
        parts, one = [rank.next() for rank in ranks], whole.next()
        assert_joined(parts, one)
        shares = [len(part.inputs) for part in parts]
        assert max(shares) - min(shares) <= 1
        assert {part.inputs.shape[1] for part in parts} == {one.inputs.shape[1]}
    for *parts, one in zip(*(rank.one_pass() for rank in ranks), whole.one_pass(), strict=True):
        assert_joined(parts, one)


def test_a_rank_without_rows_has_an_empty_batch():
    batch = Sequences(make_sequences(2, 9), 2, rank=2, world=3).next()
    assert batch.inputs.shape[0] == 0
    assert batch.inputs.shape[1] > 0
    assert batch.targets.shape == batch.inputs.shape
    assert batch.lengths.shape == (0,)
    assert batch.tokens == 0


@given(count=st.integers(1, 40), batch_size=st.integers(1, 9), shuffle=st.booleans())
def test_every_sequence_comes_once_in_each_epoch_and_whole(count, batch_size, shuffle):
    sequences = make_sequences(count, 9)
    batches = Sequences(sequences, batch_size, shuffle=shuffle, seed=-1)
    assert batches.steps_per_epoch == -(-count // batch_size)
    passes = [take(batches, batches.steps_per_epoch) for _ in range(2)] + [list(batches.one_pass())]
    for batches in passes:
        found = {}
        for batch in batches:
            assert batch.fresh
            assert 1 <= len(batch.inputs) <= batch_size
            assert batch.lengths.max() == batch.inputs.shape[1]
            outside = torch.arange(batch.inputs.shape[1]) >= batch.lengths[:, None]
            assert not batch.inputs[outside].any()
            assert not batch.targets[outside].any()
            for inputs, targets in zip(true_rows(batch, "inputs"), true_rows(batch, "targets"), strict=True):
                assert torch.equal(inputs[1:], targets[:-1])
                found[int(inputs[0]) // 1000] = torch.cat([inputs[:1], targets])
        assert len(found) == count
        assert all(torch.equal(found[k], sequence) for k, sequence in enumerate(sequences))
        assert sum(len(batch.inputs) < batch_size for batch in batches) <= 1
        assert sum(batch.tokens for batch in batches) == sum(len(sequence) - 1 for sequence in sequences)


def padding(batches):
    return 1 - sum(batch.tokens for batch in batches) / sum(batch.targets.numel() for batch in batches)


def test_short_sequences_meet_others_of_every_length():
    batches = Sequences(make_sequences(2000, 12), 32)
    batches = take(batches, batches.steps_per_epoch)
    assert sum(len(batch.lengths.unique()) > 3 for batch in batches) > 0.9 * len(batches)


def test_similar_lengths_together_waste_little():
    sequences = make_sequences(2000, 600)
    batches = Sequences(sequences, 32)
    in_order = [sequences[k : k + 32] for k in range(0, len(sequences), 32)]
    wasted = 1 - sum(len(s) - 1 for s in sequences) / sum(
        len(some) * (max(len(s) for s in some) - 1) for some in in_order
    )
    assert wasted > 0.4, "the lengths differ enough for the test to mean something"
    assert padding(take(batches, batches.steps_per_epoch)) < 0.08
    assert padding(list(batches.one_pass())) < 0.03


def test_each_epoch_mixes_sequences_and_batches():
    batches = Sequences(make_sequences(500, 60), 10)
    first, second = take(batches, batches.steps_per_epoch), take(batches, batches.steps_per_epoch)
    together = [{frozenset((batch.inputs[:, 0] // 1000).tolist()) for batch in batches} for batches in (first, second)]
    assert len(together[0] & together[1]) < 3
    widths = [batch.inputs.shape[1] for batch in first]
    assert widths != sorted(widths)
    assert widths[:5] != sorted(widths)[:5]
    still = Sequences(make_sequences(500, 60), 10, shuffle=False)
    assert_equal(take(still, still.steps_per_epoch), take(still, still.steps_per_epoch))
    assert_equal(take(still, still.steps_per_epoch), list(still.one_pass()))


def test_the_small_batch_is_not_always_the_longest_or_the_shortest():
    batches = Sequences(make_sequences(41, 60), 10)
    widths = set()
    for _ in range(30):
        widths |= {batch.inputs.shape[1] for batch in take(batches, batches.steps_per_epoch) if len(batch.inputs) == 1}
    assert len(widths) > 3


def test_tokens_are_true_targets():
    ids = torch.ones(3, 4, dtype=torch.int64)
    assert Batch(ids, ids, None, True).tokens == 12
    assert Batch(ids, ids, torch.tensor([4, 0, 1]), True).tokens == 5


@pytest.mark.parametrize(
    ("build", "error", "expected"),
    [
        (
            lambda: Chunks(torch.arange(99), 6, 5, world=4),
            OptionError,
            "batch_size=6 .* by 4 ranks. Make it a multiple of 4",
        ),
        (lambda: Chunks(torch.arange(99), 0, 5), OptionError, "batch_size must be at least 1; got 0"),
        (lambda: Chunks(torch.arange(99), 1, 0), OptionError, "length must be at least 1; got 0"),
        (lambda: Chunks(torch.arange(99), 2, 5, rank=2, world=2), OptionError, "got rank=2, world=2"),
        (lambda: Chunks(torch.zeros(3, 33), 2, 5), DataError, r"one axis; got \[3, 33\] of torch.float32"),
        (lambda: Sequences([], 2), DataError, "there is no sequence"),
        (lambda: Sequences([torch.arange(3), torch.arange(1)], 2), DataError, r"number 1 has 1 \(1 are too short"),
        (lambda: Sequences([torch.zeros(3)], 2), DataError, r"one axis; got \[3\] of torch.float32"),
    ],
)
def test_what_cannot_be_built(build, error, expected):
    with pytest.raises(error, match=expected):
        build()


def test_the_stream_never_ends():
    for batches in streams():
        list(islice(iter(batches.next, None), 50))
        assert batches.epoch == 49 // batches.steps_per_epoch
        assert batches.step == 50 - batches.epoch * batches.steps_per_epoch


def make_numbers(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Numbers that the seed decides; the last step counts, and in every other sequence the first one too."""
    random = torch.Generator().manual_seed(seed)
    scored = torch.zeros(count, 5)
    scored[:, -1] = scored[::2, 0] = 1
    return torch.rand(count, 5, 2, generator=random), torch.rand(count, 5, 1, generator=random), scored


def make_tokens(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    ids = torch.randint(9, (count, 4), generator=torch.Generator().manual_seed(seed))
    return ids, ids.flip(1), None


@pytest.mark.parametrize("make", [make_numbers, make_tokens])
class TestGenerated:
    def test_the_same_seed_gives_the_same_batches(self, make) -> None:
        one, two, other = (take(Generated(make, 6, 4, seed=seed), 10) for seed in (3, 3, 4))
        assert_equal(one, two)
        assert not any(torch.equal(a.inputs, b.inputs) for a, b in zip(one, other, strict=True))
        assert all(batch.fresh for batch in one)

    def test_every_batch_of_training_is_new(self, make) -> None:
        seen = take(Generated(make, 6, 4, seed=3), 12)
        assert len({tuple(batch.inputs.flatten().tolist()) for batch in seen}) == 12

    def test_ranks_together_make_the_whole_batch(self, make) -> None:
        for world in (2, 4, 9):
            whole = Generated(make, 6, 4, seed=3)
            parts = [Generated(make, 6, 4, seed=3, rank=rank, world=world) for rank in range(world)]
            for _ in range(5):
                full, shares = whole.next(), [part.next() for part in parts]
                assert_joined(shares, full)
                assert {part.all_rows for part in shares} == {6}
                assert {part.all_tokens for part in shares} == {full.tokens}
                assert sum(part.tokens for part in shares) == full.tokens
                if full.scored is not None:
                    assert torch.equal(torch.cat([part.scored for part in shares]), full.scored)

    def test_the_place_is_saved_and_restored(self, make) -> None:
        batches = Generated(make, 6, 4, seed=3)
        take(batches, 6)
        place = batches.state_dict()
        expected = take(batches, 7)
        for rank, world in ((0, 1), (1, 2)):
            again = Generated(make, 6, 4, seed=3, rank=rank, world=world)
            again.load_state_dict(place)
            found = take(again, 7)
            if world == 1:
                assert_equal(found, expected)
            else:
                assert all(torch.equal(a.inputs, b.inputs[3:]) for a, b in zip(found, expected, strict=True))
        with pytest.raises(DataError, match=r"batches=4.*batches=5"):
            Generated(make, 6, 5, seed=3).load_state_dict(place)

    def test_one_pass_never_changes_and_leaves_the_place_alone(self, make) -> None:
        batches = Generated(make, 6, 4, seed=3)
        first = list(batches.one_pass())
        assert len(first) == batches.steps_per_epoch == 4
        before = take(batches, 6)
        assert_equal(list(batches.one_pass()), first)
        assert batches.state_dict()["step"] == 2
        fresh = Generated(make, 6, 4, seed=3)
        assert_equal(take(fresh, 6), before)


@pytest.mark.parametrize("seed", [0, 1, 2**31])
def test_long_seeds_of_generated_data_share_nothing_with_short_ones(seed: int) -> None:
    """Held-out data has a seed of its own, past 32 bits: none of its batches is one of training, whatever the epoch."""
    drawn: list[set[int]] = []
    for other in (seed, seed + 2**32, seed + 2**32 + 1):
        seeds: set[int] = set()
        batches = Generated(
            lambda count, number, seeds=seeds: seeds.add(number) or make_tokens(count, 0), 1, 3, seed=other
        )
        take(batches, 12)
        assert len(seeds) == 12
        drawn.append(seeds)
    assert not drawn[0] & drawn[1]
    assert not drawn[0] & drawn[2]
    assert not drawn[1] & drawn[2]


def test_tokens_are_those_that_count() -> None:
    batch = Generated(make_numbers, 6, 4).next()
    assert batch.tokens == 9
    ids = torch.ones(2, 3, dtype=torch.int64)
    assert Batch(ids, ids, None, True, scored=torch.tensor([[0.5, 0, 2], [0, 0, 0]])).tokens == 2
