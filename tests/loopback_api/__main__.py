"""``python -m tests.loopback_api [--script FILE] [--port N]``: try the client by hand.

FILE is Python with a function ``answer(request)`` that returns a Reply, for example::

    from tests.loopback_api import Text, ToolUse, Turn

    def answer(request):
        if request.turn == 0:
            return Turn((ToolUse("Bash", {"command": "ls"}),))
        return Turn((Text("Done."),))

Without one every prompt is answered with "Done.", and a structured output is refused.
"""

import argparse
import runpy
import sys
from pathlib import Path

from tests.loopback_api import LoopbackApi, Reply, Request, Script, Text, Turn


def _says_done(_: Request) -> Reply:
    return Turn((Text("Done."),))


def _read(path: Path) -> Script:
    found = runpy.run_path(str(path)).get("answer")
    if not callable(found):
        raise SystemExit(f"{path} defines no function answer(request)")
    script: Script = found
    return script


def _telling(script: Script) -> Script:
    def tell(request: Request) -> Reply:
        reply = script(request)
        named = " ".join(word for word in (request.task, request.stage) if word)
        print(f"{request.number}: {named or request.prompt[:60]!r} turn {request.turn}: {reply}")
        return reply

    return tell


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.loopback_api", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--script", type=Path, help="a Python file with answer(request)")
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    script = _read(args.script) if args.script else _says_done
    with LoopbackApi(_telling(script), port=args.port) as api:
        print("In another terminal:\n")
        print(f"  HOME=$(mktemp -d) ANTHROPIC_BASE_URL={api.url} ANTHROPIC_API_KEY=dummy \\")
        print('    claude -p "Say something"\n', flush=True)
        try:
            api.wait_for_close()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
