"""Every payload of the `pilotfish/` namespace, by topic, and METHODS: who may send what.

`typescript.py` and `reference.py` generate the client's types and the reference from these modules: a docstring here,
of a class or below a field, is what their readers see.

Absent means none: a field that is null is left out when it is sent (unless its type allows null), and may be left out
or null when it is received. Unknown fields are refused, except in shapes that belong to LSP itself. Times are ISO 8601
in UTC.
"""

from pilotfish.protocol.wire.approvals import *
from pilotfish.protocol.wire.background import *
from pilotfish.protocol.wire.base import *
from pilotfish.protocol.wire.connections import *
from pilotfish.protocol.wire.content import *
from pilotfish.protocol.wire.editor_requests import *
from pilotfish.protocol.wire.edits import *
from pilotfish.protocol.wire.hello import *
from pilotfish.protocol.wire.language_models import *
from pilotfish.protocol.wire.methods import *
from pilotfish.protocol.wire.review import *
from pilotfish.protocol.wire.server_requests import *
from pilotfish.protocol.wire.session import *
from pilotfish.protocol.wire.session_requests import *
from pilotfish.protocol.wire.transcript import *
from pilotfish.protocol.wire.updates import *
