"""``foretell talk`` and ``foretell replay``: their flags; heavy parts are imported inside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from foretell.app.guard import guarded


class _StartByDefault(TyperGroup):
    """``foretell talk pump --notes manuals``: without the name of a command it is ``start``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``start`` before anything that is no command and asks for no help."""
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["start", *args]
        return super().parse_args(ctx, args)


talk_app = typer.Typer(
    cls=_StartByDefault,
    help="Ask notes and a model while the answer is already being prepared; `start` may be left "
    "out: foretell talk --notes DIR.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


@talk_app.command()
@guarded
def start(
    model: Annotated[
        Path | None, typer.Argument(help="Folder of a fit, which the answers may use.")
    ] = None,
    notes: Annotated[
        Path | None,
        typer.Option("--notes", help="Folder of notes, or an index made by foretell find build."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve a page instead of asking in the terminal.")
    ] = False,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="Where to serve; beyond this machine only with a token in FORETELL_TOKEN.",
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for any.")] = 8321,
    record: Annotated[
        Path | None,
        typer.Option("--record", help="New file for what happened and when, as lines of JSON."),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm", help="smollm2, or the address of a compatible service, that words answers."
        ),
    ] = None,
    level: Annotated[
        float, typer.Option("--level", help="Share of wrong answers among those given.")
    ] = 0.1,
    whisper: Annotated[
        str | None,
        typer.Option(
            "--whisper",
            help="With --serve: folder or name of a Whisper model in CTranslate2's format. The "
            "voice is that of FORETELL_VOICE: .onnx file of Piper, or a voice of espeak-ng.",
        ),
    ] = None,
) -> None:
    """Ask in the terminal, or serve a page; what cannot be vouched for is withheld."""
    from foretell.app.talk.start import TalkRequest, run

    run(
        TalkRequest(
            model=model,
            notes=notes,
            serve=serve,
            host=host,
            port=port,
            record=record,
            llm=llm,
            level=level,
            whisper=whisper,
            voice=(os.environ.get("FORETELL_VOICE") or None) if serve else None,
        )
    )


@talk_app.command()
@guarded
def calibrate(
    questions: Annotated[
        Path,
        typer.Argument(
            help="Lines of JSON with question, answer (none: not in the notes), and maybe file."
        ),
    ],
    notes: Annotated[
        Path, typer.Option("--notes", help="Folder of notes, or an index made by foretell find.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where to keep it; default beside the notes, where talk looks."),
    ] = None,
    level: Annotated[
        float, typer.Option("--level", help="Share of wrong answers among those given.")
    ] = 0.1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Ask questions with known answers, and certify which answers may be given from now on."""
    from foretell.app.talk.command_calibrate import CalibrateRequest, run

    run(CalibrateRequest(questions=questions, notes=notes, out=out, level=level), as_json=json)


@guarded
def replay(
    file: Annotated[Path, typer.Argument(help="What --record wrote.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="New HTML file; default FILE with .html.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser", help="Open the page in the web browser.")
    ] = False,
) -> None:
    """Draw a recorded conversation: what was said, looked up, ready and answered, and when."""
    from foretell.app.talk.replaying import run

    run(file, out, browser=browser)
