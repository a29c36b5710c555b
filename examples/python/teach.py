"""Teaches a device classes, asks it about other pictures, and takes the lesson back:

    python teach.py BUNDLE STATE LABEL=FOLDER... PICTURE...

runtime/bindings/python/README.md says how to install the package.
"""

import sys
from pathlib import Path

import orco

SUFFIXES = {".jpg", ".jpeg", ".jfif", ".jpe", ".mpo", ".png", ".webp"}


def pictures_in(folder: str) -> list[Path]:
    """The pictures of a folder, in any format that is read."""
    return sorted(path for path in Path(folder).iterdir() if path.suffix.lower() in SUFFIXES)


def say(learner: orco.Learner, pictures: list[str]) -> None:
    """Prints what pictures show, and what is next likely."""
    # As a camera would give them: arrays of uint8, [height, width, 3].
    frames = (orco.read_picture(picture) for picture in pictures)
    for picture, answer in zip(pictures, learner.classify(frames, most=2)):
        doubt = "" if answer.known else " - but it is like nothing known"
        print(f"{picture}:", *(f"{label} ({score:.2f})" for label, score in answer.scores), end=f"{doubt}\n")


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit("usage: teach.py BUNDLE STATE LABEL=FOLDER... PICTURE...")
    bundle, state, *rest = sys.argv[1:]
    lessons = dict(argument.split("=", 1) for argument in rest if "=" in argument)
    pictures = [argument for argument in rest if "=" not in argument]
    try:
        learner = orco.Learner(bundle, state)
        report = learner.learn({label: pictures_in(folder) for label, folder in lessons.items()})
        recognised = "unknown" if report.new_accuracy is None else f"{report.new_accuracy:.0%}"
        print(f"learned; of the shots are recognised: {recognised}; room for {report.free_targets} more things")
        say(learner, pictures)
        report = learner.undo()
        print(f"undone; room for {report.free_targets} more things")
        say(learner, pictures)
    except (orco.OrcoError, OSError) as error:
        sys.exit(f"error: {error}")


main()
