from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from .options import LearnerOptions, RestoreOptions

_Path: TypeAlias = str | PathLike[str]
# A JPEG, PNG or WebP file, or rows of red, green and blue bytes, [height, width, 3]; of OpenCV's frames, frame[:, :, ::-1].
_Picture: TypeAlias = _Path | NDArray[np.uint8]
# Any number of pictures, such as a list of them, or an array [pictures, height, width, 3].
_Pictures: TypeAlias = Iterable[_Picture] | NDArray[np.uint8]
# Pictures, or features as Learner.shot_features gives them.
_Shots: TypeAlias = _Pictures | NDArray[np.float32]

# How much base classes count against learned ones, when the border between both is chosen.
_Balance: TypeAlias = Literal["keep-base", "balanced", "favour-new"]

__all__ = [
    "Answer",
    "Backup",
    "BackupError",
    "BusyError",
    "ChangeError",
    "Class",
    "Counts",
    "EngineError",
    "HistoryEntry",
    "Learner",
    "OpenError",
    "OrcoError",
    "PictureError",
    "Report",
    "Upgrade",
    "__version__",
    "read_picture",
    "restore",
    "upgrade",
]

__version__: str

@final
class Answer:
    """What a picture shows. It may be pickled, as by the processes of a pool."""

    def __new__(cls, label: str, score: float, known: bool, scores: list[tuple[str, float]]) -> Answer: ...
    def __getnewargs__(self) -> tuple[str, float, bool, list[tuple[str, float]]]: ...

    @property
    def label(self) -> str:
        """The likeliest class; empty if none may be answered, as with the option `scope="learned"` before anything is
        learned."""

    @property
    def score(self) -> float:
        """Its score: how probable it is, 0 to 1, where answers use the bundle's statistics, as with all shipped
        bundles, else how near, -1 to 1."""

    @property
    def known(self) -> bool:
        """Whether the picture is like anything that may be answered (the option `scope`); where it is not, the label is
        the best of bad ones. Of known pictures, the share `false_alarms` of the learner's options is taken for
        unknown."""

    @property
    def scores(self) -> list[tuple[str, float]]:
        """The likeliest classes with their scores, highest first."""

@final
class Class:
    """A known class."""

    @property
    def label(self) -> str:
        """Its label."""

    @property
    def learned(self) -> bool:
        """Whether it was learned on the device."""

@final
class Counts:
    """How much is known."""

    @property
    def base_classes(self) -> int:
        """Classes that the bundle brought."""

    @property
    def learned_classes(self) -> int:
        """Classes that were learned since."""

    @property
    def free_targets(self) -> int:
        """Classes that can still be learned."""

    @property
    def changes(self) -> int:
        """Changes that can be undone."""

@final
class HistoryEntry:
    """A change that is remembered."""

    @property
    def number(self) -> int:
        """Its number, which it keeps; 0 for the state before all changes."""

    @property
    def change(self) -> str:
        """What was done, such as `learn`, the same as over HTTP; `start` for the state before all changes."""

    @property
    def labels(self) -> list[str]:
        """Labels of the classes that it was done to; an empty label where the class was purged."""

    @property
    def when(self) -> int | None:
        """When, in seconds since 1970; None where that was not known."""

    @property
    def balance(self) -> _Balance:
        """How much base classes counted against learned ones from then on."""

    @property
    def present(self) -> bool:
        """Whether the learner is there now."""

@final
class Report:
    """What a change did, measured on samples that the bundle set aside and on shots left out in turn (on the exemplars,
    where answers follow the paper). Shares are 0 to 1."""

    @property
    def free_targets(self) -> int:
        """Classes that can still be learned."""

    @property
    def new_accuracy(self) -> float | None:
        """Mean accuracy of the new classes; None where no sample says."""

    @property
    def old_accuracy(self) -> tuple[float, float] | None:
        """Mean accuracy of the classes known before: before the change, and after it; None where no sample says."""

    @property
    def lost(self) -> list[tuple[str, float, float]]:
        """Classes of which fewer samples are recognised than before: label, share before, share after; worst
        first."""

    @property
    def confusions(self) -> list[tuple[str, str, float]]:
        """Classes whose samples are now taken for another: label, the other's label, share; worst first."""

