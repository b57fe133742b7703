from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.tools import bench, parse

from pilotfish.errors import Refused
from pilotfish.tools.web import web_fetch
from pilotfish.tools.web.web_fetch import TOOL
from pilotfish.workspace.web.fetch import Elsewhere, WebPage

URL = "https://example.com/page"


def served(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """What is fetched, whatever the address."""
    usual: dict[str, Any] = {"url": URL, "status": 200, "content_type": "text/html", "is_html": True, "cut": False}

    async def fetch(url: str, *, local_network: bool) -> WebPage:
        del url, local_network
        return WebPage(**{**usual, **fields})

    monkeypatch.setattr(web_fetch, "fetch", fetch)


async def test_a_page_comes_as_markdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, text="<title>T</title><p>Hello <b>you</b></p>")
    async with bench(tmp_path) as made:
        result = await made.run(TOOL, url=URL)
    assert result.text == f"From {URL}\n" + "# T\n\nHello **you**"
    assert not result.failed


async def test_other_text_comes_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, text='{"a": "<b>"}', content_type="application/json", is_html=False, cut=True)
    async with bench(tmp_path) as made:
        assert await made.text(TOOL, url=URL) == f"From {URL}\n" + '{"a": "<b>"}' + "\n[only the first 5 MB]"


async def test_an_error_status_is_a_failure_with_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, status=404, text="gone", content_type="text/plain", is_html=False)
    async with bench(tmp_path) as made:
        result = await made.run(TOOL, url=URL)
    assert (result.failed, result.text) == (True, f"HTTP 404 from {URL}\n" + "gone")


async def test_another_site_is_named_and_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(url: str, *, local_network: bool) -> Elsewhere:
        del url, local_network
        return Elsewhere("https://other.org/x")

    monkeypatch.setattr(web_fetch, "fetch", fetch)
    async with bench(tmp_path) as made:
        assert (await made.text(TOOL, url=URL)).endswith("fetch https://other.org/x")


async def test_this_machine_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        with pytest.raises(Refused, match="private network"):
            await made.run(TOOL, url="http://127.0.0.1:9/")
        made.network = "local"
        with pytest.raises(Exception, match="could not be fetched"):
            await made.run(TOOL, url="http://127.0.0.1:9/")


async def test_nothing_is_fetched_when_the_network_is_turned_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served(monkeypatch, text="never")
    async with bench(tmp_path) as made:
        made.network = "none"
        with pytest.raises(Refused, match="turned the network off"):
            await made.run(TOOL, url=URL)


def test_policy_judges_the_address() -> None:
    args = parse(TOOL, {"url": URL})
    assert (TOOL.subject(args).url, TOOL.title(args)) == (URL, f"Fetch {URL}")


@pytest.mark.parametrize("args", [{}, {"url": ""}, {"url": URL, "method": "POST"}])
def test_bad_arguments_are_refused(args: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        parse(TOOL, args)
