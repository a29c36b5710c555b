"""Writes combined-answer.json: the combined answer and its border (docs/src/how/answers.md) in numpy, for tests to hold
ours to.

    python3 runtime/state/src/answer/combined-answer.py

Written from the formulas alone, in float64; features are multiples of 1/64, so that half precision stores them exactly.
"""

import json
import math
import pathlib

import numpy as np

INPUTS, HIDDEN, OUTPUTS, VIEWS, BASE, LEARNED, SHOTS, PICTURES = 6, 8, 4, 3, 3, 2, 3, 5
WEIGHTS = {"targets": 0.2, "aligned": 0.3, "means": 1.0, "discriminant": 2.0}
DEVIATIONS = [0.3, 0.7, 1.9]
# As many shots a base class's mean counts beside those that the device adds.
BASE_WEIGHT = 10
# How many observations the bundle's covariance counts as, beside the shots.
PRIOR = 300

# Large enough for the scatter of the shots to matter.
FACTOR = 4.0

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
axes, damping, factor = signed(1, INPUTS), np.array([0.4]), FACTOR
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


def multiple():
    """How many shots the classes have on average, twenty of one at the most, as a multiple of five: 1 to 4."""
    counts = [min(20, int((classes == label).sum())) for label in set(classes)]
    return min(4.0, max(1.0, np.mean(counts) / 5))


def damping_by(kept):
    """The inverse of the identity and the scatter of these shots around their class means, where the covariance is whitened."""
    scatter = np.eye(INPUTS)
    for label in set(classes[shot] for shot in kept):
        clean = np.array([root(shots[shot][0]) for shot in own(kept, label)])
        if len(clean) > 1:
            for residual in clean - clean.mean(axis=0):
                scatter += np.outer(whiten(residual), whiten(residual)) / PRIOR * multiple()
    return np.linalg.inv(scatter)


def narrowing():
    """How much less far base classes are spread once they are damped."""
    middle = whitened - whitened.mean(axis=0)
    return np.einsum("ci,ij,cj", middle, damping_by(range(len(classes))), middle) / (middle**2).sum()


def scores(x, head_weights, kept, weights=WEIGHTS, scattered=None):
    """Scores of every class for a picture, from the shots `kept`, by the scatter of the same shots or of others."""
    damped = damping_by(kept if scattered is None else scattered)
    narrowed = narrowing()
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
        mean = unit(added + (BASE_WEIGHT * directions[label] if label < BASE else 0))
        total += weights["means"] * direct(x) @ mean / DEVIATIONS[1] / multiple()
        added = whiten(sum((contribution(shots[shot], root) for shot in own(kept, label)), np.zeros(INPUTS)))
        if label < BASE:
            centre_of_class = (added + BASE_WEIGHT * whitened[label]) / (count + BASE_WEIGHT)
        else:
            centre_of_class = added / count
        discriminant = whiten(root(x)) @ damped @ centre_of_class - 0.5 * centre_of_class @ damped @ centre_of_class
        total += weights["discriminant"] * discriminant / DEVIATIONS[2] / narrowed
        result.append(total / sum(weights.values()))
    return result


def discounted(head_weights):
    """Half of the aligned head's weight goes to the head of phase 2: phase 3 has trained on the shots."""
    if len(head_weights) < 2:
        return head_weights
    (first, weight), (second, aligned_weight) = head_weights
    return [(first, weight + aligned_weight / 2), (second, aligned_weight / 2)]


def left_out(head_weights):
    """Scores of every shot's clean view, its own class known by the others alone, and they alone scatter."""
    every = range(len(classes))
    result = []
    for sample in every:
        without = [shot for shot in every if shot != sample]
        row = scores(shots[sample][0], head_weights, every, scattered=without)
        row[classes[sample]] = scores(shots[sample][0], head_weights, without)[classes[sample]]
        result.append(row)
    return result


def left_out_views(sample, head_weights, weights=WEIGHTS):
    """Scores of a shot's views, its own class as if it had all of its shots and yet did not know this one."""
    every = range(len(classes))
    label = classes[sample]
    without = [shot for shot in every if shot != sample]
    others = [shot for shot in without if classes[shot] == label]
    count = len(others) + 1
    result = []
    for view in shots[sample]:
        row = scores(view, head_weights, every, weights, without)
        fewer = scores(view, head_weights, without, weights)[label]
        # What another shot less costs, on average.
        fewest = np.mean([
            scores(view, head_weights, [shot for shot in without if shot != other], weights, without)[label]
            for other in others
        ])
        row[label] = fewer + (count - 2) / count * (fewer - fewest)
        result.append(row)
    return result


def lead(row, label):
    """How far the best learned class leads the best base class, and whether the best of the label's side is the label."""
    known, new = row[:BASE], row[BASE:]
    best = int(np.argmax(known)) if label < BASE else BASE + int(np.argmax(new))
    return max(new) - max(known), best == label


def evidence(head_weights, weights=WEIGHTS):
    """(lead, right, share) of both sides' samples."""
    every = range(len(classes))
    sides = [[], []]
    for x, label in zip(aside, aside_classes):
        sides[0].append((*lead(scores(x, head_weights, every, weights), label), label, RATIO))
    for shot in every:
        if classes[shot] < BASE:
            without = [other for other in every if other != shot]
            weighed = discounted(head_weights)
            row = scores(shots[shot][0], weighed, every, weights, without)
            row[classes[shot]] = scores(shots[shot][0], weighed, without, weights)[classes[shot]]
            sides[0].append((*lead(row, classes[shot]), classes[shot], 1.0))
        else:
            # The clean view counts as much as the others together.
            for view, row in enumerate(left_out_views(shot, discounted(head_weights), weights)):
                factor = VIEWS / 2 if view == 0 else VIEWS / 2 / (VIEWS - 1)
                sides[1].append((*lead(row, classes[shot]), classes[shot], factor))
    result = []
    for side in sides:
        labels = [label for _, _, label, _ in side]
        share = lambda label: 1 / (labels.count(label) * len(set(labels)))
        result.append(np.array([(l, right, ratio * share(label)) for l, right, label, ratio in side]))
    return result


