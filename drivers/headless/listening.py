"""Pass on to the run loop what happens elsewhere: to journal, account and process."""

from collections.abc import Awaitable, Callable

import trio

from drivers.headless.messages import Message, Signalled


async def pass_on(
    happened: Callable[[], Awaitable[None]],
    message: Message,
    send: trio.MemorySendChannel[Message],
) -> None:
    """``happened`` returns each time it has; the loop looks what it was."""
    while True:
        await happened()
        await send.send(message)


async def pass_on_signals(
    signals: trio.MemoryReceiveChannel[int], send: trio.MemorySendChannel[Message]
) -> None:
    async for number in signals:
        await send.send(Signalled(number))
