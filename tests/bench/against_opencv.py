#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The CPU's kernels compared with OpenCV's filter2D and sepFilter2D, in turns, so that both meet the same machine.

usage: against_opencv.py BENCH_CPU_KERNELS [ROUNDS]      BENCH_CPU_KERNELS is the program that CMake builds
"""
import re
import statistics
import subprocess
import sys
import time

import cv2
import numpy as np

RUNS = 5
SHAPE = (2160, 3840, 3)
SIZES = (3, 5, 7, 9, 11, 15, 31, 63)


def opencv_ms(call):
    call()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def gconv_ms(program, *arguments):
    """[median ms], the algorithm, and the percentage of the peak of the last line."""
    text = subprocess.run([program, "--runs", str(RUNS), *arguments], check=True, capture_output=True, text=True).stdout
    line = text.splitlines()[-1]
    return float(re.search(r"median +([0-9.]+)", line)[1]), line.split()[2], float(re.search(r"([0-9.]+)% of", line)[1])


def compare(name, program, arguments, call, rounds):
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(opencv_ms(call))
        ms, algorithm, percent = gconv_ms(program, *arguments)
        ours.append(ms)
    samples = np.prod(SHAPE) * 1e-3
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"{name:12s} gconv {algorithm:9s} {samples / a:6.0f} Msample/s ({percent:5.1f}% of the FMA peak)   "
          f"OpenCV {samples / b:6.0f} Msample/s   {b / a:5.2f} x", flush=True)


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rng = np.random.default_rng(0)
    photo = rng.integers(0, 256, SHAPE, dtype=np.uint8)
    print(f"OpenCV {cv2.__version__}, {cv2.getNumThreads()} threads; u8 RGB {SHAPE[1]} x {SHAPE[0]}; "
          f"medians of {rounds} rounds of {RUNS}")
    for k in SIZES:
        taps = rng.standard_normal((k, k)).astype(np.float32)
        taps /= abs(taps).sum()
        compare(f"filter2D {k}", program, [str(k)],
                lambda taps=taps: cv2.filter2D(photo, -1, taps, borderType=cv2.BORDER_CONSTANT), rounds)
    column = cv2.getGaussianKernel(31, 5, cv2.CV_32F)
    compare("gaussian 31", program, ["--filter", "gaussian:size=31,sigma=5"],
            lambda: cv2.sepFilter2D(photo, -1, column, column, borderType=cv2.BORDER_CONSTANT), rounds)


main()
