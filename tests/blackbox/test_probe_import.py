"""`claret probe import`: what other programs measured, good and bad; what cannot be used is named and
counted, and memory does not grow with the file."""

import json
import os
import subprocess

import pytest
from harness import binary, probe, probe_document

# A second of 2023-11-14.
NOW = 1_700_000_000
NODES = "abc"


def calls(seconds, ms=1.5):
    """A line for every pair in each second."""
    return [f"{NOW + s},{src},{dst},{ms}" for s in range(seconds) for src in NODES for dst in NODES]


def imported(folder, text, *flags):
    """What import says of a file with this text, and the data that came of it."""
    csv, data = folder / "calls.csv", folder / "data"
    csv.write_bytes(text if isinstance(text, bytes) else text.encode())
    return probe_document("import", csv, "--dir", data, *flags), data


def test_a_good_file_is_taken_over_whatever_its_columns_are_called(tmp_path):
    lines = ["\ufefflatency_us;to;from;timestamp;note"]
    lines += [f'1500;"b";"a";{NOW + s};"semi;colon"' for s in range(40)] + [f";a;b;{NOW};"]
    told, data = imported(tmp_path, "\r\n".join(lines) + "\r\n", "--latency-unit", "us")
    assert told["rows"] == 41 and told["nodes"] == ["a", "b"] and told["days"] == 1
    assert told["excluded"] == {} and told["noticed"] == {}
    assert told["longest_gap"] == {"src": "a", "after_ns": NOW * 10**9, "seconds": 1.0}
    found = probe_document("analyze", data)
    assert found["data"]["origin"] == "imported"
    assert found["individual"]["completed_ns"]["p99"] == 1_500_000
    assert found["individual"]["no_reply"] == 1
    # A row is missing in every session: each caller called one of two members.
    assert found["excluded"] == {"files": [], "rows": {"incomplete_sessions": 41}}


BAD_LINES = [
    (f"{NOW},a", "fields_missing"),
    (f"{NOW},a,b", "fields_missing"),
    (f"{NOW},a,b,1,5", "more_fields_than_the_first_line"),
    (f"{NOW},\"a,b,1.5", "quote_not_closed"),
    ("soon,a,b,1.5", "time_not_a_number"),
    ("NaN,a,b,1.5", "time_out_of_range"),
    (f"{NOW}000000000000,a,b,1.5", "time_out_of_range"),
    ("-5,a,b,1.5", "time_before_1970"),
    (f"{NOW},a,b,fast", "latency_not_a_number"),
    (f"{NOW},a,b,NaN", "latency_not_finite"),
    (f"{NOW},a,b,inf", "latency_not_finite"),
    (f"{NOW},a,b,-0.5", "latency_negative"),
    (f"{NOW},a,b,1e9", "latency_above_429_s"),
    (f"{NOW},,b,1.5", "name_missing"),
    (f"{NOW},{'n' * 256},b,1.5", "name_too_long"),
    (f"{NOW},a,{'n' * 70_000},1.5", "line_too_long"),
    (f"{NOW},\udcff,b,1.5", "not_utf8"),
    (f"{NOW},a,b,9", "second_call_of_one_time"),
]


def test_every_line_that_means_nothing_is_counted_by_reason_and_shown(tmp_path):
    good = calls(30)
    text = "\n".join(["time,src,dst,latency", *good, *(line for line, _ in BAD_LINES)]) + "\n"
    told, data = imported(tmp_path, text.encode("utf-8", "surrogateescape"))
    expected = {}
    for _, reason in BAD_LINES:
        expected[reason] = expected.get(reason, 0) + 1
    assert told["excluded"] == expected
    assert told["rows"] == len(good) and told["nodes"] == list(NODES)
    shown = [(one["line"], one["reason"]) for one in told["first_excluded"]]
    assert shown == [(len(good) + 2 + at, reason) for at, (_, reason) in enumerate(BAD_LINES[:10])]
    found = probe_document("analyze", data)
    assert found["data"]["rows"] == len(good)
    assert found["individual"]["all_ns"]["p99"] == 1_500_000, "of two, the first is kept"
    # The same for people.
    done = probe("import", tmp_path / "calls.csv", "--dir", tmp_path / "again")
    for reason, count in expected.items():
        assert f"left out: {reason.replace('_', ' ')} {count}\n" in done.stdout
    assert f"calls.csv:{len(good) + 2}: {BAD_LINES[0][0]}\n" in done.stdout


