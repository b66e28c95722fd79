# SPDX-License-Identifier: MIT
"""Runs a test program of Python's unittest; it is skipped, and says so, where a package that tests need is not installed.

usage: python_test.py TEST.py
"""
import pathlib
import runpy
import sys

PACKAGES = {"numpy", "scipy", "cv2", "PIL"}
SKIPPED = 77


def main():
    del sys.argv[0]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in PACKAGES:
            raise
        print(f"skipped: {sys.executable} has no {error.name}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
