"""A scripted Messages API on loopback: what the real client talks to in the tests.

A script is a function from a request to a reply.  Nothing leaves the machine, and every
request is kept for assertions.
"""

from tests.loopback_api.replies import Drop, Failure, Gate, Reply, Text, ToolUse, Turn, Usage
from tests.loopback_api.requests import Request
from tests.loopback_api.server import LoopbackApi, Script

__all__ = [
    "Drop",
    "Failure",
    "Gate",
    "LoopbackApi",
    "Reply",
    "Request",
    "Script",
    "Text",
    "ToolUse",
    "Turn",
    "Usage",
]
