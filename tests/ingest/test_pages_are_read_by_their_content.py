"""HTML files: the main content as a document, without what stands around it on every page."""

from __future__ import annotations

import re
import time
from html import unescape
from pathlib import Path

import pytest

from agent.ingest.html_document import decode_html, read_page
from agent.ingest.html_tame import tame
from agent.ingest.html_text import html_to_text
from tests.ingest.conftest import Memory

PYTHON_DOCS = next(iter(sorted(Path("/usr/share/doc").glob("python3*/html/library"))), None)

PAGE = """<!DOCTYPE html>
<html lang="en"><head>
<title>Growing onions | The Garden Site</title>
<meta name="author" content="Ada Lovelace">
<meta property="article:published_time" content="2024-05-01T09:30:00+02:00">
<style>p { color: red }</style><script>var tracked = "<p>not text</p>";</script>
</head><body class="has-sidebar">
<header><a href="/">The Garden Site</a><nav><a href="/a">Navigation entry</a></nav></header>
<div class="cookie-banner">We value your privacy.</div>
<div role="search"><form><input value="x"><button>Search button</button></form></div>
<main>
  <nav class="breadcrumbs">Home / Beds</nav>
  <article>
    <header><h1>Growing <em>onions</em><a class="headerlink" href="#x">¶</a></h1></header>
    <p>They need <a href="https://example.org/sun">sun</a>, and
       <a href="/water">water</a> &amp; time.</p>
    <h2>Rows</h2>
    <ol start="3"><li>dig<li>sow <ul><li>deep</ul></ol>
    <table><tr><th>Bed<th>Onions</tr><tr><td>north</td><td>40</td></tr></table>
    <pre><code>for bed in beds:
    water(bed)
# done
</code></pre>
    <blockquote><p>All onions make us weep.</p></blockquote>
    <p hidden>Hidden words.</p><p style="color:red; display: none">Unseen words.</p>
    <div aria-hidden="true">Icon words.</div>
    <aside class="admonition note">Mind the frost.</aside>
    <aside>Read also: ten carrots.</aside>
    <section id="http-cookies">Cookies are baked, too.</section>
    <p># no heading</p>
  </article>
</main>
<aside>Side bar words.</aside>
<footer>Copyright words.</footer>
</body></html>
"""


def test_a_page_is_its_main_content_with_its_structure() -> None:
    page = read_page(PAGE)
    assert page.title == "Growing onions"
    assert page.author == "Ada Lovelace"
    assert page.time_ms == 1_714_548_600_000
    for kept in (
        "# Growing onions\n",
        "They need sun (https://example.org/sun), and water & time.",
        "## Rows",
        "3. dig\n4. sow\n\n   - deep\n",
        "| Bed | Onions |\n| --- | --- |\n| north | 40 |",
        "```\nfor bed in beds:\n    water(bed)\n# done\n```",
        "> All onions make us weep.",
        "Mind the frost.",
        "Cookies are baked, too.",
        "\\# no heading",
    ):
        assert kept in page.text
    around = "Navigation Home privacy Search Hidden Unseen Icon carrots Side Copyright tracked color ¶"
    for gone in around.split():
        assert gone not in page.text


def test_a_page_becomes_a_document_whose_chunks_point_at_lines_of_the_file(memory: Memory) -> None:
    paragraphs = "\n".join(f"<h2>Part {n}</h2>\n<p>{f'Word{n} ' * 90}\n{f'more{n} ' * 40}</p>" for n in range(12))
    memory.write("sub/a.html", PAGE.replace("<h2>Rows</h2>", paragraphs))
    memory.add("pages", "folder", memory.folder)
    memory.sync()
    chunks = memory.chunks()
    assert len(chunks) > 3
    lines = (memory.folder / "sub/a.html").read_text().split("\n")
    for chunk in chunks:
        assert chunk["title"] == "Growing onions"
        assert chunk["author"] == "Ada Lovelace"
        place = chunk["locator"]
        there = set(re.findall(r"[A-Za-z]\w+", unescape("\n".join(lines[place["line"] - 1 : place["end_line"]]))))
        assert set(re.findall(r"[A-Za-z]\w+", chunk["text"])) <= there
    assert {chunk["heading_path"] for chunk in chunks} & {f"Part {number}" for number in range(12)}
    assert memory.sync() == 0


