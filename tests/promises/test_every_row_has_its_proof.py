"""The map from what is promised to what proves it names tests that are there."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.promises.row import Row
from tests.promises.rows import TABLES

ROWS = [(table, row) for table, rows in TABLES.items() for row in rows]


@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.promise for _, row in ROWS])
def test_promise_is_proven_by_tests_that_exist_or_says_what_it_waits_for(table: str, row: Row) -> None:
    assert row.tests or row.later, f"{table}: nothing proves that {row.promise}"
    for node in row.tests:
        file, _, name = node.partition("::")
        module = importlib.import_module("tests." + file.removesuffix(".py").replace("/", "."))
        found = getattr(module, name, None)
        assert inspect.isfunction(found), f"{table}: there is no tests/{node}"
        assert name.startswith("test_")
        assert found.__module__ == module.__name__


def test_each_promise_stands_once_and_each_table_is_whole() -> None:
    promises = [row.promise for _, row in ROWS]
    assert len(set(promises)) == len(promises)
    assert {table: len(rows) for table, rows in TABLES.items()} == {
        "work lost, repeated or stuck": 27,
        "wrong or missing memory": 17,
        "machine, disk and power": 13,
        "money and trust": 6,
        "desktop": 23,
    }


def test_what_is_left_for_later_is_only_what_needs_days() -> None:
    for _, row in ROWS:
        if row.later:
            assert "days" in row.later, row
