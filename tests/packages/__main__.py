"""Installs the built wheel the ways people do, and plays the demo out of each: `make packages`.

pip in an environment, `uv tool install` and `pipx install`, for every Python from 3.11 on that is on this machine, with
and without extras. Everything is in a folder that is deleted at the end. Prints a table, and fails if one way fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("anthropic", "google", "mcp", "bedrock", "local", "postgres", "anthropic,google,mcp", "all")


@dataclass(frozen=True, slots=True)
class Installed:
    """An installation to try: its program, and the environment of packages behind it."""

    way: str
    program: Path
    packages: Path


def main() -> int:
    """The exit code: 1 if something could not be installed or did not work."""
    with tempfile.TemporaryDirectory(prefix="pilotfish-packages-") as name:
        place = Path(name)
        env = {**os.environ, "HOME": str(place / "home"), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PILOTFISH_LOG": "off"}
        env = {key: value for key, value in env.items() if not key.startswith(("PYTHONPATH", "VIRTUAL_ENV"))}
        run((sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)), ROOT, env)
        (wheel,) = place.glob("*.whl")
        tools = _environment(place / "tools", sys.executable, ("uv", "pipx"), env)
        print("| Python | installed with | packages | MB | demo |\n| --- | --- | --- | --- | --- |")
        good = True
        for version, python in _pythons():
            if python is None:
                print(f"| {version} | not on this machine | | | |")
                continue
            for installed in _installations(place / version, python, wheel, tools, env):
                good &= _try_out(version, installed, env)
        _follow_recipe(place, wheel, env)
        print("| | as docs/remote.md says | | | works |")
        return 0 if good else 1


def _pythons() -> Iterator[tuple[str, str | None]]:
    """Each version, and the interpreter of it that works here, if there is one."""
    for version in VERSIONS:
        candidates = [
            shutil.which(f"python{version}"),
            *sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))),
        ]
        yield version, next((each for each in candidates if each and _works(each, version)), None)


def _works(python: str, version: str) -> bool:
    """Whether this interpreter starts and has the version: pyenv's shims are there for versions that are not."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    return done.stdout.strip() == version


def _installations(place: Path, python: str, wheel: Path, tools: Path, env: Mapping[str, str]) -> Iterator[Installed]:
    pip = _environment(place / "pip", python, (str(wheel),), env)
    yield Installed("pip install", pip / "bin/pilotfish", pip)
    uv = {**env, "UV_TOOL_DIR": str(place / "uv"), "UV_TOOL_BIN_DIR": str(place / "uv-bin")}
    run((tools / "bin/uv", "tool", "install", "--quiet", "--python", python, wheel), place, uv)
    yield Installed("uv tool install", place / "uv-bin/pilotfish", place / "uv/pilotfish")
    pipx = {
        **env,
        "PIPX_HOME": str(place / "pipx"),
        "PIPX_BIN_DIR": str(place / "pipx-bin"),
        "PIPX_MAN_DIR": str(place / "man"),
    }
    run((tools / "bin/pipx", "install", "--quiet", "--python", python, wheel), place, pipx)
    yield Installed("pipx install", place / "pipx-bin/pilotfish", place / "pipx/venvs/pilotfish")
    for extra in EXTRAS if python == sys.executable or python.endswith("3.11") else EXTRAS[-1:]:
        made = _environment(place / extra, python, (f"{wheel}[{extra}]",), env)
        yield Installed(f"pip install 'pilotfish[{extra}]'", made / "bin/pilotfish", made)


def _environment(place: Path, python: str, packages: tuple[str, ...], env: Mapping[str, str]) -> Path:
    """An environment with these packages and without pip, which is not counted then."""
    place.parent.mkdir(parents=True, exist_ok=True)
    run((python, "-m", "venv", "--without-pip", place), place.parent, env)
    pip = (sys.executable, "-m", "pip", "--python", place / "bin/python", "install", "--quiet")
    run((*pip, *packages), place, env)
    return place


def _follow_recipe(place: Path, wheel: Path, env: Mapping[str, str]) -> None:
    """Run the lines that `docs/remote.md` has for a remote machine and for a dev container, each in an empty home."""
    page = (ROOT / "docs" / "remote.md").read_text("utf-8")
    remote = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[1]
    (container,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    created = f"{json.loads(container)['postCreateCommand']} && ~/.local/bin/pilotfish demo --yes"
    for name, folder, commands in (("remote", ".", remote), ("container", ".devcontainer", created)):
        home = place / name
        (home / folder).mkdir(parents=True)
        shutil.copy(wheel, home / folder)
        run(("bash", "-euc", commands), home, {**env, "HOME": str(home)})


def _names_missing_extras(program: Path, folder: Path, env: Mapping[str, str]) -> bool:
    """Whether a model whose SDK is not installed is answered with the extra to install."""
    keys = {"ANTHROPIC_API_KEY": "none", "GOOGLE_API_KEY": "none"}
    for extra in ("anthropic", "google"):
        command = [program, "run", "--model", f"{extra}:any", "hello"]
        done = subprocess.run(
            command, cwd=folder, env={**env, **keys}, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode != 1 or f"pilotfish[{extra}]" not in done.stderr:
            sys.stderr.write(done.stdout + done.stderr)
            return False
    return True


def _try_out(version: str, installed: Installed, env: Mapping[str, str]) -> bool:
    (place,) = installed.packages.glob("lib/python*/site-packages")
    names = {each.name.partition("-")[0] for each in place.glob("*.dist-info")} - {"pilotfish"}
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file() and file.suffix != ".pyc")
    demo = subprocess.run(
        [installed.program, "demo", "--yes"], cwd=installed.packages, env=env, capture_output=True, text=True
    )
    works = demo.returncode == 0 and "tests after redo: they pass" in demo.stdout
    if "[" not in installed.way:
        works = works and _names_missing_extras(installed.program, installed.packages, env)
    print(
        f"| {version} | {installed.way} | {len(names)} | {size / 1e6:.0f} | {'works' if works else 'FAILS'} |",
        flush=True,
    )
    if not works:
        sys.stderr.write(demo.stdout + demo.stderr)
    return works


def run(command: tuple[str | Path, ...], folder: Path, env: Mapping[str, str]) -> None:
    """Run a command. Its output is shown if it fails."""
    done = subprocess.run([str(word) for word in command], cwd=folder, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        raise SystemExit(f"{command[0]} {command[1]} … ended with {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
