"""Learns new image classes on the device, from five shots each.

    import orco

    learner = orco.Learner("models/everyday", "state")
    learner.learn({"mug": ["1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg"]})
    print(learner.classify(["6.jpg"])[0].label)  # paths, or RGB arrays of uint8 [height, width, 3]
"""

from ._orco import (
    BackupError,
    BusyError,
    ChangeError,
    EngineError,
    Learner,
    OpenError,
    OrcoError,
    PictureError,
    __version__,
    read_picture,
    restore,
    upgrade,
)
from .options import LearnerOptions, RestoreOptions
from .output import Answer, Backup, Class, Counts, HistoryEntry, Report, Upgrade

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
    "LearnerOptions",
    "OpenError",
    "OrcoError",
    "PictureError",
    "Report",
    "RestoreOptions",
    "Upgrade",
    "__version__",
    "read_picture",
    "restore",
    "upgrade",
]
