"""Local addresses are recognised from the text of a URL in every spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.policy.hosts import host_of, local_address


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "http://LOCALHOST./",
        "http://a.localhost/",
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0/",
        "http://0.0.0.0/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[fe80::1%25eth0]/",
        "http://[fc00::1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[::ffff:0:127.0.0.1]/",
        "http://[2002:7f00:1::]/",
        "http://10.0.0.1/",
        "http://172.16.5.4/",
        "http://192.168.1.1/",
        "http://169.254.169.254/",
        "http://100.100.100.200/",
        "http://metadata.google.internal/",
        "http://printer.local/",
        "http://intranet/",
        "http://router.lan/",
        "http://127.0.0.1.nip.io/",
        "http://①②⑦.⓪.⓪.①/",
        "http://127。0。0。1/",
        "http://user:pw@127.0.0.1:80/",
        "http://example.com@127.0.0.1/",
        "http://224.0.0.1/",
        "ws://localhost:1/",
    ],
)
def test_a_local_address_is_recognised(url: str) -> None:
    host = host_of(url)
    assert host is not None
    assert local_address(host) is not None


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com/", "example.com"),
        ("https://EXAMPLE.com./x", "example.com"),
        ("https://127.0.0.1.example.com/", "127.0.0.1.example.com"),
        ("https://8.8.8.8/", "8.8.8.8"),
        ("https://[2606:4700::1111]/", "2606:4700::1111"),
        ("https://bücher.example.com/", "xn--bcher-kva.example.com"),
        ("https://a@example.com:443/", "example.com"),
    ],
)
def test_a_public_address_is_recognised(url: str, host: str) -> None:
    assert host_of(url) == host
    assert local_address(host) is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "file:///etc/passwd",
        "javascript:x",
        "http://",
        "http:///x",
        "http://a b/",
        "http://a\\@b/",
        "http://[::1/",
        "gopher://x/",
        "http://a\n/",
    ],
)
def test_a_url_without_a_clear_host_gives_none(url: str) -> None:
    assert host_of(url) is None


@given(st.text())
def test_no_text_crashes(url: str) -> None:
    host = host_of("http://" + url)
    if host is not None:
        local_address(host)
