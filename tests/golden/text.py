#!/usr/bin/env python3
"""The losses of phases 2 and 3 by the paper's text, written down once more in numpy.

Writes `text-vectors.safetensors` beside this file: made-up inputs, and for every setting the three losses and the
gradient of their sum with respect to the head. `tests/tests/golden_text.rs` holds the Rust code to them.

    python3 tests/golden/text.py          writes the file
    python3 tests/golden/text.py --check  says whether the file holds what would be written

It needs Python 3 and numpy, and shares no code with the rest of the repository. Gradients are complex-step derivatives,
exact to rounding, so that no derivation by hand stands between the equations and the numbers.
"""

import json
import pathlib
import struct
import sys

import numpy as np

FILE = pathlib.Path(__file__).with_name("text-vectors.safetensors")

INPUTS, HIDDEN, DIMENSION = 5, 9, 6
BASE, INCREMENTAL, FREE = 4, 3, 1
TEMPERATURE = 0.07

# The samples of a batch, each with two views. Class 1 and class 5 are not in the batch of phase 3.
PHASE_3 = [0, 6, 2, 4, 4, 3, 0, 6]
# Class 2 is not in the batch of phase 2, whose classes are the base classes.
PHASE_2 = [0, 3, 1, 1, 0, 3, 3, 0]

# What the published program does, and the text's reading of it. `clean_*`: which targets are rows of PSCL unperturbed.
PROGRAM = {
    "negatives_only": False,
    "clean_assigned": False,
    "clean_free": False,
    "cross_entropy": 0.5,
    "cross_entropy_incremental": False,
    "orthogonality_all": False,
}
TEXT = {
    "negatives_only": True,
    "clean_assigned": True,
    "clean_free": True,
    "cross_entropy": 1.0,
    "cross_entropy_incremental": True,
    "orthogonality_all": True,
}
CASES = {"program": PROGRAM, "text": TEXT}
CASES |= {name: PROGRAM | {name: TEXT[name]} for name in PROGRAM}


def unit(rows):
    # Not numpy's norm, which takes absolute values and so is not analytic.
    return rows / np.sqrt((rows * rows).sum(axis=-1, keepdims=True))


def log_sum_exp(values):
    highest = values.real.max()
    return highest + np.log(np.exp(values - highest).sum())


def project(head, features):
    """g(x) = w2 relu(w1 x + b1) + b2, brought to the unit sphere."""
    hidden = features @ head["w1"].T + head["b1"]
    hidden = np.where(hidden.real > 0, hidden, 0)
    return unit(hidden @ head["w2"].T + head["b2"])


def pscl(rows, labels, negatives_only):
    """Mean over anchors of the mean over their positives p of -log(e^{s_p} / sum of e^{s_k}): k runs over all other rows,
    or over the negatives alone (Eq. 6). An anchor is a row with a positive and, for the latter, a negative."""
    losses = []
    for anchor, own in enumerate(labels):
        similar = rows @ rows[anchor] / TEMPERATURE
        positive = (labels == own) & (np.arange(len(labels)) != anchor)
        below = labels != own if negatives_only else np.arange(len(labels)) != anchor
        if positive.any() and below.any():
            losses.append(log_sum_exp(similar[below]) - similar[positive].mean())
    return sum(losses) / len(losses)


def cross_entropy(z, labels, targets, first):
    """Mean of -log softmax of the cosines with the targets of classes `first` and later (Eq. 5)."""
    losses = [log_sum_exp(targets[first:] @ row) - targets[label] @ row for row, label in zip(z, labels)]
    return sum(losses) / len(losses) if losses else 0.0


def orth(z, labels, targets, known, first):
    """L_TG over the means of the classes from `first` on that the batch has, the targets of the others and the free
    targets (Eq. 7)."""
    rows = []
    for number, target in enumerate(targets):
        own = labels == number
        rows.append(unit(z[own].mean(axis=0)) if first <= number < known and own.any() else target)
    rows = np.stack(rows)
    return sum(log_sum_exp(rows @ row) for row in rows) / len(rows)


def losses(head, batch, targets, known, base, case):
    """PSCL, cross entropy with its weight, and ORTH."""
    z = project(head, batch["features"])
    labels = np.array(batch["classes"])
    both = np.concatenate([labels, labels])
    rows, row_labels = [z, batch["perturbed"]], [both, batch["perturbed_labels"], batch["perturbed_labels"]]
    if case["clean_assigned"]:
        rows.append(targets[:known])
        row_labels.append(np.arange(known))
    if case["clean_free"]:
        rows.append(targets[known:])
        row_labels.append(np.arange(known, len(targets)))
    new = both >= base
    first_of_entropy = base if case["cross_entropy_incremental"] else 0
    first_of_means = 0 if case["orthogonality_all"] else base
    return (
        pscl(np.concatenate(rows), np.concatenate(row_labels), case["negatives_only"]),
        case["cross_entropy"] * cross_entropy(z[new], both[new], targets[:known], first_of_entropy),
        orth(z[: len(labels)], labels, targets, known, first_of_means),
    )