def spread(side):
    of_right = side[side[:, 1] > 0]
    leads, shares = of_right[:, 0], of_right[:, 2]
    mean = shares @ leads / shares.sum()
    deviation = math.sqrt(shares @ (leads - mean) ** 2 / shares.sum())
    return leads, shares, mean, deviation, shares.sum() ** 2 / (shares**2).sum()


def expected(base, new, shift):
    leads, shares, _, deviation, count = spread(base)
    width = 2.34 * deviation * max(count, 1) ** -0.2
    x = np.clip((leads + shift) / width, -1, 1)
    kept = shares.sum() - shares @ (0.25 * (2 + x * (3 - x**2)))
    _, shares, mean, deviation, _ = spread(new)
    return kept, shares.sum() * 0.5 * math.erfc(-(mean + shift) / deviation / math.sqrt(2))


def border(balance, head_weights):
    """Shift, and accuracies to be expected of base classes and learned ones."""
    of_base, mixtures = balance
    base, new = evidence(head_weights)
    share = BASE / (BASE + LEARNED)
    overall = lambda both: share * both[0] + (1 - share) * both[1]
    means = {"targets": 0.0, "aligned": 0.0, "means": 1.0, "discriminant": 0.0}
    least = overall(expected(*evidence([], means), 0.0)) if len(mixtures) > 1 else 0.0
    ends = []
    for side, kernel in (base, True), (new, False):
        _, _, _, deviation, count = spread(side)
        width = 2.34 * deviation * max(count, 1) ** -0.2 if kernel else deviation
        ends.append((min(-side[:, 0]) - width, max(-side[:, 0]) + width))
    low, high = min(end[0] for end in ends) - 0.2, max(end[1] for end in ends) + 0.2
    shifts = np.linspace(low, high, 257)
    best = None
    for mixture in mixtures:

        def value(shift):
            both = expected(base, new, shift)
            mean = 1 / (of_base / max(both[0], 1e-3) + (1 - of_base) / max(both[1], 1e-3))
            return mixture * mean + (1 - mixture) * overall(both)

        values = np.array([value(shift) for shift in shifts])
        good = shifts[values >= values.max() * (1 - 1e-5)]
        chosen = (good[0] + good[-1]) / 2
        both = expected(base, new, chosen)
        if best is None or overall(both) > overall(best[1:]) + 1e-5:
            best = (chosen, *both)
        if overall(both) >= least - 1e-5:
            return chosen, *both
    return best


def plain(value):
    if isinstance(value, dict):
        return {name: plain(of) for name, of in value.items()}
    return np.asarray(value).ravel().tolist()


both = [(phase_2, WEIGHTS["targets"]), (aligned, WEIGHTS["aligned"])]
alone = [(phase_2, WEIGHTS["targets"] + WEIGHTS["aligned"])]
every = range(len(classes))
RATIO = 0.9
BALANCES = {
    "keep-base": (0.75, [0.2]),
    "balanced": (0.5, [0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2]),
    "favour-new": (0.5, [1.0]),
}
golden = {
    "shape": {"inputs": INPUTS, "hidden": HIDDEN, "outputs": OUTPUTS},
    "base": BASE,
    "views": VIEWS,
    "weights": WEIGHTS,
    "scatter_prior": PRIOR,
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
# The border, of classes whose pictures are alike: base classes as a workstation would know them, learned ones by shots.
def alike(labels, *views):
    noise = 0.35 * random.normal(size=(len(labels), *views, INPUTS))
    return np.round(np.abs(middles[labels].reshape(len(labels), *[1 for _ in views], INPUTS) + noise) * 64) / 64


def halves(x):
    """As half precision stores them."""
    return x.astype(np.float16).astype(float)


middles = rows(BASE + LEARNED, INPUTS)
images = [alike(np.repeat(label, 30)) for label in range(BASE)]
centre = np.mean(np.concatenate(images), axis=0).astype(np.float32).astype(float)
directions = halves(np.array([direct(own).mean(axis=0) for own in images]))
whitened = halves(np.array([whiten(root(own)).mean(axis=0) for own in images]))
classes = np.array([0] + [BASE + shot // 5 for shot in range(LEARNED * 5)])
shots = alike(classes, VIEWS)
aside_classes = np.arange(8 * BASE) % BASE
aside = alike(aside_classes)
every = range(len(classes))
golden["border"] = {
    "accuracy_ratio": RATIO,
    **{
        name: plain(value)
        for name, value in {
            "centre": centre,
            "directions": directions,
            "whitened": whitened,
            "classes": classes,
            "shots": shots,
            "set_aside": aside,
            "set_aside_classes": aside_classes,
            "left_out_views": [left_out_views(shot, discounted(both)) for shot in every if classes[shot] >= BASE],
            "threshold_views": [left_out_views(shot, both) for shot in every if classes[shot] >= BASE],
            **{name: border(balance, both) for name, balance in BALANCES.items()},
        }.items()
    },
}
# More than five shots of each class.
classes = np.array([0] + [BASE + shot // 12 for shot in range(LEARNED * 12)])
shots = alike(classes, VIEWS)
every = range(len(classes))
golden["many"] = {
    name: plain(value)
    for name, value in {
        "classes": classes,
        "shots": shots,
        "scores": [scores(picture, both, every) for picture in pictures],
        "left_out": left_out(both),
    }.items()
}
path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps(golden, indent=1) + "\n")
