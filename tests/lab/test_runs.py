"""The view of all runs."""

from .browser import Visit


def test_the_runs_of_the_folder_are_listed(visit: Visit) -> None:
    page = visit.open("#/runs")
    page.get_by_role("link", name="text-lstm").wait_for()
    visit.check_all_looks()
