"""An assistant as a frame processor of pipecat, in the place of its language model.

    interim transcription -> looked up while the user still speaks
    transcription, end of speech -> the answer, as the text of a language model
    interruption -> the question is given up

pipecat hears and speaks; it need not be installed for anything else.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from foretell.app.talk.live import LiveConversation
from foretell.app.talk.parts import Answers, Limits, Workers
from foretell.core.errors import ParameterError
from foretell.core.timeline import Event

if TYPE_CHECKING:
    from pipecat.processors.frame_processor import FrameProcessor

PATIENCE = 30.0  # seconds for open questions when the pipeline ends


def frame_processor(assistant: Answers, *, limits: Limits | None = None) -> FrameProcessor:
    """The processor; put it between the transcriptions and the voice of a pipeline.

    Parameters
    ----------
    assistant : Answers
        From `foretell.app.talk.assistant.build_assistant`.
    limits : Limits, optional

    Raises
    ------
    ParameterError
        pipecat is not installed.
    """
    try:
        from pipecat.frames import frames
        from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
    except ImportError as error:
        raise ParameterError(
            f"{error.name} is not installed, and a frame processor is a part of it. Install it "
            "with: pip install pipecat-ai"
        ) from error

    class ForetellProcessor(FrameProcessor):
        """Looks up while the user speaks, and answers with sources."""

        def __init__(self) -> None:
            super().__init__()
            self._live: LiveConversation | None = None
            self._workers = Workers()
            self._said: asyncio.Queue[Event] = asyncio.Queue()
            self._quiet = asyncio.Event()
            self.answers: list[dict[str, Any]] = []

        async def process_frame(self, frame: frames.Frame, direction: FrameDirection) -> None:
            """Take in a frame; transcriptions end here, everything else goes on."""
            await super().process_frame(frame, direction)
            if isinstance(frame, frames.StartFrame):
                self._live = LiveConversation(assistant, [self._hear], self._workers, limits=limits)
                self._speaking = self.create_task(self._speak())
            elif isinstance(frame, frames.InterimTranscriptionFrame):
                self._put("partial", text=frame.text)
                return
            elif isinstance(frame, frames.TranscriptionFrame):
                self._put("final", text=frame.text)
                return
            elif isinstance(frame, frames.UserStoppedSpeakingFrame):
                self._put("end_of_turn")
            elif isinstance(frame, frames.InterruptionFrame):
                self._put("barge_in")
            elif isinstance(frame, (frames.EndFrame, frames.CancelFrame)):
                await self._end(patient=isinstance(frame, frames.EndFrame))
            await self.push_frame(frame, direction)

        def _put(self, kind: str, **data: Any) -> None:
            if self._live is not None:
                self._live.put(kind, data)

        def _hear(self, event: Event) -> None:
            if event.kind == "say":
                self._said.put_nowait(event)
            self._quiet.set()

        async def _speak(self) -> None:
            while True:
                event = await self._said.get()
                self.answers.append(dict(event.data))
                await self.push_frame(frames.LLMFullResponseStartFrame())
                await self.push_frame(frames.LLMTextFrame(event["text"]))
                await self.push_frame(frames.LLMFullResponseEndFrame())
                self._said.task_done()

        async def _end(self, *, patient: bool) -> None:
            if self._live is None:
                return
            try:
                async with asyncio.timeout(PATIENCE if patient else 0.0):
                    while not self._live.quiet:
                        self._quiet.clear()
                        await self._quiet.wait()
                    await self._said.join()
            except TimeoutError:
                pass
            await self.cancel_task(self._speaking)
            await self._live.close()
            self._live = None
            self._workers.close()

    return ForetellProcessor()