def test_clocks_that_jump_and_seconds_that_are_missing_are_told(tmp_path):
    lines = [f"{NOW + s},a,{dst},1.5" for s in range(20) for dst in NODES]
    # The clock of b is set back by ten seconds, that of c goes ahead by an hour.
    lines += [f"{NOW + s - (10 if s >= 15 else 0)},b,a,1.5" for s in range(20)]
    lines += [f"{NOW + s + (3_600 if s >= 10 else 0)},c,a,1.5" for s in range(20)]
    told, data = imported(tmp_path, "\n".join(lines) + "\n")
    assert told["noticed"] == {"time_went_back": 1}
    # Five seconds of b come twice: the first call of each is kept.
    assert told["excluded"] == {"second_call_of_one_time": 5} and told["rows"] == len(lines) - 5
    gap = {"src": "c", "after_ns": (NOW + 9) * 10**9, "seconds": 3_601.0}
    assert told["longest_gap"] == gap
    said = probe("import", tmp_path / "calls.csv", "--dir", tmp_path / "again").stdout
    assert "used, but: time went back 1\n" in said
    assert f"longest time without a call: 3601 s, of c after {NOW + 9}.000\n" in said
    rows = probe_document("analyze", data)["excluded"]["rows"]
    assert rows == {"incomplete_sessions": 15 + 20}, "b and c did not call everybody"


def test_a_file_that_is_cut_is_told(tmp_path):
    whole = "\n".join(calls(3)) + "\n"
    told, _ = imported(tmp_path, whole[:-3])
    assert told["rows"] == 27 and told["noticed"] == {"last_line_without_end": 1}
    (tmp_path / "more").mkdir()
    told, _ = imported(tmp_path / "more", whole[:-7])
    assert told["rows"] == 26 and told["excluded"] == {"fields_missing": 1}


