# SPDX-License-Identifier: MIT
"""Prints kernels.pyi: the types of the functions of gconv.kernels, which that module makes from a list in the extension.

    kernels_stub.py FOLDER     # the folder of the extension _core
"""
import keyword
import sys

sys.path.insert(0, sys.argv[1])
import _core  # noqa: E402


def result_of(name, words):
    """The type of what the function returns: a parameter may choose one of several filters."""
    several = _core.count_filters(name) > 1
    return "Filter | Filters" if several and words else "Filters" if several else "Filter"


print('# SPDX-License-Identifier: MIT\nfrom __future__ import annotations\n\nfrom typing import Any\n\n'
      'from . import Filter, Filters\n\n__all__: list[str]\n')
for name, parameters, _, _ in _core.builtins():
    words = [pair.split("=")[0] for pair in parameters.split(",")] if parameters else []
    words = [word + "_" if keyword.iskeyword(word) else word for word in words]
    print(f"def {name}({', '.join(f'{word}: Any = ...' for word in words)}) -> {result_of(name, words)}: ...")
