"""Automata by name, for lectures: Tomita's languages, brackets, parity."""

from __future__ import annotations

from recurra.analysis.automata.finite import Moore
from recurra.data.formal import FormalLanguage, dyck, tomita
from recurra.errors import OptionError


def machine_of(language: FormalLanguage) -> Moore:
    """The automaton of a formal language."""
    return Moore(language.symbols, language.after, tuple(language.classes[k] for k in language.outputs))


def find_machine(name: str) -> Moore:
    """`tomita:1` to `tomita:7`, `dyck:DEPTH` (two kinds of brackets) or `parity`."""
    kind, _, number = name.partition(":")
    if kind == "parity" and not number:
        return Moore(("0", "1"), ((0, 1), (1, 0)), ("even", "odd"))
    if kind == "tomita" and number in tuple("1234567"):
        return machine_of(tomita(int(number)))
    if kind == "dyck" and number.isdecimal() and 1 <= int(number) <= 6:
        return machine_of(dyck(2, int(number)))
    raise OptionError(f"language {name!r} does not exist. Known: tomita:1 to tomita:7, dyck:1 to dyck:6, parity.")
