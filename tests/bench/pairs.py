#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the speed of one build of gconv against that of another: `gconv bench` of both, in turns.

usage: pairs.py OLD NEW [--rounds 5] [--seconds S] [--allowed 1.03] [-- OPTION... [-- OPTION...]]

After --seconds, no call is begun. Each list of options behind a "--" is a call of `gconv bench`; without any, all of CALLS are made. Every round runs each call
with OLD, then with NEW. A case is a row of the report. Printed are the cases whose time NEW / OLD, as the median of the
rounds' quotients, is above --allowed, with the least and the largest quotient. A case is slower, and the script fails, if
its least quotient is above 1, too: then the difference is larger than the spread.
"""
import argparse
import collections
import csv
import statistics
import subprocess
import sys
import time

CALLS = [
    ["--image", "7680x4320x3p", "--type", "f32", "--sizes", "3,5,7,9,11,13,15,17,31,63"],
    ["--image", "3840x2160x3", "--type", "u8", "--sizes", "3,5,7,9,11,15,31"],
    ["--image", "3840x2160", "--type", "u8,u16", "--sizes", "3,5,7,9,15,31"],
    ["--image", "1024x1024", "--type", "f32", "--sizes", "3,7,15"],
    ["--image", "7680x4320x3p", "--type", "f32", "-f", "gaussian:size=5,sigma=1", "-f", "gaussian:size=9,sigma=2", "-f",
     "gaussian:size=15,sigma=3", "-f", "gaussian:size=31,sigma=6", "-a", "separable"],
    ["--image", "3840x2160x3", "-f", "gaussian:size=9,sigma=2", "-f", "gaussian:size=31,sigma=6", "-f", "sobel_x"],
    ["--experiment", "batch"],
    ["--experiment", "algorithms"],
    ["--experiment", "sizes"],
]  # fmt: skip
IMAGE = {"device", "algorithm", "type", "width", "height", "channels", "planar", "filter"}
EXPERIMENT = {"algorithm", "width", "height", "channels", "rows", "images", "filters", "workspace_mib"}


NAMES = ["device", "algorithm", "type", "width", "height", "channels", "planar", "filter", "rows", "images", "filters",
         "workspace_mib"]  # what tells one case from another; older builds call the rows of experiments "size"  # fmt: skip


def measure(gconv, words):
    """{case: milliseconds} of one call."""
    text = subprocess.run([gconv, "bench", *words, "--csv"], capture_output=True, text=True, check=True).stdout
    times = {}
    for row in csv.DictReader(text.splitlines()):
        row.setdefault("rows", row.get("size", ""))
        if row["ms"]:
            times[" ".join(row.get(name) or "-" for name in NAMES if name in (EXPERIMENT if "--experiment" in words else IMAGE))] = float(row["ms"])
    return times


def split(words):
    calls = [[]]
    for word in words:
        if word == "--":
            calls.append([])
        else:
            calls[-1].append(word)
    return [call for call in calls if call]


def main():
    words = sys.argv[1:]
    own = words[: words.index("--")] if "--" in words else words
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--allowed", type=float, default=1.03)
    options = parser.parse_args(own)
    quotients = collections.defaultdict(list)
    end = time.monotonic() + options.seconds
    for number in range(options.rounds):
        for call in split(words[len(own):]) or CALLS:
            if time.monotonic() > end:
                print(f"round {number + 1} stops before {' '.join(call)}")
                break
            old, new = measure(options.old, call), measure(options.new, call)
            for case in old.keys() & new.keys():
                quotients[case].append(new[case] / old[case])
            for case in old.keys() ^ new.keys():
                print(f"only in one of them: {case}")
    slower = 0
    for case, all_of_it in sorted(quotients.items()):
        if statistics.median(all_of_it) > options.allowed:
            slower += min(all_of_it) > 1
            print(f"{statistics.median(all_of_it):.3f} ({min(all_of_it):.3f} to {max(all_of_it):.3f})"
                  f"{' SLOWER' if min(all_of_it) > 1 else ''}  {case}")
    medians = [statistics.median(all_of_it) for all_of_it in quotients.values()]
    print(f"{len(medians)} cases, {slower} slower; median {statistics.median(medians):.3f}, {min(medians):.3f} to {max(medians):.3f}")
    return bool(slower)


if __name__ == "__main__":
    sys.exit(main())