@pytest.mark.parametrize(
    "text, flags, said",
    [
        ("", (), "has no call"),
        ("time,src,dst,latency\n", (), "has no call"),
        (f"{NOW},a,b,x\n", (), "has no call; line 1: latency not a number"),
        (f"{NOW}000,a,b,1\n", (), "has no call; line 1: time out of range"),
        ("time,src,dst\n1,a,b\n", (), "no column latency"),
        ("time,from,ms\n1,a,2\n", (), "no column dst or latency"),
        (f"time,src,dst,rtt_us\n{NOW},a,b,2\n", (), "use --latency-unit us"),
        (f"time,src,dst,rtt_ms\n{NOW},a,b,2\n", ("--latency-unit", "us"), "use --latency-unit ms"),
        ("\0\xff" * 99_999, (), "has no call; line 1: line too long"),
    ],
)
def test_a_file_without_any_call_is_refused_by_name_and_leaves_nothing(tmp_path, text, flags, said):
    csv = tmp_path / "calls.csv"
    csv.write_text(text)
    done = probe("import", csv, "--dir", tmp_path / "data", *flags)
    assert done.returncode == 1 and done.stdout == ""
    assert str(csv) in done.stderr and said in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_folder_with_something_in_it_is_not_touched(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("mine")
    (tmp_path / "calls.csv").write_text("\n".join(calls(2)) + "\n")
    done = probe("import", tmp_path / "calls.csv", "--dir", tmp_path / "data")
    assert done.returncode == 1 and "is not empty" in done.stderr
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["mine"]


def test_files_that_are_cut_or_of_another_version_are_left_out_by_name(tmp_path):
    _, data = imported(tmp_path, "\n".join(calls(60)) + "\n")
    cut, other, whole = sorted(data.glob("rpc-*.parquet"))
    cut.write_bytes(cut.read_bytes()[:-100])
    changed = other.read_bytes().replace(b'"version":1,', b'"version":7,')
    assert changed != other.read_bytes()
    other.write_bytes(changed)
    (data / "rpc-x.unfinished").write_bytes(b"PAR1")
    found = probe_document("analyze", data)
    files = {one["file"]: (one["reason"], one["size_bytes"]) for one in found["excluded"]["files"]}
    assert files == {
        cut.name: ("cut_or_damaged", cut.stat().st_size),
        other.name: ("other_version", other.stat().st_size),
        "rpc-x.unfinished": ("unfinished", 4),
    }
    assert found["data"]["rows"] == 180 and found["data"]["caller_days"] == 1
    said = probe("analyze", data).stdout
    assert "format version 7; this build knows 1" in said and "not a complete Parquet file" in said
    told = probe_document("calibrate", data, "--target", "suspicion")["data"]
    assert {one["file"] for one in told["excluded"]["files"]} == set(files)
    whole.unlink()
    done = probe("analyze", data)
    assert done.returncode == 1 and "has no file with calls that can be read" in done.stderr


def matrix(folder, regions):
    """Round trips between places on a line, as ping says them; what is left out of them."""
    folder.mkdir()
    for source, x in regions.items():
        lines = []
        for target, y in regions.items():
            mean = 0.3 + abs(x - y)
            lines.append(f"{mean * 0.9:.3f}/{mean:.3f}/{mean * 1.5:.3f}/0.1:{target}")
        (folder / f"{source}.dat").write_text("\n".join(lines) + "\n")


def test_a_matrix_of_round_trips_is_imported_analysed_and_reported(tmp_path):
    # Two continents of four regions.
    regions = {f"{land}-{n}": at + 9 * n for land, at in (("east", 0), ("west", 120)) for n in range(4)}
    matrix(tmp_path / "matrix", regions)
    with open(tmp_path / "matrix" / "east-0.dat", "a", encoding="utf-8") as file:
        file.write("1/2/x/0.1:west-0\n3/2/1/0.1:west-0\n1/2\n1/2/3/0.1:east-0\n")
    (tmp_path / "matrix" / "README.md").write_text("what this is")
    told = probe_document("import", tmp_path / "matrix", "--dir", tmp_path / "data")
    assert told["rows"] == 8 * 8 * 3 and told["nodes"] == sorted(regions)
    assert told["excluded"] == {
        "file_without_dat_at_its_end": 1,
        "fields_missing": 1,
        "latency_not_a_number": 1,
        "min_avg_max_not_in_order": 1,
        "second_call_of_one_time": 3,
    }
    found = probe_document("analyze", tmp_path / "data")
    assert found["data"]["rows"] == found["data"]["replied"] == 8 * 8 * 3
    assert found["excluded"] == {"files": [], "rows": {}}
    columns = found["observations"]["columns"]
    p50 = {}
    for row in found["observations"]["rows"]:
        row = dict(zip(columns, row))
        p50[told["nodes"][row["observer"]], told["nodes"][row["callee"]]] = row["p50_ns"]
    for (src, dst), ns in p50.items():
        assert ns == round((0.3 + abs(regions[src] - regions[dst])) * 1e6), (src, dst)
    assert len(p50) == 64
    # Distance is no fault of nodes.
    shares = found["node_or_link"]["where_slow"]
    assert shares["link_share"] > 0.5 > shares["node_share"]
    page = tmp_path / "report.html"
    told = probe_document("report", tmp_path / "data", "-o", page)
    assert told["calls"] == 192 and "east-3" in page.read_text()


def peak_bytes(folder, rows):
    """The most memory that an import of so many calls of one caller on one day needs, by the kernel's
    count."""
    csv, data = folder / f"{rows}.csv", folder / f"data-{rows}"
    with open(csv, "w", encoding="utf-8") as file:
        # In an order that is far from that of files.
        step = 86_400 / rows
        for at in range(rows):
            file.write(f"{NOW - NOW % 86_400 + at * 7_919 % rows * step:.6f},a,{NODES[at % 3]},{at % 977}.5\n")
    with subprocess.Popen(
        [binary(), "probe", "import", str(csv), "--dir", str(data), "--json"], stdout=subprocess.PIPE
    ) as running:
        told = json.loads(running.stdout.read())
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0
    assert told["rows"] == rows and told["excluded"] == {} and told["noticed"]["time_went_back"] > 1_000
    assert [path.name for path in data.iterdir()] == ["rpc-00000-00000.parquet"]
    csv.unlink()
    return usage.ru_maxrss * 1024


def test_memory_does_not_grow_with_the_file(tmp_path):
    # Both are several row groups, and more calls than are sorted at a time.
    small, large = peak_bytes(tmp_path, 2_200_000), peak_bytes(tmp_path, 6_600_000)
    assert large < 1.2 * small, (small, large)
