"""Joins a sandbox without network to the proxy outside, then becomes the command: `bridge.py SOCKET command…`.

Runs as a script inside the sandbox: the sandbox has a loopback of its own, where this listens and passes every
connection on to the Unix socket of `proxy.py`. Programs find it by the usual variables (`HTTPS_PROXY`). It imports the
standard library only, and of that little: it is in front of every command.
"""

from __future__ import annotations

import _socket
import os
import select
import sys

NO_PROXY = "localhost,127.0.0.1,::1,[::1]"


def main(path: str, command: list[str]) -> int:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    if (child := os.fork()) == 0:
        if os.fork() == 0:  # the command must not find a child that it did not start
            _serve(listener.detach(), path)
        os._exit(0)
    os.waitpid(child, 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        os.environ[name] = os.environ[name.lower()] = address
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = NO_PROXY
    os.environ["NODE_USE_ENV_PROXY"] = "1"
    os.execv(command[0], command)  # noqa: S606 - this is what it is for


def _serve(handle: int, path: str) -> None:
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(quiet, standard)
    os.closerange(3, handle)
    os.closerange(handle + 1, 1 << 16)
    select.select([handle], [], [])
    import socket  # most commands use no network: they do not pay for this
    import threading

    listener = socket.socket(fileno=handle)
    while True:
        near, _ = listener.accept()
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(path)
        except OSError:
            near.close()
            continue
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=_pass, args=(one, other), daemon=True).start()


def _pass(source: _socket.socket, target: _socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(_socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            end.close()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
