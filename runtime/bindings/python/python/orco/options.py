"""How a learner works, and how a backup is restored."""

from dataclasses import dataclass
from os import PathLike
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class LearnerOptions:
    """How a learner works: `orco.Learner(bundle, state, orco.LearnerOptions(keep_shots=True))`."""

    public_key: str | PathLike[str] | None = None
    """The file of minisign's public key; bundles that are not signed with it are refused, and so are older releases
    than were used before."""

    seed: int = 1
    """Seed of all random draws; the same bundle, shots and seed give the same state, byte for byte."""

    forgetting_budget: float | None = None
    """Share of their samples, 0 to 1, that classes may lose over all sessions: those of the bundle together, learned
    ones together, and each where it is certain. A change that would cost more is refused."""

    false_alarms: float = 0.05
    """Share of known pictures, 0 to 1, that may be taken for unknown ones."""

    scope: Literal["auto", "learned", "all"] = "all"
    """Which classes are answered. "all": all that are known. "learned": learned ones alone; what is none of them is
    unknown. "auto": all until three are learned, then those alone. The program `orco` and its service start with
    "auto"."""

    keep_shots: bool = False
    """Whether the pictures of shots that are learned are kept beside the state, at the size that the backbone sees, so
    that `orco.upgrade` can learn them again on another bundle."""

    align: Literal["now", "later"] = "now"
    """When the head is aligned to what a change brought: before the change returns, or when `Learner.align` is called.
    Answers follow the change at once, and may change when the head is aligned."""

    check_shots: bool = False
    """Whether pictures that are too dark or too bright, blurred, noise, or the same as another one of the call are
    refused as shots (PictureError), as on the web page."""

    wait: float = 0.0
    """How many seconds a change waits, at most, for another process that is changing the same state."""

    engine: Literal["auto", "onnxruntime", "rten"] = "auto"
    """What the backbone runs on. "auto" takes rten, which is part of the package, and ONNX Runtime for a bundle that
    rten does not take."""


@dataclass(frozen=True, kw_only=True)
class RestoreOptions:
    """How a backup is restored: `orco.restore(bundle, state, file, orco.RestoreOptions(replace=True))`."""

    public_key: str | PathLike[str] | None = None
    """The file of minisign's public key; a bundle or a backup that is not signed with it is refused, and so is an older
    release of the bundle than was used before, here or where the backup was written."""

    replace: bool = False
    """Whether what the device knows already may be replaced, which is gone then."""

    other_bundle: bool = False
    """Whether a backup that was made with another bundle is restored; `orco.upgrade` is to be called next."""

    wait: float = 0.0
    """How many seconds to wait, at most, for another process that is changing the same state."""
