"""The paths of `file:` URIs, on a system with one root and on Windows."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.text.uris import posix_path, windows_path

NAMES = st.text(st.characters(exclude_characters='/\\\0<>:"|?*', exclude_categories=("Cs", "Cc")), min_size=1)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///home/a%20b/c.py", "/home/a b/c.py"),
        ("file://localhost/x", "/x"),
        ("file:///c:/x", "/c:/x"),  # a folder of that name
        ("file://server/share/x", None),
        ("file:///a%00b", None),
        ("untitled:Untitled-1", None),
        ("file:", None),
    ],
)
def test_a_path_with_one_root(uri: str, path: str | None) -> None:
    assert posix_path(uri) == path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/Users/Ann%20B/x.py", "C:/Users/Ann B/x.py"),  # as VS Code writes it
        ("file:///C:/x", "C:/x"),
        ("file:///c:", "C:"),
        ("file:///C:%5Cx%5Cy", "C:/x/y"),
        ("file://localhost/c:/x", "C:/x"),
        ("file://server/share/x.py", "//server/share/x.py"),
        ("file://wsl%24/x", None),  # the host of a URI is not quoted
        ("file://wsl$/Ubuntu/home/x", "//wsl$/Ubuntu/home/x"),
        ("file:////server/share/x.py", "//server/share/x.py"),
        ("file://server/c:/x", None),
        ("file://server", None),
        ("file://server/", None),
        ("file:///no/drive", None),
        ("file:///c:x", None),
        ("file:///c:/a%00b", None),
        ("file:////?/C:/x", None),
        ("file:////./pipe/x", None),
        ("https://server/share/x", None),
    ],
)
def test_a_path_on_windows(uri: str, path: str | None) -> None:
    assert windows_path(uri) == path


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_every_path_comes_back_from_its_uri(names: list[str]) -> None:
    path = "/" + "/".join(names)
    assert posix_path(f"file://{quote(path)}") == path


@given(
    st.sampled_from([("file:///C:/", "C:/"), ("file:///z%3A/", "Z:/"), ("file://10.0.0.7/c$/", "//10.0.0.7/c$/")]),
    st.lists(NAMES, max_size=5),
)
def test_every_path_on_windows_comes_back_from_its_uri(root: tuple[str, str], names: list[str]) -> None:
    assert windows_path(root[0] + quote("/".join(names))) == root[1] + "/".join(names)
