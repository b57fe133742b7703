"""The text of PDF files: read in a child process that a hostile file cannot keep busy."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.engine import rig
from tests.support.provider import call, say
from tests.support.tools import Bench, bench

from pilotfish.errors import ToolError
from pilotfish.tools.files.read_file import TOOL
from pilotfish.workspace.files import pdf


def pdf_of(contents: Sequence[bytes], *, kids: str | None = None) -> bytes:
    """A PDF file with a page for each content stream. `kids` replaces the list of its pages."""
    numbers = range(4, 4 + 2 * len(contents), 2)
    kids = kids or " ".join(f"{number} 0 R" for number in numbers)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in zip(numbers, contents, strict=True):
        packed = zlib.compress(content, 9)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {number + 1} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(packed), packed))
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places: list[int] = []
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start, size = len(out), len(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<< /Size %d /Root 1 0 R >>\n" % (size, table, size)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % start)


def page(*lines: str) -> bytes:
    rows = " ".join(f"({line}) Tj 0 -14 Td" for line in lines)
    return f"BT /F1 12 Tf 72 720 Td {rows} ET".encode()


@pytest.fixture
async def at(tmp_path: Path):
    async with bench(tmp_path.resolve()) as found:
        yield found


def put(at: Bench, data: bytes, name: str = "a.pdf") -> None:
    (at.workspace.roots[0] / name).write_bytes(data)


NOTE = "the text of a PDF, without its pictures and layout"


async def test_pages_are_numbered_and_lines_can_be_chosen(at: Bench) -> None:
    put(at, pdf_of([page("Hello", "world"), page("Second")]), "A.PDF")
    assert await at.text(TOOL, path="A.PDF") == (
        "     1\t--- page 1 of 2 ---\n     2\tHello\n     3\tworld\n     4\t--- page 2 of 2 ---\n     5\tSecond\n"
        f"[{NOTE}]"
    )
    assert await at.text(TOOL, path="A.PDF", offset=2, limit=1) == (
        f"     2\tHello\n[{NOTE}; lines 2-2 of 5; continue with offset=3]"
    )
    with pytest.raises(ToolError, match="has 5 lines; offset 6 is past its end"):
        await at.run(TOOL, path="A.PDF", offset=6)


async def test_the_model_reads_a_pdf_in_a_turn(tmp_path: Path) -> None:
    async with rig(tmp_path, call("read_file", path="a.pdf"), say("done")) as turn:
        (turn.root / "a.pdf").write_bytes(pdf_of([page("The answer is 42")]))
        await turn.prompt("read it")
        assert "The answer is 42" in str(turn.provider.requests[-1].body["messages"])


async def test_without_pypdf_the_model_is_told_what_is_missing(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "pypdf_missing", lambda: True)
    put(at, pdf_of([page("x")]))
    with pytest.raises(ToolError, match=r"a\.pdf: it is a PDF, and pypdf, .* pip install 'pilotfish\[pdf\]'"):
        await at.run(TOOL, path="a.pdf")


async def test_a_text_that_is_only_named_so_is_read_as_text(at: Bench) -> None:
    put(at, b"no pdf\n")
    assert await at.text(TOOL, path="a.pdf") == "     1\tno pdf"


async def test_pages_without_text_are_said_to_be_pictures(at: Bench) -> None:
    put(at, pdf_of([b""]))
    assert await at.text(TOOL, path="a.pdf") == (
        f"     1\t--- page 1 of 1 ---\n[{NOTE}; these pages have no text; they may be scanned]"
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"%PDF-1.7\nnothing", "PdfStreamError"),
        (pdf_of([page("x")])[:200], "PdfStreamError"),
        (pdf_of([page("x")], kids="2 0 R"), "cyclic"),
    ],
    ids=["empty", "cut off", "pages that contain themselves"],
)
async def test_a_broken_file_is_an_error(at: Bench, data: bytes, why: str) -> None:
    put(at, data)
    with pytest.raises(ToolError, match=rf"^a\.pdf: it cannot be read as a PDF: .*{why}"):
        await at.run(TOOL, path="a.pdf")


@pytest.mark.parametrize(("byte", "count"), [(b" ", 100_000_000), (b"[", 2_000_000)], ids=["a bomb", "nested deeply"])
async def test_a_hostile_page_does_not_hide_the_others(at: Bench, byte: bytes, count: int) -> None:
    put(at, pdf_of([byte * count, page("whole")]))
    assert "--- page 2 of 2 ---\n" in (text := await at.text(TOOL, path="a.pdf"))
    assert "\twhole\n" in text


async def test_a_file_that_takes_too_long_is_stopped(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_SECONDS", 0.001)
    put(at, pdf_of([page("x")]))
    with pytest.raises(ToolError, match=r"reading took longer than 0\.001 s"):
        await at.run(TOOL, path="a.pdf")


async def test_a_text_that_is_too_long_is_cut_after_whole_pages(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_TEXT", 30)
    monkeypatch.setattr(pdf, "CHUNK", 32)
    put(at, pdf_of([page("first"), page("s" * 80), page("third")]))
    text = await at.text(TOOL, path="a.pdf")
    assert "first" in text
    assert "third" not in text
    assert "only the first 1 of 3 pages: the text is longer than" in text


async def test_the_child_may_not_use_more_memory_than_its_limit(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(pdf.__file__).read_text().replace("MAX_MEMORY = 1 << 30", "MAX_MEMORY = 1 << 20")
    small = at.workspace.roots[0] / "small.py"
    small.write_text(source)
    monkeypatch.setattr(pdf, "__file__", str(small))
    put(at, pdf_of([page("x")]))
    with pytest.raises(ToolError, match="needs too much memory"):
        await at.run(TOOL, path="a.pdf")