@pytest.mark.parametrize(
    ("body", "kept", "gone"),
    [
        ("<div role=main>The words.</div><div>Around it.</div>", "The words.", "Around"),
        ("<article>The words.</article><div>Around it.</div>", "The words.", "Around"),
        ("<article>One post.</article><article>Another post.</article>", "One post.\nAnother post.", "-"),
        ("<main></main><p>" + "All is outside of it. " * 30, "All is outside of it.", "-"),
        ("<main>Short.</main><p>And a line.", "Short.", "And a line"),
        ("<main hidden>Not shown.</main><p>Shown.", "Shown.", "Not shown"),
        ("<form><h1>Old page</h1><p>In one form.</p><select><option>choice</select></form>", "In one form.", "choice"),
        ("<p>Text without a main part.<nav>Menu words</nav>", "Text without a main part.", "Menu"),
        ("<div id=onetrust-consent-sdk>We value it.</div><p>Text.", "Text.", "value"),
        ("<table><tr><td><table><tr><td>Laid<td>out</table><td>so</table>", "Laid\nout\n\nso", "|"),
        ("<pre>```\ncode\n```</pre>", "```\n'''\ncode\n'''\n```", "-"),
        ("<dl><dt>Term<dd>What it means.</dl>", "Term\nWhat it means.", "-"),
        ("before<!-- a <b>comment</b> -->after<![CDATA[x]]>", "beforeafter", "comment"),
        ("<p>unclosed <b>words <i>all</p> the <li>way", "unclosed words all", "<"),
    ],
)
def test_the_main_content_is_found(body: str, kept: str, gone: str) -> None:
    text = read_page(f"<html><body>{body}</body></html>").text
    assert kept in text
    assert gone == "-" or gone not in text


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title>In the window</title><p>x", "In the window"),
        ("<title>Notes - My Site</title><header><h1>My Site</h1></header><p>x", "Notes - My Site"),
        ("<title>Other</title><header><h1>My Site</h1></header><p>x", "Other"),
        ("<title>x</title><h1>The heading</h1><p>x", "The heading"),
        ("<h1></h1><p>x", None),
        ("<title>never closed <p>x", None),
    ],
)
def test_a_page_is_called_by_its_main_heading_or_what_the_window_shows(html: str, title: str | None) -> None:
    assert read_page(html).title == title


def test_a_page_without_a_title_is_called_by_its_first_heading_or_its_file(memory: Memory) -> None:
    memory.write("one.htm", "<h2>Second level</h2><p>Words.")
    memory.write("two.XHTML", "<p>Words.")
    memory.add("pages", "folder", memory.folder)
    memory.sync()
    titles = memory.connection.all("SELECT item_key, title FROM mem_tree_items ORDER BY item_key")
    assert dict(titles) == {"one.htm": "Second level", "two.XHTML": "two"}


@pytest.mark.parametrize(
    "data",
    [
        "<p>größer – 日本</p>".encode(),
        b"\xef\xbb\xbf" + "<p>größer – 日本</p>".encode(),
        '<meta charset="utf-16"><p>größer – 日本</p>'.encode(),
        "<meta charset=Shift_JIS><p>größer – 日本</p>".replace("größer", "groesser").encode("shift_jis", "replace"),
        "<meta http-equiv='content-type' content='text/html; charset=gb2312'><p>größer 日本</p>".encode("gb18030"),
        '<?xml version="1.0" encoding="EUC-JP"?><p>日本</p>'.encode("euc-jp"),
        "<p>größer – 日本</p>".encode("utf-16"),
    ],
)
def test_a_page_is_decoded_by_its_mark_its_declaration_or_its_looks(data: bytes) -> None:
    text = decode_html(data)
    assert text is not None
    assert "日本" in read_page(text).text
    assert decode_html(b"<p>\0</p>") is None


