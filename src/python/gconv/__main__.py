# SPDX-License-Identifier: MIT
"""The program gconv, which comes with the package: python -m gconv, and the script gconv."""
import os
import pathlib
import sys

from gconv import _core


def program():
    """The path of the program, or None."""
    folder = pathlib.Path(_core.__file__).parent  # after `pip install -e`, the modules lie elsewhere
    places = [folder / "bin" / "gconv"]
    if folder.parent.name == "python":  # a build folder
        places.append(folder.parent.parent / "gconv")
    return next((place for place in places if place.is_file()), None)


def main():
    found = program()
    if found is None:
        sys.exit("gconv: the package was built without the program")
    os.execv(found, ["gconv", *sys.argv[1:]])


if __name__ == "__main__":
    main()
