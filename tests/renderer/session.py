"""Draws examples/session.svg: a real session of `orco`, output as printed, beside the pictures that it looks at.

    cargo build --release -p orco && python3 tests/renderer/session.py
"""

import base64
import os
import subprocess
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOTS = "examples/shots"
ASK = f"orco classify {SHOTS}/try/rubber-duck/[123].jpg"
LEARN = f"orco learn rubber-duck={SHOTS}/learn/rubber-duck"
# Command, caption of its pictures, their folder, how many.
BLOCKS = [
    (ASK, "before: three pictures", "try", 3),
    (LEARN, "five shots", "learn", 5),
    (ASK, "after: the same three", "try", 3),
]
LINE, FONT, LEFT, MARGIN, WIDTH = 19, 12.5, 262, 16, 1050
SIDE, GAP = 72, 6
STYLE = (
    f'text {{ font: {FONT}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d6dbe0; white-space: pre }} '
    '.command { fill: #8fd18a } .caption { fill: #57606a; font-family: system-ui, "DejaVu Sans", sans-serif }'
)


def printed(command, state):
    """Runs the command with the program just built and a state of its own."""
    environment = dict(os.environ, ORCO_STATE=state, PATH=f"{ROOT}/target/release:{os.environ['PATH']}")
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.rstrip("\n").split("\n")


def main():
    images, body, top = {}, [], MARGIN
    with tempfile.TemporaryDirectory() as state:
        for command, caption, folder, count in BLOCKS:
            lines = printed(command, state)
            body.append(f'<text class="caption" x="{MARGIN}" y="{top + 12}">{caption}</text>')
            for index in range(count):
                name = f"{folder}-{index + 1}"
                data = base64.b64encode((ROOT / SHOTS / folder / "rubber-duck" / f"{index + 1}.jpg").read_bytes()).decode()
                images[name] = f'<image id="{name}" width="{SIDE}" height="{SIDE}" href="data:image/jpeg;base64,{data}"/>'
                x, y = MARGIN + index % 3 * (SIDE + GAP), top + 20 + index // 3 * (SIDE + GAP)
                body.append(f'<use href="#{name}" x="{x}" y="{y}"/>')
            body.append(f'<text class="command" x="{LEFT + 14}" y="{top + 13}">$ {escape(command)}</text>')
            for number, line in enumerate(lines, 1):
                body.append(f'<text x="{LEFT + 14}" y="{top + 13 + number * LINE}">{escape(line)}</text>')
            rows = (count + 2) // 3
            top += max((1 + len(lines)) * LINE, 20 + rows * (SIDE + GAP)) + 16
    height = top - 6
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        "<title>orco learns the class rubber-duck from five shots</title>",
        f"<desc>A real session with models/everyday: {escape(ASK)}; {escape(LEARN)}; the first command again.</desc>",
        f"<style>{STYLE}</style>",
        "<defs>",
        *images.values(),
        "</defs>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#f3f4f6"/>',
        f'<rect x="{LEFT}" width="{WIDTH - LEFT}" height="{height}" rx="8" fill="#1b1f24"/>',
        *body,
        "</svg>",
        "",
    ]
    (ROOT / "examples/session.svg").write_text("\n".join(svg))


if __name__ == "__main__":
    main()
