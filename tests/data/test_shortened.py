"""Some of many documents: about as much as was asked for, and always the same ones."""

import pytest

from recurra.data.text import Document, shortened

DOCUMENTS = [Document(f"{k}.txt", "x" * (50 + 7 * (k % 30))) for k in range(200)]


def size(documents: list[Document]) -> int:
    return sum(len(document.text) for document in documents)


@pytest.mark.parametrize("limit", [300, 2000, 10_000])
def test_about_as_many_characters_as_asked_for_and_no_more(limit: int) -> None:
    found = shortened(DOCUMENTS, limit)
    assert limit - 60 < size(found) <= limit


def test_whole_documents_in_the_order_in_which_they_came() -> None:
    found = shortened(DOCUMENTS, 5000)
    places = [DOCUMENTS.index(document) for document in found]
    assert places == sorted(set(places))


def test_they_come_from_everywhere() -> None:
    places = [DOCUMENTS.index(document) for document in shortened(DOCUMENTS, 5000)]
    assert min(places) < 30
    assert max(places) > 170


def test_the_seed_and_the_names_choose() -> None:
    assert shortened(DOCUMENTS, 3000) == shortened(DOCUMENTS, 3000)
    assert shortened(DOCUMENTS, 3000, seed=1) != shortened(DOCUMENTS, 3000)
    backwards = shortened(DOCUMENTS[::-1], 3000)
    assert {document.name for document in backwards} == {document.name for document in shortened(DOCUMENTS, 3000)}


def test_there_is_always_one() -> None:
    assert len(shortened(DOCUMENTS, 1)) == 1


def test_a_limit_past_all_of_it_keeps_all_of_it() -> None:
    assert shortened(DOCUMENTS, size(DOCUMENTS)) == DOCUMENTS