@final
class Backup:
    """What a backup holds."""

    @property
    def learned_classes(self) -> int:
        """Classes that were learned on the device."""

    @property
    def exemplars(self) -> int:
        """Stored exemplars."""

    @property
    def pictures(self) -> int:
        """Kept pictures of shots."""

    @property
    def bytes(self) -> int:
        """Bytes of the file."""

@final
class Upgrade:
    """What going over to another bundle did."""

    @property
    def report(self) -> Report:
        """How the new state answers."""

    @property
    def classes(self) -> list[tuple[str, float | None, float | None]]:
        """The classes in the order of learning: label, share of the shots that was recognised when they were learned,
        and is now; None where it is not known."""

    @property
    def dropped(self) -> list[str]:
        """Labels of classes that were given up, since no picture of them was kept."""

@final
class Learner:
    """A device that classifies pictures and learns new classes: an opened bundle and the state that was learned on it.

    Any thread may use a learner; its calls wait for one another, and other threads of Python go on meanwhile. Learners
    on the same state, in this process or in others, change it one at a time. A change is made as a whole, and saved,
    or nothing happened. What is doubtful about a state that was read or saved becomes a RuntimeWarning.

    A process that is forked after this package has computed features cannot compute any: that raises EngineError.
    So does every call of a learner that another thread was using at the fork. Start workers by multiprocessing's
    "spawn" or "forkserver", and let each open a learner.
    """

    def __new__(cls, bundle: _Path, state: _Path, options: LearnerOptions | None = None) -> Learner:
        """Opens a bundle's folder and the folder of the state, which need not be there yet.

        Raises OpenError if the bundle, its signature or the state cannot be used.
        """

    def classify(self, pictures: _Pictures, *, most: int = 5) -> list[Answer]:
        """Says what pictures show: an answer a picture, with the scores of the `most` likeliest classes. A picture is a
        path or an RGB array of uint8 [height, width, 3]; OpenCV's frames are BGR, so give `frame[:, :, ::-1]`.

        Raises PictureError if one cannot be used, EngineError if the backbone fails.
        """

    def classify_features(self, features: NDArray[np.float32], *, most: int = 5) -> list[Answer]:
        """Answers for pictures whose features [pictures, features] are known, as `classify` gives them."""

    def features(self, pictures: _Pictures) -> NDArray[np.float32]:
        """Features of pictures, to be classified: [pictures, features]."""

    def shot_features(self, pictures: _Pictures) -> NDArray[np.float32]:
        """Features of all views of pictures, to be learned: [shots, views, features]."""

    def learn(self, classes: Mapping[str, _Shots]) -> Report:
        """Learns new classes in one session.

        Raises PictureError if a shot cannot be used, ChangeError if the change is refused, BusyError if another
        process is changing the state; nothing was changed then.
        """

    def add(self, label: str, shots: _Shots) -> Report:
        """Gives a known class, of the bundle or learned, further shots. Raises as `learn` does."""

    def forget(self, label: str) -> Report:
        """Forgets a learned class; `undo` brings it back. Raises ChangeError or BusyError."""

    def rename(self, old: str, new: str) -> None:
        """Gives a learned class another label. Raises ChangeError or BusyError."""

    def move_shot(self, label: str, number: int, to: str) -> Report:
        """Moves a stored shot of a class, numbered from 1 as they were stored, to another known class. Raises
        ChangeError or BusyError."""

    def backup(self, path: _Path, *, replace: bool = False) -> Backup:
        """Writes all that is known into a file, as a whole or not at all; `restore` puts it into a replacement. What
        had to be left out becomes a RuntimeWarning, and that a power cut could still lose the file.

        replace: whether a file that is there already may be replaced.

        Raises BackupError if the file is there or cannot be written, ChangeError if nothing was learned, BusyError.
        """

    def export(self, label: str, path: _Path, *, device: str | None = None, replace: bool = False) -> int:
        """Writes a learned class into a pack, for another device with the same bundle, and returns the bytes of the file.
        It holds exemplars and no picture, and is not signed: `orco export --sign` signs. That
        a power cut could still lose the file becomes a RuntimeWarning.

        device: the name of this one, for whoever receives the pack.
        replace: whether a file that is there already may be replaced.

        Raises ChangeError if the class was not learned here, OSError if the file is there or cannot be written.
        """

    def set_balance(self, balance: _Balance) -> Report:
        """Changes how much base classes count against learned ones, and chooses the border between both anew. Nothing is
        trained. Raises ChangeError if the bundle's answers have no border, or BusyError."""

    def balance(self) -> _Balance:
        """How much base classes count against learned ones."""

    def history(self) -> list[HistoryEntry]:
        """The changes that are remembered, oldest first; the first entry is the state before all of them."""

    def undo(self, changes: int = 1) -> Report:
        """Undoes the last changes; called again, it goes further back. `redo` redoes them. Raises
        ChangeError or BusyError."""

    def redo(self, changes: int = 1) -> Report:
        """Redoes the last changes that were undone. Raises ChangeError or BusyError."""

    def align(self) -> Report | None:
        """Aligns the head to what was learned; part of the last change, and undone with it. Returns `None` where there is
        nothing to be done: with `LearnerOptions(align="now")`, changes do it. Raises ChangeError or BusyError."""

    def refresh(self) -> None:
        """Reads the state anew, which another process may have changed. Every change does so by itself."""

    def classes(self) -> list[Class]:
        """The known classes, those of the bundle first."""

    def counts(self) -> Counts:
        """How much is known."""

