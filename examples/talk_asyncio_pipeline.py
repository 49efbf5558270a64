"""Put foretell into an asyncio pipeline of your own: any recogniser in, answers with sources out.

The recogniser here is a list of texts that grow; yours gives its partial and final results.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from foretell.app.talk.assistant import build_assistant
from foretell.app.talk.pipeline import converse

Path("notes").mkdir()
Path("notes/pump.md").write_text(
    "# Pump P-12\n\n## Bleeding\nOpen the bleed screw by half a turn until no air comes out.\n\n"
    "## Oil\nThe oil is changed every 500 hours.\n"
)


async def recogniser() -> AsyncIterator[tuple[str, dict[str, str]]]:
    for text in ("how often", "how often is the", "how often is the oil", "how often is the oil"):
        yield "partial", {"text": text}
        await asyncio.sleep(0.3)
    yield "end_of_turn", {"text": "how often is the oil changed"}


async def main() -> None:
    assistant = build_assistant(model=None, notes=Path("notes"))
    async for message in converse(assistant, recogniser()):
        if message["kind"] == "looking":
            print("looking at", message["source"]["place"])
        elif message["kind"] == "answer":
            print(message["text"], message["decision"])
            for statement in message["statements"]:
                print("from", *(source["place"] for source in statement["sources"]))
    assistant.close()


asyncio.run(main())
