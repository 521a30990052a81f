"""Everything is done with the keys alone, and one always sees where one is."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Read, Reading

FOCUS = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const box = at.getBoundingClientRect(), style = getComputedStyle(at);
  at.__passed = (at.__passed ?? 0) + 1;
  return {
    what: `${at.tagName} ${at.textContent.trim().slice(0, 40)}`,
    outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    size: box.width * box.height,
    times: at.__passed,
  };
}"""


def passes(reading: Reading) -> list[dict[str, object]]:
    """Press Tab until the page has been passed through once."""
    found: list[dict[str, object]] = []
    reading.page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    for _ in range(400):
        reading.page.keyboard.press("Tab")
        at = reading.page.evaluate(FOCUS)
        if at is None or at["times"] > 1:
            return found
        found.append(at)
    pytest.fail(f"the end of the page is not reached: {found[-5:]}")


MORE = ("/?q=spare+key", "/sources", "/forget", "/models", "/models/add", "/settings", "/help/logs", "/welcome")


@pytest.mark.parametrize(
    "path", ["/sources/add", "/work", *(pytest.param(path, marks=pytest.mark.slow) for path in MORE)]
)
def test_all_that_can_be_pressed_is_reached_and_seen(read: Read, path: str) -> None:
    reading = read()
    reading.open(path)
    found = passes(reading)
    unseen = [each["what"] for each in found if not each["outline"] or not each["size"]]
    assert not unseen
    wanted = reading.page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")]
             .filter((each) => each.checkVisibility() && !each.__passed).map((each) => each.outerHTML.slice(0, 80))"""
    )
    assert not wanted


def test_the_first_key_leads_past_the_menu(read: Read) -> None:
    reading = read()
    reading.open("/tree")
    reading.page.keyboard.press("Tab")
    assert reading.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    reading.page.keyboard.press("Enter")
    assert reading.page.evaluate("document.activeElement.id") == "main"
    reading.page.keyboard.press("Tab")
    assert reading.page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_from_anywhere_a_slash_leads_to_the_search_and_the_keys_to_the_passage(read: Read) -> None:
    reading = read()
    page = reading.page
    reading.open("/tree")
    page.keyboard.press("/")
    page.wait_for_url(f"{reading.origin}/")
    reading.until("document.activeElement.id === 'q'")
    page.keyboard.type("spare key of the greenhouse")
    page.locator(".hit").first.wait_for()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.hit h2 a')"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/node/*")
    assert "spare key" in page.locator("main").inner_text()
    assert not reading.noticed()


def test_a_slash_in_a_field_is_a_slash(read: Read) -> None:
    reading = read()
    reading.open("/sources/add")
    reading.page.locator("#path").focus()
    reading.page.keyboard.type("/home/me")
    assert reading.page.locator("#path").input_value() == "/home/me"
    assert reading.page.url.endswith("/sources/add")


def test_escape_empties_the_search(read: Read) -> None:
    reading = read()
    reading.open("/?q=spare")
    reading.page.locator("#q").focus()
    reading.page.keyboard.press("Escape")
    assert reading.page.locator("#q").input_value() == ""
    reading.page.wait_for_url(f"{reading.origin}/")
