"""Cuts a long text in the middle."""

from __future__ import annotations


def cut_middle(text: str, limit: int, call_id: str = "") -> tuple[str, bool]:
    """Cut text to `limit` bytes of UTF-8: head, a hint how to read the rest, tail. Also returns whether it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, False
    head, tail = data[: limit * 2 // 3], data[len(data) - limit // 3 :]
    missing = len(data) - len(head) - len(tail)
    line = head.count(b"\n") + 1
    more = f'; read_output(call_id="{call_id}", line={line}) reads on' if call_id else ""
    middle = f"\n[… {missing:,} bytes cut{more} …]\n"
    return head.decode("utf-8", "ignore") + middle + tail.decode("utf-8", "ignore"), True
