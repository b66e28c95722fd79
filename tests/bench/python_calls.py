#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls from Python against OpenCV and SciPy, in turns, on arrays of NumPy.

usage: PYTHONPATH=BUILD/python tests/bench/python_calls.py [--threads N] [--runs N]
--threads: of gconv and OpenCV; by default one a processor. Prints medians of wall time, and of the processor's time of the
calling thread, which other programs on the machine disturb less; with one thread, it is the time of the call.
"""
import argparse
import concurrent.futures
import statistics
import time

import cv2
import numpy as np
import scipy.ndimage

import gconv


def measure(calls, runs, repeat):
    """{name: (wall, processor)} in microseconds a call, of functions that take turns."""
    wall, processor = {name: [] for name in calls}, {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(runs):
        for name, call in calls.items():
            begin, begin_processor = time.perf_counter(), time.thread_time()
            for _ in range(repeat):
                call()
            wall[name].append((time.perf_counter() - begin) / repeat * 1e6)
            processor[name].append((time.thread_time() - begin_processor) / repeat * 1e6)
    return {name: (statistics.median(wall[name]), statistics.median(processor[name])) for name in calls}


def tell(title, found):
    print(title)
    for name, (wall, processor) in found.items():
        print(f"  {name:32} {wall:12.1f} us wall {processor:12.1f} us processor")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    gconv.set_threads(arguments.threads)
    cv2.setNumThreads(arguments.threads or cv2.getNumberOfCPUs())
    random = np.random.default_rng(1)
    kernel = np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], np.float32)
    full = random.normal(size=(3, 3)).astype(np.float32)
    print(f"gconv {gconv.version()} on {gconv.devices()[0]['description']}, OpenCV {cv2.__version__}, SciPy {scipy.__version__}")

    dot = np.zeros((1, 1), np.uint8)
    plan = gconv.Plan(kernel, (1, 1))
    tell("1 x 1, u8, 3 x 3: what a call costs", measure({
        "gconv.filter": lambda: gconv.filter(dot, kernel), "gconv.Plan": lambda: plan(dot),
        "cv2.filter2D": lambda: cv2.filter2D(dot, -1, kernel)}, arguments.runs, 3000))

    small = random.integers(0, 256, (256, 256), dtype=np.uint8)
    for name, taps in (("with zeros in it", kernel), ("without", full)):
        tell(f"256 x 256, u8, 3 x 3 {name}", measure({
            "gconv.filter": lambda: gconv.filter(small, taps, border="reflect101"),
            "cv2.filter2D": lambda: cv2.filter2D(small, -1, taps)}, arguments.runs, 200))

    large = random.integers(0, 256, (2160, 3840, 3), dtype=np.uint8)
    tell("3840 x 2160 x 3, u8, 3 x 3", measure({
        "gconv.filter": lambda: gconv.filter(large, full, border="reflect101"),
        "cv2.filter2D": lambda: cv2.filter2D(large, -1, full)}, arguments.runs, 1))
    line = cv2.getGaussianKernel(31, 5)
    gaussian = gconv.Filter(line @ line.T)
    tell("3840 x 2160 x 3, u8, Gaussian 31 x 31", measure({
        "gconv.filter": lambda: gconv.filter(large, gaussian, border="reflect101"),
        "gconv.cv.GaussianBlur": lambda: gconv_cv.GaussianBlur(large, (31, 31), 5),
        "cv2.GaussianBlur": lambda: cv2.GaussianBlur(large, (31, 31), 5)}, arguments.runs, 1))
    plane = large[..., 0].astype(np.float32)
    tell("3840 x 2160, f32, gaussian_filter, sigma 4", measure({
        "gconv.ndimage": lambda: gconv_ndimage.gaussian_filter(plane, 4),
        "scipy.ndimage": lambda: scipy.ndimage.gaussian_filter(plane, 4)}, min(arguments.runs, 5), 1))
    tell("3840 x 2160, f32, correlate 9 x 9", measure({
        "gconv.ndimage": lambda: gconv_ndimage.correlate(plane, weights),
        "scipy.ndimage": lambda: scipy.ndimage.correlate(plane, weights)}, min(arguments.runs, 3), 1))

    gconv.set_threads(1)
    photo = random.integers(0, 256, (512, 512, 3), dtype=np.uint8)
    for threads in (1, 2, 16):
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _: gconv.filter(photo, "gaussian:sigma=2"), range(64)))
            begin = time.perf_counter()
            list(pool.map(lambda _: gconv.filter(photo, "gaussian:sigma=2"), range(400)))
            print(f"{threads} threads of Python: {400 / (time.perf_counter() - begin):.0f} calls a second (512 x 512 x 3)")


if __name__ == "__main__":
    import gconv.cv as gconv_cv
    import gconv.ndimage as gconv_ndimage
    weights = np.random.default_rng(2).normal(size=(9, 9)).astype(np.float32)
    main()
