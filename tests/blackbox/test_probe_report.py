"""`claret probe report`: the page that it writes, opened in a browser without network."""

import html
import re
import shutil
import subprocess

import pytest
from harness import probe, probe_document

FIGURES = {
    "cdf": "svg", "by-size": "svg", "by-workload": "svg", "what-if": "dl", "matrix": "table",
    "timeline": "svg", "slow-histogram": "svg", "jaccard": "svg", "correlations": "svg",
    "scatter": "svg",
}
BROWSER_S = 120


def opened(page, folder):
    """The page as a browser has it once its script has run. Without a browser the test fails:
    `cargo xtask setup` installs one."""
    browser = shutil.which("chromium")
    assert browser, "chromium is missing: cargo xtask setup installs it"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run(
        [browser, *flags, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=BROWSER_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def section(dom, name):
    """What a section shows, controls and figure and words."""
    found = re.search(rf'<section id="{name}".*?</section>', dom, re.S)
    assert found, name
    return found[0]


def shown(markup):
    return html.unescape(re.sub(r"<[^>]*>", " ", markup))


def ran(dom):
    """The script came to its end and told of no error."""
    assert re.search(r'<body[^>]*data-drawn="true"', dom)
    assert '<div id="failed" role="alert" hidden' in dom


def time(ns):
    """A latency as the page writes it."""
    value, unit = next(
        (ns / size, unit)
        for size, unit in [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")]
        if ns >= size or size == 1
    )
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The document of a made-up day, and its page in a browser."""
    folder = tmp_path_factory.mktemp("report")
    data, page = folder / "data", folder / "report.html"
    shape = ("--nodes", 14, "--group-size", "5,9", "--slow", 2, "--seed", 1, "--rounds", 1200)
    probe_document("simulate", *shape, "--dir", data)
    found = probe_document("analyze", data, "--histogram-size", 9)
    told = probe_document("report", data, "-o", page, "--histogram-size", 9)
    assert told["written"] == str(page) and told["bytes"] == page.stat().st_size < 2_000_000
    assert told["calls"] == found["data"]["rows"]
    assert [entry.name for entry in folder.iterdir() if "unfinished" in entry.name] == []
    return found, page, opened(page, folder)


def test_every_figure_is_drawn_and_says_how_to_read_it(simulated):
    _, _, dom = simulated
    ran(dom)
    for name, tag in FIGURES.items():
        part = section(dom, name)
        figure = re.search(rf'class="figure.*?<{tag}[ >]', part, re.S)
        assert figure, f"{name} has no {tag}"
        assert re.search(r'<p class="read">[^<]{30,}', part), f"{name} does not say how to read it"
        assert "NaN" not in part and "undefined" not in part, name
    # Twenty minutes of fourteen nodes say nothing about one suspicion in thirty days, and the page says
    # what would.
    calibration = shown(section(dom, "calibration"))
    assert "it takes 9 node-days (these 14 nodes for 16 hours), and there are 0.19" in calibration
    assert "cannot be derived from these data: it takes 9 node-days" in shown(section(dom, "findings"))
    assert "--election-timeout" not in calibration and "needs an election time-out" not in shown(dom)


def test_the_numbers_of_the_page_are_those_of_the_analysis(simulated):
    found, _, dom = simulated
    text = shown(section(dom, "cdf"))
    for law in ("individual", "group"):
        quantiles = found[law]["all_ns"]
        assert f"p50 {time(quantiles['p50'])}, p99 {time(quantiles['p99'])}" in text, law

    rows = [dict(zip(found["observations"]["columns"], row)) for row in found["observations"]["rows"]]
    names = found["data"]["nodes"]
    matrix = html.unescape(section(dom, "matrix"))
    for row in rows:
        pair = f"{names[row['observer']]} calls {names[row['callee']]}: "
        cell = re.search(rf'title="{pair}[^"]*p90 ([^,]*),', matrix)
        assert cell and cell[1] == time(row["p90_ns"]), pair
    assert len(re.findall(r'title="\w+ calls \w+: ', matrix)) == len(rows), "no cell beside"

    slow = {node["name"] for node in found["slow_nodes"]["action"]["nodes"]}
    assert len(slow) == 2 and found["slow_nodes"]["recall"] == 1.0
    assert set(re.findall(r"<th[^>]*>(\w+) \(slow\)", matrix)) == slow
    findings = shown(section(dom, "findings"))
    for node in found["slow_nodes"]["action"]["nodes"]:
        told = f"{node['name']} to {node['slow_observations']} of {node['observations']}"
        assert told in findings

    correlations = section(dom, "correlations")
    for metric in found["correlations"]["metrics"]:
        told = re.search(rf"{metric['metric']}: r = (-?[0-9.]+), 95 % interval", correlations)
        assert told, metric["metric"]
        assert abs(float(told[1]) - metric["all"]["pearson_r"]) <= 0.000051
    histogram = shown(section(dom, "slow-histogram"))
    for slow, count in enumerate(found["slow_histogram"]["action"]["counts"]):
        assert f"{slow}: {count} (" in histogram


def cells(markup):
    """Rows of all tables of a part of the page, as lists of what stands in their cells."""
    rows = re.findall(r"<tr>(.*?)</tr>", markup, re.S)
    return [[shown(cell).strip() for cell in re.findall(r"<td>(.*?)</td>", row, re.S)] for row in rows]


def test_the_axis_of_the_timeline_is_as_long_as_the_measurement(simulated):
    found, _, dom = simulated
    timeline = found["slow_timeline"]
    # Twenty minutes: two windows.
    assert timeline["to_s"] - timeline["from_s"] == 1200 == 2 * timeline["window_s"]
    part = section(dom, "timeline")
    ticks = re.findall(r'<text class="tick"[^>]*>([^<]+)</text>', part)
    assert ticks == [found["data"]["first_date"], "00:10", "00:20"]
    assert f"{found['data']['first_date']} (UTC)" in shown(part)
    # A node that is slow all the time is so from one end of the axis to the other.
    axis = re.search(r'<line class="axis" x1="([\d.]+)" x2="([\d.]+)"', part)
    left, right = float(axis[1]), float(axis[2])
    bars = re.findall(r'<rect x="([\d.]+)" width="([\d.]+)"', part)
    assert bars and all(float(x) >= left - 0.01 for x, _ in bars)
    assert max(float(x) + float(width) for x, width in bars) == pytest.approx(right)


def test_what_is_asked_of_the_calibration_is_asked_of_the_page(simulated, tmp_path):
    _, page, dom = simulated
    assert "Required: one false suspicion in 30 days, a risk of 0.001" in shown(dom)
    data = page.parent / "data"
    asked = ("--once-in", "12h", "--risk", "0.01", "--members", 5, "--two-delta", "2ms,50ms")
    asked += ("--budget", "7ms")
    told = probe_document("calibrate", data, *asked)
    other = tmp_path / "report.html"
    probe_document("report", data, "-o", other, *asked)
    dom = opened(other, tmp_path)
    ran(dom)
    part = section(dom, "calibration")
    assert "Required: one false suspicion in 12 hours, a risk of 0.01" in shown(part)
    rows = cells(part)
    assert "extrapolated" in shown(part) and "--election-timeout" in shown(part)
    assert "A Raft group needs an election time-out of" in shown(section(dom, "findings"))
    timeout = told["raft"]["timers"]["election_timeout_ms"]
    assert any(row[:2] == ["Raft, groups of 5: election time-out", time(timeout * 1e6)] for row in rows)
    # Likelihoods, for each size of groups and each 2 Delta.
    likelihoods = {(row[0], row[1]): row for row in rows if len(row) == 7 and "nines" in row[3]}
    assert list(likelihoods) == [
        (str(of["size"]), time(of["two_delta_ms"] * 1e6)) for of in told["xft"]
    ] and {key[1] for key in likelihoods} == {"2.00 ms", "50.0 ms"}
    for of in told["xft"]:
        row = likelihoods[str(of["size"]), time(of["two_delta_ms"] * 1e6)]
        assert row[3].endswith(f"({of['as_measured']['nines_of_consistency']} nines)")
        assert row[4].endswith(f"({of['as_measured']['nines_of_availability']} nines)")
    # The longest delays of hedged requests.
    names = told["data"]["nodes"]
    delays = [one for one in told["hedge"]["delays"] if one["hedge_after_ms"] is not None]
    assert len(delays) > 20
    longest = sorted(delays, key=lambda one: -one["hedge_after_ms"])[:20]
    hedged = [row for row in rows if len(row) == 7 and row[0] in names]
    assert [row[:3] for row in hedged] == [
        [names[one["from"]], names[one["to"]], time(one["hedge_after_ms"] * 1e6)] for one in longest
    ]
    assert [row[4] for row in hedged] == [names[one["second"]] for one in longest]
    assert f"The 20 longest of {len(delays)} pairs" in shown(part)
    assert "The budget is 7.00 ms" in shown(part)
    done = probe("report", data, "-o", other, "--once-in", "0s")
    assert done.returncode != 0 and "--once-in is above zero" in done.stderr


def test_imported_data_with_hostile_names_make_a_page_that_says_what_is_missing(tmp_path):
    hostile = "<img src=x onerror=document.title=1></script>&amp;"
    calls = tmp_path / "calls.csv"
    lines = [
        f"{second},{source},{target},{ms}"
        for second in range(20)
        for source in (hostile, "b", "c")
        for target, ms in ((hostile, ""), ("b", 2), ("c", 3))
    ]
    calls.write_text("time,src,dst,latency\n" + "\n".join(lines) + "\n")
    data, page = tmp_path / "data", tmp_path / "report.html"
    probe_document("import", calls, "--dir", data)
    page.write_text("an old page")
    probe_document("report", data, "-o", page)
    dom = opened(page, tmp_path)
    ran(dom)
    assert "<img" not in dom and "<title>How synchronous is imported?</title>" in dom
    assert hostile in shown(section(dom, "matrix")).replace("  ", " ")
    assert "silent" in shown(section(dom, "matrix"))
    for name in ("correlations", "scatter"):
        assert "no resources of hosts" in shown(section(dom, name))


def test_a_page_that_cannot_be_written_is_said_before_anything_is_computed(tmp_path):
    for output in (tmp_path, tmp_path / "no-such-folder" / "report.html"):
        done = probe("report", tmp_path, "-o", output)
        assert done.returncode != 0 and "folder" in done.stderr
