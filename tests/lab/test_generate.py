"""Generate: samples as they are written, the beam, attention, forecasts."""

from pathlib import Path

import recurra as rc

from .browser import Visit


def test_a_sample_is_streamed(visit: Visit, runs: Path) -> None:
    page = visit.open("#/generate?run=text")
    page.get_by_label("Prime").fill("the ")
    page.get_by_label("Seed").fill("3")
    page.get_by_label("Tokens").fill("60")
    page.get_by_label("Top k").fill("5")
    page.get_by_role("button", name="Write").click()
    page.get_by_text("60 tokens in").wait_for()
    wanted = rc.open(runs / "text").sample("the ", 60, temperature=0.8, top_k=5, seed=3)
    assert page.locator("pre.sample").text_content() == str(wanted)
    assert "seed=3" in page.url
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    assert "<svg" in Path(saved.value.path()).read_text()

    page.get_by_label("Tokens").fill("100000")
    page.get_by_role("button", name="Write").click()
    page.wait_for_function("() => document.querySelector('pre.sample').textContent.length > 200")  # before the end
    page.get_by_role("button", name="Stop").click()
    page.wait_for_function("() => /^\\d+ tokens/.test(document.querySelector('[role=status]').textContent)")
    count = int(page.locator("[role=status]").first.inner_text().split()[0])
    assert 0 < count < 100_000
    visit.check_all_looks()


def test_what_cannot_be_read_is_one_line(visit: Visit) -> None:
    page = visit.open("#/generate?run=text")
    page.get_by_label("Prime").fill("§")
    page.get_by_role("button", name="Write").click()
    page.get_by_role("alert").get_by_text("§").wait_for()


def test_a_beam_is_a_tree_with_attention_beside_it(visit: Visit, runs: Path) -> None:
    page = visit.open("#/generate?run=dates")
    page.get_by_label("Text", exact=True).fill("4 May 2013")
    page.get_by_label("Width of the beam").fill("3")
    page.get_by_role("button", name="Translate").click()
    run = rc.open(runs / "dates")
    best = run.translate("4 May 2013", beam=3, n_best=3)
    page.locator(".answer").get_by_text(best.text, exact=True).wait_for()
    tree = run.beam("4 May 2013", 3)
    page.wait_for_function("n => document.querySelectorAll('.twig').length === n", arg=len(tree.nodes))
    assert page.locator(".twig.best").count() == sum(node.is_best for node in tree.nodes)
    assert page.get_by_role("application").count() == 1
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    assert "<svg" in Path(saved.value.path()).read_text()
    visit.check_all_looks()


def test_a_forecast_has_its_interval(visit: Visit, runs: Path) -> None:
    page = visit.open("#/generate?run=wave")
    page.get_by_label("Steps ahead").fill("12")
    page.get_by_role("button", name="Forecast").click()
    page.wait_for_url("**steps=12*")
    page.locator(".curves canvas").wait_for()
    page.get_by_text("upper bound of 90 %").wait_for()
    page.wait_for_load_state("networkidle")
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    assert Path(saved.value.path()).read_text().count("\n") == 13
    visit.check_all_looks()


def test_a_run_that_generates_nothing_says_what_it_can(visit: Visit) -> None:
    page = visit.open("#/generate?run=machine")
    page.get_by_text("It can: evaluate").wait_for()
