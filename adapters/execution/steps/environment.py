"""Which names of the driver's environment a project's commands get.

Invariant: no credential of a model's provider is among them, whatever a project file says.
"""

from collections.abc import Iterable, Mapping

from adapters.execution.utf8 import in_utf8

_PASSED = frozenset(
    {
        *("HOME", "PATH", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL"),
        *("SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    }
)
_PASSED_PREFIXES = ("LC_", "XDG_", "GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_")
_WITHHELD_PREFIXES = ("ANTHROPIC_", "CLAUDE_", "CLAUDECODE")


def for_commands(
    environ: Mapping[str, str], pass_env: Iterable[str], values: Mapping[str, str]
) -> dict[str, str]:
    """The default set, the names in ``pass_env``, and the ``values`` a project sets."""
    named = set(pass_env)
    taken = {
        name: value
        for name, value in environ.items()
        if name in _PASSED or name in named or name.startswith(_PASSED_PREFIXES)
    }
    # Compiled files beside the sources would be swept into the next checkpoint of a
    # repository that does not ignore them.
    chosen = {"PYTHONDONTWRITEBYTECODE": "1", **in_utf8(taken), **values}
    return {
        name: value for name, value in chosen.items() if not name.startswith(_WITHHELD_PREFIXES)
    }