class OrcoError(Exception):
    """Something that this package cannot do, and why."""

class OpenError(OrcoError):
    """The bundle, its signature or the state cannot be used."""

class PictureError(OrcoError):
    """A picture cannot be used."""

class EngineError(OrcoError):
    """The backbone cannot be started or fails."""

class ChangeError(OrcoError):
    """A change is refused; nothing was changed."""

class BackupError(OrcoError):
    """A backup's file is there already, cannot be read or written, or holds no backup."""

class BusyError(ChangeError):
    """Another process is changing the same state; nothing was changed. To be tried again."""

def read_picture(path: _Path) -> NDArray[np.uint8]:
    """Reads a JPEG, PNG or WebP file as the learner does: upright, on white where it is transparent, [height, width, 3].

    Raises PictureError if it cannot be used.
    """

def restore(bundle: _Path, state: _Path, path: _Path, options: RestoreOptions | None = None) -> Backup:
    """Puts what `Learner.backup` wrote into the state's folder of a device, at once or not at all. A learner that is
    open on that folder sees it with its next change or `refresh`.

    Raises BackupError if the file is no sound backup, ChangeError if it is refused, BusyError, and OpenError if the
    bundle or its signature cannot be used; nothing was changed then.
    """

def upgrade(
    bundle: _Path,
    state: _Path,
    options: LearnerOptions | None = None,
    *,
    force: bool = False,
    give_up_unkept: bool = False,
) -> Upgrade:
    """Learns all that a device knows again on another bundle, from the pictures that `keep_shots` kept, while no learner
    is open on its state's folder. The old state is kept aside. What was wrong with kept pictures becomes a
    RuntimeWarning.

    options: its public key, seed, wait and engine count.
    force: goes over even if classes have no picture left, which are given up then, or are recognised clearly worse.
    give_up_unkept: gives up classes that have no picture left, such as those of packs; still refuses if others are
        recognised clearly worse.

    Raises ChangeError if it is refused, BusyError, EngineError, PictureError, and OpenError if the bundle cannot be
    used; nothing was changed then.
    """
