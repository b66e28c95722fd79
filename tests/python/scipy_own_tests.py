#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs SciPy's own tests of its filters, those of the SciPy that is installed, with the functions of gconv.ndimage in their
place; needs pytest.

usage: GCONV_PYTHON_PACKAGE=BUILD/python tests/python/scipy_own_tests.py [--wide] [PYTEST'S OPTIONS]
--wide: float64 and wide integers are computed in float32; else SciPy has them.
Ends with 1 if a test fails that EXPECTED does not explain.
"""
import functools
import importlib
import pathlib
import sys
import types
import warnings

from helper import gconv

import pytest
import scipy
import scipy.ndimage as original
import gconv._original
import gconv.ndimage as ours

_DIGITS = "compares what --wide computes in float32 with float64, to 8 digits"
EXPECTED = {"test_gauss03": "adds up 10,000 results of float32, and wants the sum to 8 digits"}
EXPECTED_WIDE = {"test_derivative_filter_axes": _DIGITS, "test_filter_axes_kwargs": _DIGITS,
                 "test_multiple_modes_sequentially": _DIGITS}

calls, handed_over = {}, {}


def count(function):
    @functools.wraps(function)
    def call(*arguments, **options):
        calls[function.__name__] = calls.get(function.__name__, 0) + 1
        return function(*arguments, **options)

    return call


def count_hand_over(module, function, reason, arguments, options, hand_over=gconv._original.hand_over):
    handed_over[function] = handed_over.get(function, 0) + 1
    return hand_over(module, function, reason, arguments, options)


class Failures(list):
    """The names of the tests that failed: a plugin of pytest."""

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.append(report.nodeid.split("::")[-1])

    def pytest_collectreport(self, report):
        if report.failed:
            self.append(report.nodeid)


def main():
    warnings.simplefilter("ignore", gconv.Warning)
    options, expected, failures = sys.argv[1:], dict(EXPECTED), Failures()
    if "--wide" in options:
        options.remove("--wide")
        ours.wide = "float32"
        expected.update(EXPECTED_WIDE)
    both = types.ModuleType("ndimage")  # what the tests get by `from scipy import ndimage`
    vars(both).update(vars(original))
    table = getattr(importlib.import_module("scipy._lib"), "_array_api", None)
    table = getattr(table, "xp_capabilities_table", {})  # which tests of a function are made from, since SciPy 1.16
    for name in ours.__all__:
        vars(both)[name] = count(getattr(ours, name))
        if getattr(original, name) in table:
            table[vars(both)[name]] = table[getattr(original, name)]
    gconv._original.hand_over = count_hand_over
    scipy.ndimage = both
    tests = pathlib.Path(original.__file__).parent / "tests" / "test_filters.py"
    status = pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", "--import-mode=importlib",
                          f"--confcutdir={pathlib.Path(scipy.__file__).parent}", str(tests), *options], [failures])
    for name in sorted(calls):
        print(f"{name}: {calls[name]} calls, {handed_over.get(name, 0)} handed over")
    for test in failures:
        print(f"{test}: {expected.get(test.split('[')[0], 'NOT EXPLAINED')}")
    return int(status not in (0, 1) or any(test.split("[")[0] not in expected for test in failures))


if __name__ == "__main__":
    sys.exit(main())
