"""Runs llama.cpp's own HTTP server, with the Python of `.servers/llama`, which has xllamacpp.

python llama_server.py WEIGHTS PORT CONTEXT
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any


def main(weights: str, port: str, context: str) -> None:
    library: Any = importlib.import_module("xllamacpp")
    params = library.CommonParams()
    params.model.path = weights
    params.model_alias = {"qwen2.5-coder-1.5b"}
    params.n_ctx, params.n_parallel = int(context), 1
    params.n_batch = params.n_ubatch = 64  # a cancel is noticed between two batches
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads, threads.poll = 2, 0
    params.use_jinja = True
    params.hostnames, params.port = ["127.0.0.1"], int(port)
    params.ui, params.offline = False, True
    server = library.Server(params)
    threading.Event().wait()
    del server  # it serves as long as it exists


if __name__ == "__main__":
    main(*sys.argv[1:])
