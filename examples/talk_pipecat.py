"""Use foretell in a pipecat pipeline, in the place of the language model.

The transcriptions here are made up; in yours they come from a speech service, and the text goes on
to a voice. Needs pipecat: pip install pipecat-ai
"""

import asyncio
import sys
from pathlib import Path

from foretell.app.talk.assistant import build_assistant
from foretell.app.talk.pipecat_processor import frame_processor

try:
    from pipecat.frames.frames import (
        InterimTranscriptionFrame,
        LLMTextFrame,
        TranscriptionFrame,
        UserStartedSpeakingFrame,
        UserStoppedSpeakingFrame,
    )
    from pipecat.tests.utils import SleepFrame, run_test
except ImportError as error:
    print(f"{error.name} is not installed: pip install pipecat-ai")
    sys.exit()

Path("notes").mkdir()
Path("notes/pump.md").write_text("# Pump P-12\n\n## Oil\nThe oil is changed every 500 hours.\n")


async def main() -> None:
    assistant = build_assistant(model=None, notes=Path("notes"))
    about = {"user_id": "me", "timestamp": ""}
    down, _ = await run_test(
        frame_processor(assistant),
        frames_to_send=[
            UserStartedSpeakingFrame(),
            InterimTranscriptionFrame("how often is the oil", **about),
            SleepFrame(0.3),
            TranscriptionFrame("how often is the oil changed", **about),
            SleepFrame(0.1),
            UserStoppedSpeakingFrame(),
            SleepFrame(1.0),
        ],
        start_timeout=20.0,
    )
    print(*(frame.text for frame in down if isinstance(frame, LLMTextFrame)))
    assistant.close()


asyncio.run(main())
