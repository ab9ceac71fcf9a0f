"""SQL that anybody wrote, against a store with a schema and no rows."""

from pathlib import Path
from typing import Any

import pytest
from hostile.conftest import accepted_or_refused, tried
from hostile.values import WORDS, garbled
from hypothesis import example, given
from hypothesis import strategies as st

from evolora_core.foreign.files import MIB
from evolora_core.store import bounded, rebuild
from flows.cli._app import shown

SECONDS, MEMORY = 1.0, 400 * MIB
GOOD = [
    "SELECT condition, holdout_id_acc FROM paper_table ORDER BY 1 DESC LIMIT 3",
    "WITH t AS (SELECT suite, count(*) AS n FROM stages GROUP BY ALL) SELECT * FROM t WHERE n > 1",
    "FROM lineage SELECT run_id, list(child) AS c, map([1], ['a']), {'a': 1, 'b': [NULL]}, interval '3 days'",
    "SELECT * FROM information_schema.tables",
]
PIECES = st.sampled_from(
    [
        "SELECT",
        "*",
        "FROM",
        "paper_table",
        "range(10)",
        "range(1000000000)",
        "1",
        "NULL",
        "'a'",
        "chr(27)",
        ",",
        "(",
        ")",
        ";",
        "--",
        "/*",
    ]
    + [
        "repeat('x', 100000000)",
        "list_aggregate(range(5000000), 'sum')",
        "1e400",
        "'nan'::double",
        "'infinity'::timestamp",
        "1/0",
    ]
    + [
        "'294000-01-01'::timestamp",
        "'-290000-01-01'::date",
        "interval '9999999 years'",
        "170141183460469231731687303715884105727",
    ]
    + [
        "map {[1]: 2}",
        "{'a': {'b': 1}}",
        "'\\xff'::blob",
        "uuid()",
        "array[1,2]",
        "'1 day'::interval",
        "time '24:00:00'",
        "?",
        "$1",
        ":a",
    ]
    + [
        "COPY",
        "TO",
        "'/tmp/x'",
        "ATTACH",
        "'x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA",
        "SET memory_limit='99GB'",
        "CALL",
        "EXPORT",
    ]
    + [
        "read_csv('/etc/passwd')",
        "'/etc/passwd'",
        "glob('/*')",
        "CREATE TABLE x AS",
        "DROP TABLE",
        "INSERT INTO",
        "DELETE",
        "data.stages",
    ]
    + [
        "UNION ALL",
        "JOIN",
        "WHERE",
        "GROUP BY",
        "ORDER BY",
        "LIMIT -1",
        "OFFSET",
        "DISTINCT",
        "AS",
        "t",
        "OVER ()",
        "EXPLAIN ANALYZE",
    ]
    + [
        "WITH RECURSIVE t AS (SELECT 1 a UNION ALL SELECT a + 1 FROM t)",
        "DESCRIBE",
        "SHOW TABLES",
        "CHECKPOINT",
        "BEGIN",
        "PIVOT",
        "VACUUM",
    ]
)
QUERIES = st.one_of(
    st.lists(PIECES, min_size=1, max_size=8).map(" ".join),
    st.lists(PIECES, min_size=1, max_size=3).map(lambda pieces: "SELECT " + ", ".join(pieces)),
    st.sampled_from(GOOD).flatmap(lambda query: garbled(query, "()[]{},;'\"-*/?$ a0")),
    st.sampled_from(GOOD),
    WORDS,
    st.text(max_size=20),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("home")
    rebuild(home)
    return home


def test_a_query_that_is_not_spoilt_is_answered(home: Path) -> None:
    def tell(answer: Any) -> str:
        return shown(answer.records(), True)

    said = bounded(home, "SELECT 1 AS one", tell, table=False, seconds=20 * SECONDS, memory=MEMORY)
    assert '"one": 1' in said


@tried
@given(sql=QUERIES, table=st.booleans(), as_json=st.booleans())
@example(sql="SELECT list_aggregate(range(100000000), 'sum')", table=False, as_json=True)
@example(sql="SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))", table=False, as_json=True)
@example(sql="SELECT " + "(" * 5000 + "1" + ")" * 5000, table=False, as_json=True)
def test_a_query(home: Path, sql: Any, table: bool, as_json: bool) -> None:
    def tell(answer: Any) -> str:
        return str(len(answer)) if table else shown(answer.records(), as_json)

    before = sorted(path.name for path in home.iterdir())
    accepted_or_refused(lambda: bounded(home, sql, tell, table=table, seconds=SECONDS, memory=MEMORY))
    assert sorted(path.name for path in home.iterdir()) == before
