# SPDX-License-Identifier: MIT
"""run(): applies filters to files and folders, like the program gconv."""
from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from typing import Any

from . import _core
from ._arguments import choose, flag, flags, is_for, whole
from ._errors import ArgumentError, JobError
from ._files import COMPRESSIONS
from ._filter import OPTIONS, check_options, filter_options
from ._filters import Filter, Filters, resolve
from ._learning import SVM
from ._network import Network, file_bytes
from ._notebook import bars, table
from ._types import Kernel, Path, Paths

__all__ = ["Report", "Summary", "run"]

EXISTING = {"replace": 0, "keep": 1, "skip": 2}


@dataclasses.dataclass(frozen=True)
class Report:
    """How one input went. Times are in milliseconds."""

    input: str
    outputs: list[str]
    written: int
    passed: int  #: results that existed, or were done by an earlier run
    failed: int
    errors: list[str]
    elapsed_ms: float  #: since the run began
    details: dict[str, Any]  #: of executed inputs: pixels, device, algorithm, total_ms, decode_ms, kernel_ms, encode_ms, max_error

    def _repr_html_(self):
        return bars({name: value for name, value in self.details.items() if name.endswith("_ms")})


@dataclasses.dataclass(frozen=True)
class Summary:
    """How a run went."""

    written: int
    passed: int
    failed: int
    device: str
    wall_ms: float
    errors: list[str]  #: the texts of all failures
    details: dict[str, Any]

    def _repr_html_(self):
        return table([(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)[:-1]])


def _digest(filters, model, options, given):
    """Returns a digest of everything that determines the results."""
    state = hashlib.blake2b(digest_size=8)
    state.update(_core.version().encode())
    for one in filters:
        state.update(repr(one._key).encode())
    if model is not None:
        state.update(model._model.digest.to_bytes(8, "little") if getattr(model, "_graph", False) else file_bytes(model.save, "model"))
    numbers = {name: (value.shape, value.tobytes()) if name == "weights" else value for name, value in options.items()}
    state.update(repr(sorted(numbers.items())).encode())  # the text of a large array would leave out its middle
    state.update(repr([given.get(key) for key in ("format", "quality", "png_level", "lossless", "strip", "compression", "present")]).encode())
    return int.from_bytes(state.digest(), "little")