HOSTILE = {
    "nested": "<div>" * 250_000 + "words",
    "nested behind a value": '<div><p title="></div>">' * 50_000 + "words",
    "options": "<select>" + "<option>" * 200_000 + "</select>words",
    "formatting": "<p>" + "".join(f"<font size={n}>" for n in range(2_000)) + "</p>" + "<p>x" * 20_000 + "words",
    "links": "<a href=x>" * 60_000 + "words",
    "attributes": "<p " + " ".join(f"a{n}=x" for n in range(200_000)) + ">words",
    "angles": "<" * 500_000 + "words",
    "scripts": "<script>" * 60_000 + "words",
    "comments": "<!--" * 200_000 + "words",
    "lists": "<ul><li>" * 30_000 + "words",
    "tables": "<table><tr><td>" * 20_000 + "words",
    "rows": "<table>" + "<tr><td>x" * 20_000 + "</table>words",
    "entities": "&amp;" * 500_000 + "&lol9;" * 1_000 + "words",
    "bomb": '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>' + "&b;" * 10_000 + "words",
    "one line": "<p>" + "x " * 2_000_000 + "words",
    "quotes": '<a title="' * 100_000 + ">words",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_cost_their_length_and_keep_their_words(name: str) -> None:
    begun = time.process_time()
    page = read_page(HOSTILE[name])
    assert time.process_time() - begun < 10
    assert page.text.rstrip().endswith("words") or "words" in page.text[-400:]
    assert len(page.spans) == page.text.count("\n") + 1


def test_what_was_tamed_is_what_is_parsed() -> None:
    assert tame('<div title="a > b" CLASS=x onclick=y()>1 < 2</div>') == '<div class="x">1 &lt; 2</div>'
    assert tame("<p>a<b>b</b><br/>c</p></div><x-y>") == "<p>ab<br>c</p><x>"
    assert tame("<P\n>x\n<p>y", lines=True) == '<p data-line="1">x\n<p data-line="3">y'


def test_mails_in_html_go_the_same_way() -> None:
    text = html_to_text("<nav>Kept, for a mail is whole.</nav><h1>News</h1><ul><li>one<li>two</ul><pre>a  b\nc</pre>")
    assert text == "Kept, for a mail is whole.\n\n# News\n\n- one\n- two\n\na b\nc"


@pytest.mark.slow
@pytest.mark.skipif(PYTHON_DOCS is None, reason="no documentation in HTML here: apt-get install python3-doc")
def test_no_page_of_real_documentation_brings_its_navigation_along() -> None:
    assert PYTHON_DOCS is not None
    pages = sorted(PYTHON_DOCS.glob("*.html"))
    assert len(pages) > 100
    for path in pages:
        html = decode_html(path.read_bytes())
        assert html is not None
        page = read_page(html)
        lines = {line.strip("#-| ") for line in page.text.split("\n")}
        around = {"Table of Contents", "Previous topic", "Next topic", "This Page", "Report a Bug", "Show Source"}
        assert not lines & around, path.name
        for phrase in ("Quick search", "Created using", "Please donate", "¶"):
            assert phrase not in page.text, (path.name, phrase)
        headings = [line.lstrip("# ") for line in page.text.split("\n") if re.match(r"#{1,6} ", line)]
        assert headings[0] == page.title, path.name
    for path in pages[5:300:30]:
        # Against the same element, cut out by hand.
        html = path.read_text("utf-8")
        body = html[html.index('<div class="body" role="main">') : html.index('<div class="sphinxsidebar"')]
        body = re.sub(r'<a class="headerlink".*?</a>|<nav.*?</nav>', "", body, flags=re.DOTALL)
        words = re.findall(r"\w+", unescape(re.sub(r"<[^>]*>", " ", body)))
        held = set(re.findall(r"\w+", read_page(html).text))
        lost = [word for word in words if word not in held]
        assert len(lost) < 0.02 * len(words), (path.name, lost[:20])
