#!/usr/bin/env python3
"""Write docs/cli.md from the command line itself, so that the page cannot drift away from it.

scripts/cli_reference.py             rewrite
scripts/cli_reference.py --check     change nothing; exit 1 when the page is stale
"""

import re
import sys
from pathlib import Path
from typing import Any

import typer

from foretell.app.commands import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
INTRO = """\
# Commands and flags

Written by `scripts/cli_reference.py` from the program itself; {doc}`jobs` says what the commands
are for.
"""


def page(group: Any) -> str:
    """The whole page: the program, then one section for each command."""
    parts = [INTRO, "## foretell\n", str(group.help), flags(group.params), str(group.epilog)]
    for name, command in leaves(group):
        usage = folded(f"foretell {name}", [usage_of(p) for p in command.params])
        parts += [f"## foretell {name}\n", f"```text\n{usage}\n```\n", str(command.help)]
        parts.append(flags(command.params))
    return "\n".join(part.rstrip() + "\n" for part in parts if part.strip())


def leaves(group: Any, before: str = "") -> list[tuple[str, Any]]:
    """Every command with its whole name; a group is replaced by its commands."""
    found = []
    for name, command in group.commands.items():
        whole = f"{before}{name}"
        inside = getattr(command, "commands", None)
        found += [(whole, command)] if inside is None else leaves(command, f"{whole} ")
    return found


def folded(start: str, words: list[str], width: int = 80) -> str:
    """One command, in lines of at most ``width``; no parameter is broken."""
    lines = [start]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append(" " * len(start))
        lines[-1] += f" {word}"
    return "\n".join(lines)


def usage_of(parameter: Any) -> str:
    """How a parameter is written: FILE, --out PATH, [--time TEXT], [--json]."""
    if parameter.param_type_name == "argument":
        name = str(parameter.name).upper()
        return name if parameter.required else f"[{name}]"
    words = " ".join(filter(None, (parameter.opts[0], value_of(parameter))))
    return words if parameter.required else f"[{words}]"


def value_of(parameter: Any) -> str:
    """What follows a flag; empty for a switch."""
    if getattr(parameter, "is_flag", False):
        return ""
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is not None and high is not None:
        return f"{low}..{high}"
    return str(parameter.name).upper()


def flags(parameters: list[Any]) -> str:
    """A table of the parameters, or nothing."""
    rows = []
    for parameter in parameters:
        words = usage_of(parameter).strip("[]")
        default = parameter.default
        plain = isinstance(default, (str, int, float, Path)) and not isinstance(default, bool)
        fallback = "required" if parameter.required else f"`{default}`" if plain else ""
        meaning = re.sub(r"--[a-z-]+", r"`\g<0>`", parameter.help)
        rows.append(f"| `{words}` | {fallback} | {meaning} |")
    return "\n".join(["| flag | default | meaning |", "| --- | --- | --- |", *rows]) if rows else ""


def main(check: bool, target: Path = PAGE) -> int:
    new = page(typer.main.get_command(app))
    if target.is_file() and target.read_text(encoding="utf-8") == new:
        return 0
    if check:
        print(f"{target.name} is stale; run scripts/cli_reference.py")
        return 1
    target.write_text(new, encoding="utf-8")
    print(f"{target.name} rewritten")
    return 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