def run(inputs: Paths, filters: Kernel | Network | SVM, output: Path, *, recursive: bool = False, format: str | None = None,
        suffix: str | None = None, device: str = "auto", threads: int = 0, jobs: int = 0, memory: int = 0,
        max_pixels: int = 0, existing: str = "replace", resume: bool = False, shard: str | None = None,
        fail_fast: bool = False, verify: bool = False, quality: int = 0, png_level: int = 0, lossless: bool = False,
        strip: bool = False, compression: str = "none", preserve_times: bool = False, exclude: Paths = (),
        present: str | None = None, progress: Callable[[Report], Any] | None = None, errors: str = "raise",
        **options: Any) -> Summary:
    """Filters files and writes the results, in parallel, within a limit of memory, each whole or not at all.

    inputs: a path, or several: files, folders, patterns such as "*.png". recursive: also search folders in folders.
    exclude: a pattern, or several, of files to leave out of folders and patterns: names, "*_old*", or, with a slash, paths
        below the folder, "raw/*"; "**" stands for any folders.
    filters: a kernel as for filter(), a Network, or an SVM of pixels. output: a file, a folder, or a template such as
        "out/{stem}_{filter}.png". format: that of the results, such as "png"; "same": that of each input; by default, the
        name of the output tells it.
    compression: for TIFF, as for write(). preserve_times: results get the times of their inputs.
    existing: what happens if the file of a result exists: "replace", "keep" (an error) or "skip".
    resume: continue a run that was stopped: results that the manifest beside them lists as done are passed over.
    shard: "2/4", or "auto" in an array of Slurm: process only this part of the inputs.
    device: "cpu", "cuda", "cuda:all", "auto". threads, jobs, memory (bytes): 0: chosen for the machine.
    verify: compare each result with a computation in float64, slowly.
    present: for a Network: "tensor" (arrays), "image" (pictures like the inputs) or "classes" (maps); for an SVM: "classes"
        or "tensor" (a channel for each class).
    progress: a function that gets a Report for each input, in their order. If it raises, the run stops.
    errors: "raise": raise JobError at the end if any result failed; "report": return normally.
    output_name: for a Network with several outputs: the output to compute; if it is not given, each output is a result, and
        {filter} stands for its name. All other options are those of filter(): border=, stride=, combine= ... ...

    Returns a Summary. Ctrl-C stops the run after the files that are being processed.
    """
    paths = [inputs] if isinstance(inputs, (str, bytes, os.PathLike)) else list(inputs)
    if not paths:
        raise ArgumentError("inputs: there are none")
    exclude = [exclude] if isinstance(exclude, (str, bytes, os.PathLike)) else list(exclude)
    model = filters if isinstance(filters, (Network, SVM)) else None
    filters = Filters(()) if model else resolve(filters)
    given = {**flags(recursive=recursive, fail_fast=fail_fast, verify=verify, preserve_times=preserve_times,
                     lossless=lossless, strip=strip),
             "device": str(device), "threads": whole("threads", threads), "jobs": whole("jobs", jobs),
             "memory": whole("memory", memory, 0, 2 ** 63), "max_pixels": whole("max_pixels", max_pixels, 0, 2 ** 63),
             "quality": whole("quality", quality), "compression": choose("compression", compression, COMPRESSIONS),
             "exclude": exclude, "png_level": whole("png_level", png_level, -1),
             "existing": choose("existing", existing, EXISTING)}
    choose("errors", errors, {"raise": 0, "report": 1})
    for name, value in (("format", format), ("suffix", suffix), ("shard", shard)):
        if value is not None:
            given[name] = str(value)
    if model:
        unknown = options.keys() - ({"gray", "output_name"} if isinstance(model, Network) else {"gray"})
        if unknown:
            raise ArgumentError(f"{sorted(unknown)[0]}= is for filters: a network has its own")
        given["present"] = present or ("classes" if model.features or isinstance(model, SVM) else "tensor")
        choose("present", given["present"], {"tensor": 0, "image": 1, "classes": 2})
        given["planes"] = 0 if model.features or isinstance(model, SVM) else model.channels
    else:
        is_for("present", present, False, "networks and support vector machines")
        check_options("run", options, ("dtype", *OPTIONS))
        options = filter_options(filters, **options)
    if flag("resume", resume):
        given["digest"] = _digest(filters, model, options, given)
    failures = []

    def report(told):
        failures.extend(told["errors"])
        if progress is not None:
            names = ("input", "outputs", "written", "passed", "failed", "errors", "elapsed_ms")
            details = {key: value for key, value in told.items() if key not in names}
            progress(Report(*(told[name] for name in names), details))

    several = isinstance(model, Network) and model._graph and len(model.outputs) > 1 and "output_name" not in options
    labels = [one.name for one in model.outputs] if several else ["network"]
    names = filters or [Filter([[1]], name=label) for label in labels]  # what {filter} stands for
    given["each"] = several
    found = _core.run_job(paths, [one._as_tuple() for one in names], model and model._model, options,
                          os.fsencode(output) + _slash(output), given, report)
    names = ("written", "passed", "failed", "device", "wall_ms")
    summary = Summary(*(found[name] for name in names), failures,
                      {key: value for key, value in found.items() if key not in names})
    if summary.failed and errors == "raise":
        raise JobError(f"{summary.failed} results failed: {failures[0] if failures else 'their inputs were not begun'}",
                       summary)
    return summary


def _slash(output):
    """Returns the slash that marks a folder: pathlib.Path drops it. Returns nothing for other paths."""
    return b"/" if isinstance(output, os.PathLike) and not os.path.splitext(os.fspath(output))[1] else b""
