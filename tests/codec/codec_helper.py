# SPDX-License-Identifier: MIT
"""What the tests of TIFF and WebP share: a folder, and the program of tests/codec/image_convert.c, which reads a file and
writes one through the library alone."""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

CONVERT = os.environ.get("GCONV_IMAGE_CONVERT", "")
FOLDER = tempfile.mkdtemp(prefix="gconv-codecs-")
RANDOM = np.random.default_rng(20)
SKIPPED = 77


def clean_up():
    shutil.rmtree(FOLDER)


def path(name):
    return os.path.join(FOLDER, name)


def save(name, content):
    with open(path(name), "wb") as file:
        file.write(content)
    return path(name)


def convert(source, target, **environment):
    """Converts and returns what was printed on standard error."""
    done = subprocess.run([CONVERT, source, target], capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, f"{source}: {done.stderr}"
    return done.stderr


def read(source):
    """The pixels as the library reads them: H x W, H x W x C, or with frames before these."""
    convert(source, path("out.npy"))
    array = np.load(path("out.npy"))
    if array.ndim == 4:
        array = np.moveaxis(array, 1, -1)
    return array[..., 0] if array.ndim == 4 and array.shape[-1] == 1 else array


def failure(source, **environment):
    """The error text of a file that must be refused."""
    done = subprocess.run([CONVERT, source, path("never.npy")], capture_output=True, text=True,
                          env={**os.environ, **environment})
    assert done.returncode == 1, f"{source}: {done}"
    assert not os.path.exists(path("never.npy"))
    return done.stderr


def header(source):
    return subprocess.run([CONVERT, source], check=True, capture_output=True, text=True).stdout.split()


def noise(shape, dtype):
    if np.dtype(dtype).kind == "f":
        return RANDOM.normal(0, 1, shape).astype(dtype)
    return RANDOM.integers(0, np.iinfo(dtype).max, shape, endpoint=True).astype(dtype)


def skip_without(name, content):
    """Ends the program, as skipped, if gconv was built without the format."""
    if not CONVERT:
        raise SystemExit("set GCONV_IMAGE_CONVERT to the program of tests/codec/image_convert.c")
    done = subprocess.run([CONVERT, save("probe", content)], capture_output=True, text=True)
    if "was built without" in done.stderr:
        print(f"skipped: gconv was built without {name}")
        clean_up()
        sys.exit(SKIPPED)
