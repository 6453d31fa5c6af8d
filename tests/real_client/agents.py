"""The real client and the rehearsal agent behind one front, so that one suite can hold both.

An Act says what the model does in a call; each agent has its own way of being told.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from adapters.execution import rehearsal
from tests.loopback_api import Failure, LoopbackApi, Reply, Request, Text, ToolUse, Turn, replies
from tests.real_client.client import API_KEY, Child, Client, Ran

PROMPT = "Task: T1\nStage: implement\nAttempt: 1\n\nDo it.\n"
LIMIT_RESETS_IN_S = 3600


class Trouble(Enum):
    """What the provider answers in place of the first turn."""

    LIMIT = "rate_limited"
    THROTTLED = "throttled"
    OVERLOADED = "overloaded"
    UNAUTHORIZED = "auth_failed"
    NO_CREDIT = "no_credit"


@dataclass(frozen=True)
class Act:
    steps: tuple[ToolUse, ...] = ()
    output: Any = None
    """The structured output, offered again and again if it is not accepted."""
    trouble: Trouble | None = None


class Agent(ABC):
    """What the two have in common: a Client that runs their command."""

    client: Client

    @property
    def work(self) -> Path:
        return self.client.work

    @abstractmethod
    def tell(self, act: Act) -> None:
        """What the model will do in the calls that follow."""

    def start(
        self,
        act: Act,
        *args: str,
        prompt: str = PROMPT,
        cwd: Path | None = None,
        credential: Mapping[str, str] = API_KEY,
    ) -> Child:
        self.tell(act)
        # One retry, after half a second: enough to see that there is one.
        bounded = {"CLAUDE_CODE_MAX_RETRIES": "1"}
        return self.client.start(*args, prompt=prompt, cwd=cwd, credential=credential, env=bounded)

    def run(
        self,
        act: Act,
        *args: str,
        prompt: str = PROMPT,
        cwd: Path | None = None,
        credential: Mapping[str, str] = API_KEY,
    ) -> Ran:
        return self.start(act, *args, prompt=prompt, cwd=cwd, credential=credential).wait()

    def transcripts(self, session: str) -> list[Path]:
        return self.client.transcripts(session)

    def close(self) -> None:
        self.client.close()


class RealAgent(Agent):
    def __init__(self, binary: Path, where: Path) -> None:
        self.api = LoopbackApi(lambda _: Turn((Text("Done."),)))
        self.api.__enter__()
        self.client = Client([str(binary)], where, self.api.url)

    def tell(self, act: Act) -> None:
        self.api.script = lambda request: _reply(act, request)

    def close(self) -> None:
        super().close()
        self.api.close()


class RehearsalAgent(Agent):
    def __init__(self, where: Path) -> None:
        self._scenario = where / "scenario.json"
        self.client = Client(rehearsal.command(str(self._scenario)), where, "http://127.0.0.1:9")

    def tell(self, act: Act) -> None:
        call: dict[str, Any] = {"do": [_step(use) for use in act.steps]}
        call["output"] = act.output
        if act.trouble is not None:
            call["fault"] = {"name": act.trouble.value}
        self._scenario.write_text(json.dumps({"call": [call]}))


def _reply(act: Act, request: Request) -> Reply:
    if act.trouble is not None:
        return _failure(act.trouble)
    if request.turn < len(act.steps):
        return Turn((act.steps[request.turn],))
    if request.output_schema is not None:
        return Turn((ToolUse("StructuredOutput", act.output),))
    return Turn((Text("Done."),))


def _failure(trouble: Trouble) -> Failure:
    match trouble:
        case Trouble.LIMIT:
            return replies.limit_reached(resets_in_s=LIMIT_RESETS_IN_S)
        case Trouble.THROTTLED:
            return replies.throttled()
        case Trouble.OVERLOADED:
            return replies.overloaded()
        case Trouble.UNAUTHORIZED:
            return replies.unauthorized()
        case Trouble.NO_CREDIT:
            return replies.no_credit()


def _step(use: ToolUse) -> dict[str, Any]:
    """A tool use, as a scenario spells it."""
    match use.name:
        case "Write":
            return {"write": use.input["file_path"], "text": use.input["content"]}
        case "Edit":
            return {
                "edit": use.input["file_path"],
                "old": use.input["old_string"],
                "new": use.input["new_string"],
            }
        case "Read":
            return {"read": use.input["file_path"]}
        case _:
            return {"run": use.input["command"]}
