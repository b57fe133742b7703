"""A turn from prompt to outcome. The only room that knows pydantic-ai."""

import os

from pilotfish.engine import lean_imports

if os.environ.get("PILOTFISH_LEAN") != "0":
    lean_imports.install()
