"""What pays for a call, and whether it is what should.

The client takes an API key before a subscription, without a word: an inherited key, one in a
settings file, one that a helper program prints.  Its ``init`` line says which it took.
"""

from collections.abc import Mapping

from orchestrator.core.settings import AgentSettings

SUBSCRIPTION = "subscription"
API_KEY = "api_key"

_OF_A_SUBSCRIPTION = frozenset({"none", "oauth"})
"""``apiKeySource``; every other is a key's."""


def billing_of(agent: AgentSettings, env: Mapping[str, str]) -> str:
    """What is to pay.  ``env`` is the client's."""
    return agent.billing or (API_KEY if env.get("ANTHROPIC_API_KEY") else SUBSCRIPTION)


def another_source(api_key_source: str, billing: str) -> str:
    """What pays and should not, in words; "" where all is well, or nothing is said."""
    if not billing or not api_key_source:
        return ""
    is_key = api_key_source not in _OF_A_SUBSCRIPTION
    if is_key == (billing == API_KEY):
        return ""
    if is_key:
        return f"the client bills an API key ({api_key_source}), and a subscription is to pay"
    return "the client uses a subscription, and an API key is to pay"


def remedy(billing: str) -> str:
    if billing == API_KEY:
        return (
            "hand the key on (ANTHROPIC_API_KEY in agent.pass_env), or set agent.billing to"
            " subscription"
        )
    return (
        "take the key out of the client's settings or log in with a subscription; or, if the key"
        " is to pay, set agent.billing to api_key, and name ANTHROPIC_API_KEY in agent.pass_env"
        " where it is an environment variable"
    )
