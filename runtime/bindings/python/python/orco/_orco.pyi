from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from .options import LearnerOptions, RestoreOptions
from .output import Answer, Backup, Class, Counts, HistoryEntry, Report, Upgrade

_Path: TypeAlias = str | PathLike[str]
# Rows of red, green and blue bytes, [height, width, 3], as frame[:, :, ::-1] of OpenCV's frames and
# np.asarray(image.convert("RGB")) of Pillow's images. OpenCV's stubs say any number where it means bytes, and so does
# this; other numbers raise TypeError.
_Pixels: TypeAlias = NDArray[np.integer[Any] | np.floating[Any]]
# A JPEG, PNG or WebP file, or its pixels.
_Picture: TypeAlias = _Path | _Pixels
# Any number of pictures, such as a list of them, or an array [pictures, height, width, 3].
_Pictures: TypeAlias = Iterable[_Picture] | _Pixels
# Pictures, or features as Learner.shot_features gives them.
_Shots: TypeAlias = _Pictures | NDArray[np.float32]

# How much base classes count against learned ones, when the border between both is chosen.
_Balance: TypeAlias = Literal["keep-base", "balanced", "favour-new"]

__all__ = [
    "BackupError",
    "BusyError",
    "ChangeError",
    "EngineError",
    "Learner",
    "OpenError",
    "OrcoError",
    "PictureError",
    "__version__",
    "read_picture",
    "restore",
    "upgrade",
]

__version__: str

@final
class Learner:
    """A device that classifies pictures and learns new classes: an opened bundle and the state that was learned on it.

    Any thread may use a learner; its calls wait for one another, and other threads of Python go on meanwhile. A call
    that waits for another thread's hears Ctrl-C only once that one has returned. To classify while a thread learns,
    open a second learner on the same state, and call its `refresh` afterwards. Learners on the same state, in this
    process or in others, change it one at a time. A change is made as a whole, and saved, or nothing happened. What is
    doubtful about a state that was read or saved becomes a RuntimeWarning. Where warnings are errors, such a call
    raises after the change is made, and returns no report.

    Arguments of a wrong type, and arrays of a wrong dtype or number of axes, raise TypeError; other wrong shapes,
    unknown names and empty paths raise ValueError, and whole numbers that are negative or too large OverflowError.
    After a fault in the library itself, every call raises OrcoError: open the learner anew.

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
        path or an RGB array of uint8 [height, width, 3]; OpenCV's frames are BGR, so give `frame[:, :, ::-1]`, and
        of Pillow's images `np.asarray(image.convert("RGB"))`.

        Raises PictureError if one cannot be used, EngineError if the backbone fails.
        """

    def classify_features(self, features: NDArray[np.float32], *, most: int = 5) -> list[Answer]:
        """Answers for pictures whose features [pictures, features] are known, as `classify` gives them. Raises
        ValueError if the number of features is not the backbone's, a feature is not finite, or a picture's features are
        too large: their sum of squares overflows float32."""

    def features(self, pictures: _Pictures) -> NDArray[np.float32]:
        """Features of pictures, to be classified: [pictures, features]. Raises as `classify` does."""

    def shot_features(self, pictures: _Pictures) -> NDArray[np.float32]:
        """Features of all views of pictures, to be learned: [shots, views, features]. Raises as `classify` does."""

    def learn(self, classes: Mapping[str, _Shots]) -> Report:
        """Learns new classes in one session.

        Raises PictureError if a shot cannot be used, EngineError if the backbone fails, ChangeError if the change is
        refused, BusyError if another process is changing the state; nothing was changed then.
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

    def remove_shot(self, label: str, number: int) -> Report:
        """Removes a stored shot of a class, numbered from 1 as they were stored, but never the last one of a learned
        class; `undo` brings it back. Raises ChangeError or BusyError."""

    def purge(self, label: str) -> Report | None:
        """Forgets a learned class together with its past, for good: its exemplars, its pictures and every label it ever
        had disappear from the state's folder. Returns `None` for a class that was forgotten before. Raises ChangeError
        or BusyError."""

    def backup(self, path: _Path, *, replace: bool = False) -> Backup:
        """Writes all that is known into a file, as a whole or not at all; `restore` puts it into a replacement. What
        had to be left out becomes a RuntimeWarning, and that a power cut could still lose the file.

        replace: whether a file that is there already may be replaced.

        Raises BackupError if the file is there or cannot be written, ChangeError if nothing was learned, BusyError.
        """

    def export(self, label: str, path: _Path, *, device: str | None = None, replace: bool = False) -> int:
        """Writes a learned class into a pack, for another device with the same bundle, and returns the file's size in
        bytes. It holds exemplars and no picture, and is not signed: `orco export --sign` signs. That a power cut could
        still lose the file becomes a RuntimeWarning.

        device: the name of this one, for whoever receives the pack.
        replace: whether a file that is there already may be replaced.

        Raises ChangeError if the class was not learned here or a name is no good for a pack, OpenError if the state
        cannot be read, OSError if the file is there, would be in the state's folder or cannot be written.
        """

    def set_balance(self, balance: _Balance) -> Report:
        """Changes how much base classes count against learned ones, and chooses the border between both anew. Nothing
        is trained. Raises ChangeError if the bundle's answers have no border, or BusyError."""

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
        """Aligns the head to what was learned; part of the last change, and undone with it. Returns `None` where there
        is nothing to be done: with `LearnerOptions(align="now")`, changes do it. Raises ChangeError or BusyError."""

    def refresh(self) -> None:
        """Reads the state anew, which another process may have changed. Every change does so by itself. Raises
        OpenError if it cannot be read; what was known before holds then."""

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
    """Reads a JPEG, PNG or WebP file as the learner does: upright, on white where it is transparent. The array is
    [height, width, 3].

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
    """Learns all that a device knows again on another bundle, from the pictures that `keep_shots` kept, while no
    learner is open on its state's folder. The old state is kept aside. What was wrong with kept pictures becomes a
    RuntimeWarning; where warnings are errors, it is raised after the upgrade is made.

    options: its public key, seed, wait and engine count.
    force: upgrades even if classes have no picture left, which are given up then, or are recognised clearly worse.
    give_up_unkept: gives up classes that have no picture left, such as those of packs; still refuses if others are
        recognised clearly worse.

    Raises ChangeError if it is refused, BusyError, EngineError, PictureError, and OpenError if the bundle cannot be
    used; nothing was changed then.
    """