def gradient(head, total):
    """The derivative of `total(head)` with respect to every entry of the head: Im f(x + ih) / h."""
    step = 1e-30
    derived = {}
    for name, values in head.items():
        slopes = np.zeros(values.shape)
        for index in np.ndindex(values.shape):
            moved = {other: entries.astype(complex) for other, entries in head.items()}
            moved[name][index] += 1j * step
            slopes[index] = total(moved).imag / step
        derived[name] = slopes
    return derived


def vectors():
    random = np.random.default_rng(20261125)

    def single(values):
        # What both sides start from is what f32 holds.
        return np.asarray(values, np.float32).astype(np.float64)

    head = {
        "w1": single(random.normal(size=(HIDDEN, INPUTS))),
        "b1": single(random.normal(size=HIDDEN)),
        "w2": single(random.normal(size=(DIMENSION, HIDDEN))),
        "b2": single(random.normal(size=DIMENSION)),
    }
    targets = single(unit(random.normal(size=(BASE + INCREMENTAL + FREE, DIMENSION))))
    arrays = {f"head.{name}": values.astype(np.float32) for name, values in head.items()}
    arrays["targets"] = targets.astype(np.float32)

    # In phase 2 every class counts as incremental: CE and ORTH then take all of them.
    for phase, classes, known, base in [(2, PHASE_2, BASE, 0), (3, PHASE_3, BASE + INCREMENTAL, BASE)]:
        features = single(random.normal(size=(2 * len(classes), INPUTS)))
        # Every perturbable target twice for each view: in phase 2 the free ones, in phase 3 all but the base classes'.
        perturbed_labels = np.tile(np.arange(BASE, len(targets)), 2)
        copies = np.tile(targets[perturbed_labels], (2, 1))
        # Much wider than the program's, so that perturbation shows in the numbers.
        width = 0.3
        moved = single(unit(copies + random.uniform(-width / 2, width / 2, copies.shape)))
        arrays[f"phase{phase}.features"] = features.astype(np.float32)
        arrays[f"phase{phase}.classes"] = np.array(classes, np.int64)
        arrays[f"phase{phase}.perturbed_labels"] = perturbed_labels.astype(np.int64)
        for kind, perturbed in [("moved", moved), ("still", copies)]:
            arrays[f"phase{phase}.{kind}.perturbed"] = perturbed.astype(np.float32)
            batch = {
                "features": features,
                "classes": classes,
                "perturbed": perturbed,
                "perturbed_labels": perturbed_labels,
            }
            for name, case in CASES.items():
                of = lambda head: losses(head, batch, targets, known, base, case)
                arrays[f"phase{phase}.{kind}.{name}.losses"] = np.array([np.real(loss) for loss in of(head)])
                for parameter, slopes in gradient(head, lambda head: sum(of(head))).items():
                    arrays[f"phase{phase}.{kind}.{name}.grad_{parameter}"] = slopes
    return arrays


KINDS = {np.dtype(np.float32): "F32", np.dtype(np.float64): "F64", np.dtype(np.int64): "I64"}


def serialised(arrays):
    """The safetensors format: length of the header, header as JSON, then the numbers, little-endian."""
    header, data = {}, b""
    # Widest numbers first, so that each lies on a multiple of its size.
    for name, values in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        values = np.ascontiguousarray(values)
        ends = [len(data), len(data) + values.nbytes]
        header[name] = {"dtype": KINDS[values.dtype], "shape": list(values.shape), "data_offsets": ends}
        data += values.astype(values.dtype.newbyteorder("<")).tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def read(content):
    length = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    kinds = {name: kind for kind, name in KINDS.items()}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        kind = kinds[entry["dtype"]].newbyteorder("<")
        yield name, np.frombuffer(data[first:last], kind).reshape(entry["shape"])


def main():
    arrays = vectors()
    if sys.argv[1:] == []:
        FILE.write_bytes(serialised(arrays))
        print(f"{FILE} is written: {len(arrays)} arrays")
        return
    if sys.argv[1:] != ["--check"]:
        sys.exit("usage: text.py [--check]")
    kept = dict(read(FILE.read_bytes()))
    if kept.keys() != arrays.keys():
        sys.exit(f"{FILE} holds other arrays; run text.py without --check")
    # Another build of numpy rounds otherwise.
    apart = [name for name in arrays if not np.allclose(kept[name], arrays[name], rtol=1e-6, atol=1e-9)]
    if apart:
        sys.exit(f"{FILE} differs in {', '.join(apart)}; run text.py without --check")
    print(f"{FILE} holds what the equations give")


if __name__ == "__main__":
    main()
