"""Every page holds: its links lead somewhere, its commands exist, its snippets run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.docs import commands, snippets
from tests.docs.markdown import ROOT, Page, broken_links, pages, read

PAGES = pages()


def by_name(page: Page) -> str:
    return page.name


def missing_commands(page: Page) -> list[str]:
    found = [(line, words, commands.missing(words)) for line, words in commands.mentioned(page)]
    return [f"{page.name}:{line}: `{' '.join(words)}`: {what}" for line, words, what in found if what]


def runnable(spark: bool) -> list[Page]:
    """The pages with something to run, split by whether any of it needs Spark."""
    chosen = []
    for page in PAGES:
        fences = [fence for fence in page.fences if snippets.runs(fence)]
        if fences and any("spark" in fence.options for fence in fences) == spark:
            chosen.append(page)
    return chosen


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_links_lead_somewhere(page: Page) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_commands_exist(page: Page) -> None:
    assert missing_commands(page) == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_fences_are_well_formed(page: Page) -> None:
    assert list(snippets.problems(page)) == []


@pytest.mark.parametrize("page", runnable(spark=False), ids=by_name)
def test_snippets_run(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    snippets.run(page, {"__name__": "__page__"})


@pytest.mark.parametrize("page", runnable(spark=True), ids=by_name)
def test_snippets_run_on_spark(
    page: Page, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run a page on the shared session. A query that it leaves running must deliver a batch."""
    monkeypatch.chdir(tmp_path)
    try:
        snippets.run(page, {"__name__": "__page__", "spark": spark})
        for query in spark.streams.active:
            while query.lastProgress is None and not query.awaitTermination(1):
                pass
    finally:
        for query in spark.streams.active:
            query.stop()


def test_every_page_is_in_the_index() -> None:
    docs = ROOT / "docs"
    listed = {(docs / link.partition("#")[0]).resolve() for _, link in read(docs / "README.md").links}
    assert [page.name for page in PAGES if docs in page.path.parents and page.path not in listed] == [
        "docs/README.md"
    ]
