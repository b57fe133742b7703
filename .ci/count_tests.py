"""Prints how many tests ran, from the output of `make test` and of `make e2e`: `count_tests.py TEST_LOG E2E_LOG`.

Exits with 1 if one of the four kinds has no passed test in its log: a run that did not happen must not look like one.
"""

import re
import sys
from pathlib import Path

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PYTEST = re.compile(r"^=* ?((?:\d+ \w+, )*\d+ \w+) in [\d.]+s\b.*$", re.MULTILINE)
VITEST = re.compile(r"^ +Tests +(.*?)(?: \(\d+\))?$", re.MULTILINE)
NODE = re.compile(r"^ℹ (pass|fail|cancelled|skipped|todo) (\d+)$", re.MULTILINE)
WORDS = {"pass": "passed", "fail": "failed", "xpassed": "passed", "error": "failed", "errors": "failed"}


def main(test_log: str, e2e_log: str) -> int:
    test, e2e = (COLOUR.sub("", Path(log).read_text("utf-8", "replace")) for log in (test_log, e2e_log))
    kinds = {
        "Python": _count(PYTEST, test),
        "client unit": _count(VITEST, test),
        "e2e": _sum(NODE.findall(e2e)),
        "editors": _count(PYTEST, e2e),
    }
    for kind, counts in kinds.items():
        print(f"{kind:<12} {_words(counts)}")
    total = _sum((word, str(n)) for counts in kinds.values() for word, n in counts.items())
    print(f"{'tests':<12} {_words(total)}")
    return 0 if all(counts.get("passed") for counts in kinds.values()) else 1


def _count(summary, text):
    """The figures of every summary line, such as `12 passed, 1 skipped` or `1 failed | 11 passed`."""
    pairs = (pair for line in summary.findall(text) for pair in re.findall(r"(\d+) (\w+)", line))
    return _sum((word, number) for number, word in pairs)


def _sum(pairs):
    counts = {}
    for word, number in pairs:
        name = WORDS.get(word, word)
        if int(number) and name not in {"deselected", "warning", "warnings"}:
            counts[name] = counts.get(name, 0) + int(number)
    return counts


def _words(counts):
    rest = (f"{number} {word}" for word, number in sorted(counts.items()) if word != "passed")
    return ", ".join((f"{counts.get('passed', 0)} passed", *rest))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
