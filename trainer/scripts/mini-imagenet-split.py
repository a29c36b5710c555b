#!/usr/bin/env python3
"""Lay out mini-ImageNet for `kind = "mini-imagenet"` from a folder of its 100 x 600 pictures.

    trainer/scripts/mini-imagenet-split.py PICTURES LISTS OUTPUT

PICTURES holds CLASS/FILE.jpg at any depth. LISTS holds the field's session_1.txt to session_9.txt. OUTPUT gets
`images/` (links to the pictures) and `split/train.csv`, `split/test.csv`.

The lists name the training pictures of base classes and five shots of every new class. A base class is tested on the
100 pictures that no list names, as the field does. Which 100 pictures of a new class the field tests on is not
published, so they are drawn here, with a fixed seed, from those that no list names.
"""

import pathlib
import random
import sys

SEED = 1
TEST_EACH = 100


def files_in(lists):
    """The names of all pictures in the lists, whose paths may have been written on Windows."""
    named = set()
    for session in range(1, 10):
        for line in (lists / f"session_{session}.txt").read_text(encoding="utf-8-sig").split():
            named.add(line.replace("\\", "/").rsplit("/", 1)[-1])
    return named


def main(pictures, lists, output):
    listed = files_in(lists)
    classes = {}
    for path in pictures.rglob("*.jpg"):
        classes.setdefault(path.parent.name, {})[path.name] = path.resolve()
    if len(classes) != 100 or any(len(files) != 600 for files in classes.values()):
        sys.exit(f"{pictures} holds {len(classes)} classes; expected 100 with 600 pictures each")
    (output / "images").mkdir(parents=True)
    (output / "split").mkdir()
    draw = random.Random(SEED)
    rows = {"train": [], "test": []}
    for name, files in sorted(classes.items()):
        unlisted = sorted(set(files) - listed)
        test = set(unlisted if len(unlisted) == TEST_EACH else draw.sample(unlisted, TEST_EACH))
        for file in sorted(files):
            rows["test" if file in test else "train"].append(f"{file},{name}")
            (output / "images" / file).symlink_to(files[file])
    for part, lines in rows.items():
        (output / "split" / f"{part}.csv").write_text("\n".join(["filename,label", *lines]) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*map(pathlib.Path, sys.argv[1:]))
