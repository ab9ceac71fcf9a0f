"""The page in Chromium, headless: every plot is drawn in light, dark and on a phone, filters work, no network is asked,
and the console stays empty. `make test-browser` runs it.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from searches.adapters.scope.conftest import HOSTILE, ITEMS, SUITE

from evolora_core.store import query

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

FACES: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}
PLOTS = [
    "comparisons", "accuracy", "over-population", "over-energy-total", "over-accuracy", "over-mean-net", "niches",
    "archive", "lineage", "practice", "sft-steps", "budget",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        place = os.environ.get("EVOLORA_BROWSER", "/usr/bin/chromium")
        opened = started.chromium.launch(executable_path=place, args=["--headless", "--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(looked_at: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from evolora_core.searches.adapters.scope.page import write_page

    return write_page(looked_at, SUITE, tmp_path_factory.mktemp("browser") / "page.html").file


@pytest.fixture(params=FACES)
def page(browser: "Browser", file: Path, request: pytest.FixtureRequest) -> Iterator["Page"]:
    """The page, drawn, in one face; at the end nothing was said on the console, and nothing asked."""
    context = browser.new_context(**FACES[request.param])
    opened = context.new_page()
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda asked: said.append(asked.url) if asked.url != file.as_uri() else None)
    opened.goto(file.as_uri())
    opened.wait_for_selector("html[data-drawn]")
    opened.wait_for_selector("article")
    yield opened
    assert said == []
    context.close()


def test_every_plot_is_drawn_and_fits(page: "Page") -> None:
    assert page.eval_on_selector_all("[data-plot]", "all => all.map(one => one.dataset.plot)") == PLOTS
    for plot in PLOTS:
        box = page.locator(f"[data-plot={plot}] svg").bounding_box()
        place = page.locator(f"[data-plot={plot}]").bounding_box()
        assert box and place and box["height"] > 80 and box["width"] <= place["width"] + 1, plot
        assert page.locator(f"[data-plot={plot}] .mark-symbol path, [data-plot={plot}] .mark-rect path, "
                            f"[data-plot={plot}] .mark-line path").count() > 0, plot  # fmt: skip
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_nothing_that_a_model_wrote_is_more_than_text(page: "Page") -> None:
    assert page.title() == SUITE
    page.fill("#filter [name=text]", "onerror")
    assert page.locator("article code").filter(has_text=HOSTILE[1]).count() > 0
    assert page.locator("article img, article script, article a").count() == 0
    page.fill("#filter [name=text]", "document.title = 'taken'")
    assert page.locator("article code").filter(has_text=HOSTILE[0]).count() > 0
    assert page.title() == SUITE


def until(page: "Page", holds: str) -> None:
    """Wait until an expression holds. Playwright's own way would compile it in the page, whose policy forbids that."""
    for _ in range(200):
        if page.evaluate(holds):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never held: {holds}")


def count(page: "Page") -> int:
    """How many items fit."""
    return int(page.inner_text("#count").split(" of ")[0])


def test_filters_find_what_the_store_has(page: "Page", looked_at: Path) -> None:
    assert count(page) == ITEMS * 9
    page.select_option("#filter [name=split]", label="retention")
    assert count(page) == ITEMS * 3
    page.select_option("#filter [name=family]", label="logic.bool")
    assert count(page) == ITEMS * 3 // 2
    page.select_option("#filter [name=seed]", label="1")
    assert count(page) == ITEMS // 2
    page.click("button[type=reset]")
    until(page, f"document.getElementById('count').textContent.startsWith('{ITEMS * 9} of')")
    page.select_option("#filter [name=right]", label="ecology")
    page.select_option("#filter [name=wrong]", label="sft:single")
    sql = """
        SELECT count(*) FROM evaluations AS a JOIN evaluations AS b USING (suite, seed, split, task_id)
        WHERE suite = ? AND a.arm = 'ecology' AND a.correct AND b.arm = 'sft:single' AND NOT b.correct
    """
    assert count(page) == query(looked_at, sql, [SUITE]).rows[0][0] > 0
    right = page.locator("article li.right .arm").all_inner_texts()
    wrong = page.locator("article li.wrong .arm").all_inner_texts()
    assert sum(text.startswith("ecology ") for text in right) == page.locator("article").count()
    assert sum(text.startswith("sft:single ") for text in wrong) == page.locator("article").count()
    page.fill("#filter [name=text]", "no such text anywhere")
    assert count(page) == 0 and page.locator("article").count() == 0 and not page.is_visible("#more")


def test_it_can_be_used_by_keyboard(page: "Page") -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "split"
    page.keyboard.press("ArrowDown")
    assert count(page) == ITEMS * 3
    before = page.locator("article").count()
    page.focus("#more")
    page.keyboard.press("Enter")
    assert page.locator("article").count() == 2 * before
    assert page.evaluate("document.activeElement.tagName") == "ARTICLE"
    page.focus("summary")
    page.keyboard.press("Enter")
    page.locator(".walk a").first.focus()
    page.keyboard.press("Enter")
    assert page.locator(".walk li:target").is_visible()


def test_menus_and_kin_change_the_plots(page: "Page") -> None:
    labels = "[data-plot=accuracy] .role-axis-label text"
    assert "json_repair" in page.locator(labels).all_text_contents()
    page.select_option("[data-plot=accuracy] [name=split]", label="retention")
    until(page, f"!document.querySelector('{labels}').parentNode.textContent.includes('json_repair')")
    assert "logic.bool" in page.locator(labels).all_text_contents()
    dots = "[data-plot=lineage] .mark-symbol.role-mark path"
    faint = f"[...document.querySelectorAll('{dots}')].filter(one => one.getAttribute('opacity') === '0.12').length"
    assert page.evaluate(faint) == 0
    page.fill("[data-plot=lineage] input", "0")
    until(page, f"{faint} > 0")
    page.fill("[data-plot=lineage] input", "-1")
    until(page, f"{faint} === 0")
    page.locator(dots).last.click()
    until(page, f"{faint} > 0")
    assert int(page.input_value("[data-plot=lineage] input")) > 0


def test_the_face_follows_the_reader(page: "Page") -> None:
    label = "[data-plot=over-population] .role-axis-label text"
    was = page.locator(label).first.get_attribute("fill")
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    page.emulate_media(color_scheme="light" if dark else "dark")
    until(page, f"document.querySelector('{label}')?.getAttribute('fill') !== '{was}'")
    assert page.locator("[data-plot] svg").count() == len(PLOTS)
