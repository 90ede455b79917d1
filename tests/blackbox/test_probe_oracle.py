"""The analyses of `claret probe analyze` beside SQL over the same files. DuckDB is another engine, with
its own reader of Parquet. Whole numbers are equal, coefficients to 1e-9."""

import pathlib
import re

import duckdb
import pytest
from harness import ROOT, probe_document

# With a reply, and with a callee that was alive and a caller that sent.
REPLIED = "status in (0, 3, 6) and rtt is not null"
COUNTS = "status not in (4, 5, 7)"
# A call without reply is longer than any other.
NEVER = 2**63 - 1
QUANTILES = {"p1": 0.01, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99}
METRICS = ("stall_sum_us", "stall_max_us", "disk_io_ms", "cpu_user_ticks")
SHAPE = ("--nodes", "8", "--group-size", "3,5", "--days", "2", "--slow", "2", "--rounds", "900")


def rank(p, values):
    """The value at rank ceil(p n), for whole parts per million."""
    ppm = round(p * 10**6)
    place = f"(({ppm} * count({values}) + 999999) // 1000000)::bigint"
    return f"list_extract(list_sort(list({values})), {place})"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder of made-up data, what `analyze` says of them, and a database with their tables."""
    data = tmp_path_factory.mktemp("oracle") / "data"
    probe_document("simulate", *SHAPE, "--pauses-per-hour", "60", "--seed", "3", "--dir", data)
    found = probe_document("analyze", data, "--scatter-points", "10")
    db = duckdb.connect()
    db.execute("set threads to 2")
    db.execute(f"""
        create table calls as select *, file_day + epoch as day,
            case when {REPLIED} then lag::bigint + 100 * rtt::bigint else {NEVER} end as ns
        from '{data}/rpc-*.parquet', (select {found["data"]["first_day"]} as file_day)
        where {COUNTS}
    """)
    db.execute(f"""
        create table hosts as
        select regexp_extract(filename, 'res-([0-9]+)-([0-9]+)', 1)::int as epoch,
            regexp_extract(filename, 'res-([0-9]+)-([0-9]+)', 2)::int as node,
            t, {", ".join(METRICS)}
        from read_parquet('{data}/res-*.parquet', filename = true)
    """)
    db.execute(f"create table files as select file from glob('{data}/*.parquet')")
    yield found, db
    db.close()


def told(ns):
    """As a document has a latency."""
    return None if ns == NEVER else ns


def law(db, table, choose="true"):
    """What a document says of a list of latencies, by SQL."""
    all_ns = ", ".join(rank(p, "ns") for p in QUANTILES.values())
    completed = ", ".join(
        f"(select {rank(p, 'ns')} from chosen where ns < {NEVER})" for p in QUANTILES.values()
    )
    row = db.execute(f"""
        with chosen as (select ns from {table} where {choose})
        select count(*), count(*) filter (ns < {NEVER}), {all_ns}, {completed} from chosen
    """).fetchone()
    n = len(QUANTILES)
    return {
        "calls": row[0],
        "replied": row[1],
        "all_ns": dict(zip(QUANTILES, map(told, row[2 : 2 + n]))),
        "completed_ns": dict(zip(QUANTILES, row[2 + n :])),
    }


def same(expected, found):
    for key in ("calls", "replied"):
        assert found[key] == expected[key], key
    for key in ("all_ns", "completed_ns"):
        assert {name: found[key][name] for name in QUANTILES} == expected[key], key


def test_single_calls_have_the_quantiles_that_sql_finds(measured):
    found, db = measured
    assert found["individual"]["calls"] > 20_000 and found["individual"]["no_reply"] > 0
    same(law(db, "calls"), found["individual"])
    names = ["null", "crypto", "disk", "network", "all"]
    for row in found["by_workload"]:
        same(law(db, "calls", f"wl = {names.index(row['workload'])}"), row["individual"])
    for row in found["by_group_size"]:
        same(law(db, "calls", f"gsize = {row['group_size']}"), row["individual"])


def test_groups_are_as_slow_as_their_slowest_member(measured):
    found, db = measured
    db.execute("""
        create or replace view sessions as
        select max(ns) as ns, any_value(gsize) as gsize from calls
        group by day, "group", src, seq having count(distinct dst) = any_value(gsize)
    """)
    same(law(db, "sessions"), found["group"])
    for row in found["by_group_size"]:
        same(law(db, "sessions", f"gsize = {row['group_size']}"), row["group"])


def observations(db):
    db.execute(f"""
        create or replace table observed as
        select day, "group", src, dst, count(*) as calls,
            {rank(0.5, "ns")} as p50, {rank(0.9, "ns")} as p90, {rank(0.99, "ns")} as p99
        from calls group by all order by all
    """)


def test_every_observer_saw_of_every_callee_what_sql_says(measured):
    found, db = measured
    observations(db)
    expected = db.execute("select * from observed order by day, \"group\", src, dst").fetchall()
    rows = found["observations"]["rows"]
    assert len(rows) == len(expected) > 50
    for row, of_sql in zip(rows, expected):
        assert row[:8] == [*of_sql[:5], *map(told, of_sql[5:])]


@pytest.mark.parametrize("variant, others_only", [("seed", False), ("remote", True)])
def test_sql_calls_the_same_nodes_slow(measured, variant, others_only):
    found, db = measured
    observations(db)
    expected = db.execute(f"""
        with seen as (select * from observed where {"src != dst" if others_only else "true"}),
        least as (select *, min(p90) over (partition by day, "group", src) as least from seen)
        select day, "group", src, list(dst order by dst) from least
        where (p90 = {NEVER} and least < {NEVER}) or (p90 < {NEVER} and p90 >= 2 * least)
        group by day, "group", src order by day, "group", src
    """).fetchall()
    told = found["slow_nodes"][variant]["sets"]
    sets = [(one["day"], one["group"], one["observer"], one["slow"]) for one in told]
    assert sets == expected and len(sets) > 3


@pytest.fixture(scope="module")
def paired(measured):
    """Every answered call with the row of its callee that is nearest in time, the earlier of two."""
    found, db = measured
    nearest = """
        select calls.*, h.* exclude (epoch, node), abs(h.t - received) as distance from received calls
        asof join hosts h on calls.epoch = h.epoch and calls.dst = h.node and received {sign} h.t
    """
    db.execute(f"""
        create or replace table received as
        select row_number() over () as id, epoch, dst, wl, ns, t_sched + 1000 * rx_off::bigint as received
        from calls where status = 0 and rx_off is not null
    """)
    both = " union all ".join(nearest.format(sign=sign) for sign in (">=", "<="))
    db.execute(f"""
        create or replace table pairs as select * from ({both})
        where distance <= 2000000000
        qualify row_number() over (partition by id order by distance, t) = 1
    """)
    return found, db


def test_sql_pairs_as_many_calls_at_the_same_distance(paired):
    found, db = paired
    ask = "select count(*), avg(distance), max(distance) from pairs"
    count, mean, most = db.execute(ask).fetchone()
    (ok,) = db.execute("select count(*) from calls where status = 0").fetchone()
    pairing = found["pairing"]
    assert pairing["ok_calls"] == ok and pairing["paired"] == count > 20_000
    assert pairing["distance_mean_ms"] == pytest.approx(mean / 1e6, rel=1e-9)
    assert pairing["distance_max_ms"] == pytest.approx(most / 1e6, rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_latency_goes_with_each_metric_as_sql_says(paired, metric):
    found, db = paired
    (row,) = [row for row in found["correlations"]["metrics"] if row["metric"] == metric]
    # The sums of DuckDB's corr() are doubles; the mean is taken out first so that they suffice.
    ask = """
        with chosen as (select {x} as x, {metric}::double as y from pairs
            where {metric} is not null and {choose}),
        centred as (select x - avg(x) over () as x, y - avg(y) over () as y from chosen)
        select count(*), sum(x * y) / sqrt(sum(x * x) * sum(y * y)) from centred
    """

    def compare(told, key, x, choose):
        n, r = db.execute(ask.format(x=x, metric=metric, choose=choose)).fetchone()
        assert told["n"] == n
        assert told[key] == pytest.approx(r, abs=1e-9)

    compare(row["all"], "pearson_r", "ns::double", "true")
    compare(row["all"], "pearson_r_ln", "ln(ns::double)", "true")
    p99 = {wl: law(db, "calls", f"wl = {wl}")["all_ns"]["p99"] for wl in range(5)}
    high = " or ".join(f"(wl = {wl} and ns >= {ns})" for wl, ns in p99.items() if ns is not None)
    compare(row["high"], "pearson_r", "ns::double", f"({high})")


def test_the_question_in_the_guide_has_the_answer_of_the_analyses(measured, monkeypatch):
    _, db = measured
    guide = (ROOT / "docs/latency/probe-data.md").read_text()
    (question,) = re.findall(r"\n    (SELECT .*?);\n", guide, re.S)
    (file,) = db.execute("select min(file) from files").fetchone()
    monkeypatch.chdir(pathlib.Path(file).parents[1])
    told = db.execute(question.replace("LIMIT 10", "")).fetchall()
    expected = db.execute(f"""
        select src, dst, count(*), {rank(0.99, "ns")} / 1e6 from calls where ns < {NEVER}
        group by src, dst
    """).fetchall()
    assert len(told) == len(expected) > 20
    assert sorted(row[:3] for row in told) == sorted(row[:3] for row in expected)
    p99 = {row[:2]: row[3] for row in expected}
    for src, dst, _, p99_ms in told:
        assert p99_ms == pytest.approx(p99[src, dst], rel=1e-12)
