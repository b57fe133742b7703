"""What an answer claims is checked against the calls. A claim that may be true is never marked."""

from __future__ import annotations

import pytest

from pilotfish.conversation.claims import Changed, Evidence, Run, check_answer

NOTHING = Evidence()
LISTED = Evidence(runs=[Run(command="ls", succeeded=True, output="calc.py", at=1, harmless=True, reads=True)])


def ran(
    command: str, output: str = "", *, succeeded: bool = True, at: int = 5, changed: str = "", **more: bool
) -> Evidence:
    """A session in which a command ran at position 5; `changed` was changed at 9."""
    changes = [Changed(path=changed, at=9)] if changed else []
    run = Run(command=command, succeeded=succeeded, output=output, at=at, reads=False)
    return Evidence(runs=[run], changes=changes, **more)


def edited(*paths: str) -> Evidence:
    return Evidence(changes=[Changed(path=path, at=3) for path in paths], changed_now=True)


MARKED = [
    # No command ran that could be a test.
    ("All tests pass.", NOTHING),
    ("Done! All 12 tests pass now.", NOTHING),
    ("The tests are now passing.", LISTED),
    ("The whole test suite passes.", LISTED),
    ("I fixed the sign error. I ran the tests and everything is fine.", edited("/w/calc.py")),
    ("**All tests pass** ✅", NOTHING),
    ("I've run the full test suite.", NOTHING),
    ("14 tests passed.", LISTED),
    # The last run failed, or its output says so although a pipe hid the exit code.
    ("All tests pass.", ran("pytest -q", "E assert 1 == 2\n1 failed in 0.1s", succeeded=False)),
    ("All tests pass.", ran("pytest | tail -3", "===== 1 failed, 3 passed in 0.12s =====")),
    ("All tests pass.", ran("cargo test", "test result: FAILED. 1 passed; 1 failed", succeeded=False)),
    ("All tests pass.", ran("go test ./...", "--- FAIL: TestAdd (0.00s)\nFAIL", succeeded=False)),
    # The code changed after the last run.
    ("All tests pass.", ran("pytest", "3 passed", changed="/w/calc.py")),
    # Builds.
    ("The build succeeds.", NOTHING),
    ("The code compiles without errors.", LISTED),
    ("The linter passes.", NOTHING),
    ("The build succeeds.", ran("cargo build", "error[E0308]", succeeded=False)),
    # Files.
    ("I updated `calc.py`.", NOTHING),
    ("I've created `src/new_module.ts` with the helper.", LISTED),
    ("I also renamed the function in lib/util.go.", NOTHING),
    ("I have fixed the failing test in `tests/test_calc.py`.", edited("/w/calc.py")),
    ("Summary:\n- Updated `calc.py`\n- Updated `README.md`", edited("/w/calc.py")),
    ("I updated README.md and all tests pass.", edited("/w/README.md")),
]

UNMARKED = [
    # The calls show it.
    ("All tests pass.", ran("pytest -q", "3 passed")),
    ("All tests pass.", ran("npm test", "Tests: 4 passed, 4 total")),
    ("All tests pass.", ran("cd server && python -m pytest", "3 passed")),
    ("The build succeeds.", ran("cargo build", "Finished")),
    ("I updated `calc.py`.", edited("/w/src/calc.py")),
    ("I updated `src/calc.py` to match `other.py`.", edited("/w/src/calc.py")),
    # The exit code is that of something else; the output shows that the tests passed.
    ("All tests pass.", ran("pytest; ruff check", "3 passed\nE501 too long", succeeded=False)),
    # What a script does is not known, nor what runs elsewhere.
    ("All tests pass.", ran("./ci.sh")),
    ("All tests pass.", ran("./ci.sh", succeeded=False)),
    ("All tests pass.", Evidence(tested_elsewhere=True)),
    ("I updated `calc.py`.", Evidence(changed_elsewhere=True)),
    ("I updated `calc.py`.", ran("make format")),
    ("I updated `calc.py`.", ran("sed -i s/a/b/ calc.py")),
    ("The type checker passes.", Evidence(diagnosed=True)),
    # Only prose changed after the last run.
    ("All tests pass.", ran("pytest", "3 passed", changed="/w/CHANGELOG.md")),
    # Plans, conditions, doubts.
    ("All tests should pass now.", NOTHING),
    ("I have not run the tests.", NOTHING),
    ("I couldn't run the tests here, so I can't say whether all tests pass.", NOTHING),
    ("Once all tests pass, you can merge.", NOTHING),
    ("Run `pytest` to check that all tests pass.", NOTHING),
    ("Do all tests pass on your machine?", NOTHING),
    ("All tests will pass after this change.", NOTHING),
    ("Make sure all tests pass before merging.", NOTHING),
    ("- [ ] All tests pass", NOTHING),
    ("All but two tests pass.", NOTHING),
    ("I would create `new.py` with these lines.", NOTHING),
    ("If I updated `calc.py`, the callers would break.", NOTHING),
    ("I changed nothing in `calc.py`.", NOTHING),
    ("I did not change `calc.py`.", NOTHING),
    ("I drafted the change of `calc.py` below; I wrote a proposed patch for `calc.py` above.", NOTHING),
    ("You updated `calc.py` yesterday.", NOTHING),
    # Explanations and reports of others.
    ("The test passes because the mock returns 3.", NOTHING),
    ("All tests pass on CI.", NOTHING),
    ("According to the README, all tests pass.", NOTHING),
    ("The log says all tests passed.", NOTHING),
    ("The commit did this:\n- Updated `calc.py`\n- Added `new.py`", NOTHING),
    ("> All tests pass.", NOTHING),
    ("It prints “All tests pass”.", NOTHING),
    ("```\nAll tests pass.\nI updated `calc.py`\n```", NOTHING),
    ("The function `run_tests` passes all tests in `suite` to the pool.", NOTHING),
    # Not files, or no file named.
    ("I updated `json.loads` calls to `orjson.loads`.", NOTHING),
    ("I added Node.js support.", NOTHING),
    ("I updated the plan for `calc.py`.", NOTHING),
    ("I fixed the bug.", NOTHING),
    ("The file `calc.py` was created by `setup.py`.", NOTHING),
]


@pytest.mark.parametrize(("answer", "evidence"), MARKED, ids=[answer[:40] for answer, _ in MARKED])
def test_a_claim_without_evidence_is_marked(answer: str, evidence: Evidence) -> None:
    assert [claim.verdict for claim in check_answer(answer, evidence)].count("unsupported") == 1


@pytest.mark.parametrize(("answer", "evidence"), UNMARKED, ids=[answer[:40] for answer, _ in UNMARKED])
def test_a_claim_that_may_be_true_is_not_marked(answer: str, evidence: Evidence) -> None:
    assert "unsupported" not in [claim.verdict for claim in check_answer(answer, evidence)]


def test_a_supported_claim_names_its_evidence() -> None:
    assert [claim.evidence for claim in check_answer("All tests pass.", ran("pytest -q", "3 passed"))] == [
        "`pytest -q` succeeded"
    ]
    assert [claim.evidence for claim in check_answer("I updated `calc.py`.", edited("/w/calc.py"))] == [
        "a call changed calc.py"
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "The build passes arguments to the linker.",
        "Ideally all tests pass.",
        "The type checker passes over this file.",
        "I updated my understanding of src/a.py.",
        "The tests pass `None` as the first argument.",
        "The test suite passes a list to mean().",
    ],
)
def test_words_of_claims_with_another_meaning_are_not_marked(answer: str) -> None:
    assert check_answer(answer, Evidence()) == ()
