"""Event logs: columns found, cases in order, times read, and files that are wrong refused by row."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from recurra.data.events import read_log, time_features
from recurra.errors import DataError

ROWS = """Case ID,Activity,Complete Timestamp,Resource
b,open,2020-01-01 10:00:00,Ann
a,open,2020-01-01 09:00:00,Bob
b,close,2020-01-03 10:00:00,Ann
b,check,2020-01-02 10:00:00,
a,close,2020-01-01 09:30:00,Bob
"""
XES = """<?xml version="1.0"?>
<log xmlns="http://www.xes-standard.org/"><string key="concept:name" value="the log"/>
<global scope="event"><string key="concept:name" value="unknown"/></global>
<trace><string key="concept:name" value="b"/>
<event><string key="org:role" value="r"><string key="concept:name" value="no"/></string><string key="concept:name" value="open"/>
<date key="time:timestamp" value="2020-01-01T10:00:00.000+00:00"/></event>
<event><string key="concept:name" value="close"/><date key="time:timestamp" value="2020-01-03T11:00:00.000+01:00"/></event>
</trace>
<trace><event><string key="concept:name" value="open"/><date key="time:timestamp" value="2020-01-01T09:00:00Z"/></event></trace>
</log>
"""


def write(folder: Path, text: str, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_cases_come_as_first_named_and_events_by_time(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, ROWS), attributes=["Resource"])
    assert [case.name for case in log.cases] == ["b", "a"]
    assert log.cases[0].activities == ["open", "check", "close"]
    assert log.cases[0].attributes == {"Resource": ["Ann", "", "Ann"]}
    assert log.cases[0].times is not None
    assert np.diff(log.cases[0].times).tolist() == [86400, 86400]
    assert log.columns == {"case": "Case ID", "activity": "Activity", "time": "Complete Timestamp"}
    assert log.events == 5


def test_gzip_other_separators_and_named_columns(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"who;what\n1;x\n2;y\n1;z\n"))
    log = read_log(path, case="who", activity="what")
    assert [case.activities for case in log.cases] == [["x", "z"], ["y"]]
    assert log.cases[0].times is None
    assert log.columns["time"] is None


def test_xes_is_read_with_zones_and_nameless_traces(tmp_path: Path) -> None:
    log = read_log(write(tmp_path, XES, "log.xes"))
    assert [case.name for case in log.cases] == ["b", "trace 2"]
    assert log.cases[0].activities == ["open", "close"]
    assert log.cases[0].times is not None
    assert np.diff(log.cases[0].times).tolist() == [2 * 86400]


@pytest.mark.parametrize(
    "moment",
    [
        "03-04-2012 16:55:38",
        "03/04/2012 16:55",
        "2012/04/03 16:55:38",
        "1333472138",
        "20120403T165538",
        "2012-04-03T16:55:38Z",
    ],
)
def test_moments_in_many_forms(tmp_path: Path, moment: str) -> None:
    (case,) = read_log(write(tmp_path, f"case,activity,time\n1,x,{moment}\n")).cases
    assert case.times is not None
    assert abs(float(case.times[0]) - 1333472138) <= 38


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("case,activity,time\n1,x,2012-04-03\n1,y,soon\n", "row 3: 'soon' is no time"),
        ("case,activity,time\n1,x,nan\n", "row 2: 'nan' is no time"),
        ("case,activity\n1,\n", "row 2: the activity is empty"),
        ("case,activity\n1,x,3\n", "line 2: 3 cells, but there are 2 columns"),
        ("who,what\n1,x\n", "no column that looks like the case"),
        ("case,activity\n", "has no events"),
        ("", "has 0 columns"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_log(write(tmp_path, text))


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no file"):
        read_log(tmp_path / "none.csv")
    with pytest.raises(DataError, match="not readable as XES"):
        read_log(write(tmp_path, "<log><trace>", "log.xes"))
    with pytest.raises(DataError, match=r"no column 'Resorce'.*Resource"):
        read_log(write(tmp_path, ROWS), attributes=["Resorce"])


def test_features_of_time() -> None:
    features = time_features(np.array([0.0, 3600.0, 86400.0]))
    assert features[:, 0] == pytest.approx(np.log1p([0, 3600, 82800]))
    assert features[:, 1] == pytest.approx(np.log1p([0, 3600, 86400]))
    assert features[0, 2:4] == pytest.approx(features[2, 2:4], abs=1e-9)  # the same hour of another day
    assert not np.allclose(features[0, 4:6], features[2, 4:6])
    assert features[2, 6] == pytest.approx(1 / 365.25)
