"""The page: sections of figures, each with its meaning, its caveat and its command, in one file that needs nothing else."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from recurra import __version__
from recurra.plots.units import SHADES, UNDERLINE


@dataclass(frozen=True)
class Figure:
    """A picture, table or text as HTML, and what a reader needs to know about it.

    - `meaning`: what it shows, in a line. `caveat`: what it does not show. `command`: what made it, or makes more of it.
    """

    body: str
    meaning: str
    caveat: str
    command: str


@dataclass(frozen=True)
class Section:
    title: str
    figures: Sequence[Figure]
    lead: str = ""


def render(title: str, lead: str, sections: Sequence[Section], left_out: dict[str, str] | None = None) -> str:
    """The whole page. `left_out`: sections that could not be made, with the reason."""
    notes = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in (left_out or {}).items())
    page = Template(files("recurra.report").joinpath("page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=escape(title),
        lead=escape(lead),
        links="".join(f'<a href="#{_anchor(each.title)}">{escape(each.title)}</a> ' for each in sections),
        sections="\n".join(_section(each) for each in sections),
        notes=f"<details><summary>What is left out, and why</summary><ul>{notes}</ul></details>" if notes else "",
        shades=f"{SHADES}\n{UNDERLINE}",
        version=__version__,
    )


def escape(text: str) -> str:
    return html.escape(text)


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _section(section: Section) -> str:
    lead = f'<p class="lead">{escape(section.lead)}</p>' if section.lead else ""
    figures = "\n".join(
        f'<figure>{each.body}<figcaption><p class="meaning">{escape(each.meaning)}</p>'
        f'<p class="caveat">{escape(each.caveat)}</p>'
        f'<p class="command"><code>{escape(each.command)}</code></p></figcaption></figure>'
        for each in section.figures
    )
    anchor = _anchor(section.title)
    return (
        f'<section aria-labelledby="{anchor}"><h2 id="{anchor}">{escape(section.title)}</h2>{lead}{figures}</section>'
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Numbers stand to the right, and short words on one line."""
    kinds = [_kind([row[k] for row in rows]) for k in range(len(columns))]
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(columns, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _kind(cells: Sequence[str]) -> str:
    if cells and all(_NUMBER.fullmatch(cell) for cell in cells):
        return ' class="number"'
    return ' class="short"' if max(map(len, cells), default=0) <= 20 else ""


_NUMBER = re.compile(r"[-+−]?[\d.,]*(e[-+]?\d+)?%?|—|nan|inf")


def text_block(text: str) -> str:
    return f'<pre tabindex="0">{escape(text)}</pre>'


def picture(file: Path, alt: str) -> str:
    """A picture that was drawn on both grounds (`NAME.svg`, `NAME-dark.svg`): the one that the reader's machine asks for."""
    light, dark = (
        base64.b64encode(file.with_name(f"{file.name}{ground}.svg").read_bytes()).decode() for ground in ("", "-dark")
    )
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="data:image/svg+xml;base64,{dark}">'
        f'<img src="data:image/svg+xml;base64,{light}" alt="{escape(alt)}"></picture>'
    )
