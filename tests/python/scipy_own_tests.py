#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs SciPy's own tests of its filters, those of the SciPy that is installed, with the functions of gconv.ndimage in their
place; needs pytest.

usage: GCONV_PYTHON_PACKAGE=BUILD/python tests/python/scipy_own_tests.py [--wide] [PYTEST'S OPTIONS]
--wide: float64 and wide integers are computed in float32; else SciPy has them.
"""
import pathlib
import sys
import types
import warnings

from helper import gconv

import pytest
import scipy
import scipy.ndimage as original
import gconv.ndimage as ours

calls, handed_over = {}, {}


def count(function):
    def call(*arguments, **options):
        calls[function.__name__] = calls.get(function.__name__, 0) + 1
        return function(*arguments, **options)

    return call


def count_hand_over(module, function, reason, arguments, options, hand_over=ours.hand_over):
    handed_over[function] = handed_over.get(function, 0) + 1
    return hand_over(module, function, reason, arguments, options)


def main():
    warnings.simplefilter("ignore", gconv.Warning)
    options = sys.argv[1:]
    if "--wide" in options:
        options.remove("--wide")
        ours.wide = "float32"
    both = types.ModuleType("ndimage")  # what the tests get by `from scipy import ndimage`
    vars(both).update(vars(original))
    vars(both).update({name: count(getattr(ours, name)) for name in ours.__all__})
    ours.hand_over = count_hand_over
    scipy.ndimage = both
    tests = pathlib.Path(original.__file__).parent / "tests" / "test_filters.py"
    status = pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", "--import-mode=importlib", str(tests), *options])
    for name in sorted(calls):
        print(f"{name}: {calls[name]} calls, {handed_over.get(name, 0)} handed over")
    return status


if __name__ == "__main__":
    sys.exit(main())
