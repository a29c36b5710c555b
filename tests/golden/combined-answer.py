"""Writes combined-answer.json: the combined answer (docs/src/how/answers.md) in numpy, for tests to hold ours to.

    python3 tests/golden/combined-answer.py

Written from the formulas alone, in float64; features are multiples of 1/64, so that half precision stores them exactly.
"""

import json
import pathlib

import numpy as np

INPUTS, HIDDEN, OUTPUTS, VIEWS, BASE, LEARNED, SHOTS, PICTURES = 6, 8, 4, 3, 3, 2, 3, 5
WEIGHTS = {"targets": 0.2, "aligned": 0.3, "means": 1.0, "discriminant": 2.0}
DEVIATIONS = [0.3, 0.7, 1.9]
# As many shots a base class's mean counts beside those that the device adds.
BASE_COUNTS = 10

random = np.random.default_rng(40)


def rows(*shape):
    return np.round(np.abs(random.normal(size=shape)) * 64) / 64


def signed(*shape):
    return np.round(random.normal(size=shape) * 64) / 64


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def head():
    return {"w1": signed(HIDDEN, INPUTS), "b1": signed(HIDDEN), "w2": signed(OUTPUTS, HIDDEN), "b2": signed(OUTPUTS)}


phase_2, aligned = head(), head()
targets = np.eye(OUTPUTS + 1, OUTPUTS) - 0.0
targets[OUTPUTS] = 0.5
centre, root_centre = rows(INPUTS), rows(INPUTS)
axes, damping, factor = signed(1, INPUTS), np.array([0.4]), 1.1
directions, whitened = signed(BASE, INPUTS), signed(BASE, INPUTS)
# Class of every shot; base class 0 has one more.
classes = np.array([0] + [BASE + shot // SHOTS for shot in range(LEARNED * SHOTS)])
shots = rows(len(classes), VIEWS, INPUTS)
pictures = rows(PICTURES, INPUTS)
# Targets 0.. are the base classes', the next ones the learned classes'.
assert BASE + LEARNED <= len(targets)


def project(x, head):
    return unit(np.maximum(x @ head["w1"].T + head["b1"], 0) @ head["w2"].T + head["b2"])


def direct(x):
    return unit(x - centre)


def root(x):
    return unit(np.sign(x) * np.sqrt(np.abs(x)) - root_centre)


def whiten(x):
    axis = unit(axes)
    return factor * (x - (x @ axis.T * damping) @ axis)


def contribution(shot, part):
    """What a shot adds to its class: the clean view half, the augmented ones the other half."""
    seen = part(shot)
    return 0.5 * seen[0] + 0.5 * seen[1:].mean(axis=0)


def own(kept, label):
    return [shot for shot in kept if classes[shot] == label]


def scores(x, head_weights, kept):
    """Scores of every class for a picture, from the shots `kept`."""
    result = []
    for label in range(BASE + LEARNED):
        count = len(own(kept, label))
        total = 0.0
        for head, weight in head_weights:
            if label < BASE:
                row = targets[label]
            else:
                row = unit(sum(contribution(shots[shot], lambda view: project(view, head)) for shot in own(kept, label)))
            total += weight * project(x, head) @ row / DEVIATIONS[0]
        added = sum((contribution(shots[shot], direct) for shot in own(kept, label)), np.zeros(INPUTS))
        mean = unit(added + (BASE_COUNTS * directions[label] if label < BASE else 0))
        total += WEIGHTS["means"] * direct(x) @ mean / DEVIATIONS[1]
        added = whiten(sum((contribution(shots[shot], root) for shot in own(kept, label)), np.zeros(INPUTS)))
        if label < BASE:
            centre_of_class = (added + BASE_COUNTS * whitened[label]) / (count + BASE_COUNTS)
        else:
            centre_of_class = added / count
        discriminant = whiten(root(x)) @ centre_of_class - 0.5 * centre_of_class @ centre_of_class
        total += WEIGHTS["discriminant"] * discriminant / DEVIATIONS[2]
        result.append(total / sum(WEIGHTS.values()))
    return result


def left_out(head_weights):
    """Scores of every shot's clean view, its own class known by the others alone."""
    every = range(len(classes))
    result = []
    for sample in every:
        row = scores(shots[sample][0], head_weights, every)
        without = [shot for shot in every if shot != sample]
        row[classes[sample]] = scores(shots[sample][0], head_weights, without)[classes[sample]]
        result.append(row)
    return result


def plain(value):
    if isinstance(value, dict):
        return {name: plain(of) for name, of in value.items()}
    return np.asarray(value).ravel().tolist()


both = [(phase_2, WEIGHTS["targets"]), (aligned, WEIGHTS["aligned"])]
alone = [(phase_2, WEIGHTS["targets"] + WEIGHTS["aligned"])]
every = range(len(classes))
golden = {
    "shape": {"inputs": INPUTS, "hidden": HIDDEN, "outputs": OUTPUTS},
    "base": BASE,
    "views": VIEWS,
    "weights": WEIGHTS,
    "deviations": DEVIATIONS,
    "factor": factor,
    **{
        name: plain(value)
        for name, value in {
            "phase_2": phase_2,
            "aligned": aligned,
            "targets": targets,
            "centre": centre,
            "root_centre": root_centre,
            "axes": axes,
            "damping": damping,
            "directions": directions,
            "whitened": whitened,
            "classes": classes,
            "shots": shots,
            "pictures": pictures,
            "scores": [scores(picture, both, every) for picture in pictures],
            "scores_before_alignment": [scores(picture, alone, every) for picture in pictures],
            "left_out": left_out(both),
            "left_out_before_alignment": left_out(alone),
        }.items()
    },
}
path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps(golden, indent=1) + "\n")
