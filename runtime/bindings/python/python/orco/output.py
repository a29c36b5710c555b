"""What a learner returns. Every value may be compared, copied and pickled, as by the processes of a pool."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Answer:
    """What a picture shows."""

    label: str
    """The likeliest class; empty if none may be answered, as with the option `scope="learned"` before anything is
    learned."""

    score: float
    """Its score: its probability, 0 to 1, where answers use the bundle's statistics, as with all shipped bundles, else
    a similarity, -1 to 1."""

    known: bool
    """Whether the picture is like anything that may be answered (the option `scope`); where it is not, the label is
    just the likeliest. Of known pictures, the share `false_alarms` of the learner's options is taken for unknown."""

    scores: list[tuple[str, float]] = field(repr=False)
    """The likeliest classes with their scores, highest first."""


@dataclass(frozen=True)
class Class:
    """A known class."""

    label: str
    """Its label."""

    learned: bool
    """Whether it was learned on the device."""


@dataclass(frozen=True)
class Counts:
    """How much is known."""

    base_classes: int
    """Classes that the bundle brought."""

    learned_classes: int
    """Classes that were learned since."""

    free_targets: int
    """Classes that can still be learned."""

    changes: int
    """Changes that can be undone."""


@dataclass(frozen=True)
class HistoryEntry:
    """A change that is remembered."""

    number: int
    """Its number, which it keeps; 0 for the state before all changes."""

    change: str
    """What was done, such as `learn`, the same as over HTTP; `start` for the state before all changes."""

    labels: list[str]
    """Labels of the classes that it was done to; an empty label where the class was purged."""

    when: int | None
    """When, in seconds since 1970; None where that was not known."""

    balance: Literal["keep-base", "balanced", "favour-new"]
    """How much base classes counted against learned ones from then on."""

    present: bool
    """Whether this entry is the present state."""


@dataclass(frozen=True)
class Report:
    """What a change did, measured on samples that the bundle set aside and on shots left out in turn (on the exemplars,
    where answers follow the paper). Shares are 0 to 1."""

    free_targets: int
    """Classes that can still be learned."""

    new_accuracy: float | None
    """Mean accuracy of the new classes; None where no sample says."""

    old_accuracy: tuple[float, float] | None
    """Mean accuracy of the classes known before: before the change, and after it; None where no sample says."""

    lost: list[tuple[str, float, float]]
    """Classes of which fewer samples are recognised than before: label, share before, share after; worst first."""

    confusions: list[tuple[str, str, float]]
    """Classes whose samples are now taken for another: label, the other's label, share; worst first."""


@dataclass(frozen=True)
class Backup:
    """What a backup holds."""

    learned_classes: int
    """Classes that were learned on the device."""

    exemplars: int
    """Stored exemplars."""

    pictures: int
    """Kept pictures of shots."""

    bytes: int
    """Bytes of the file."""


@dataclass(frozen=True)
class Upgrade:
    """What moving to another bundle did."""

    report: Report
    """How the new state answers."""

    classes: list[tuple[str, float | None, float | None]]
    """The classes in the order of learning: label, share of the shots that was recognised when they were learned, and
    is now; None where it is not known."""

    dropped: list[str]
    """Labels of classes that were given up, since no picture of them was kept."""
