#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls from Python against OpenCV and SciPy, in turns, on arrays of NumPy.

usage: PYTHONPATH=BUILD/python tests/bench/python_calls.py [--threads N] [--runs N] [--table [WORD...]]
--table: 3 calls at 32 x 32 and 40 at 2048 x 2048, each with what it replaces; WORD: those whose name has it. --threads: of gconv and OpenCV; by default one a processor. Prints medians of wall time, and of the processor's time of the
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


def make_table():
    """[(name, a function of the module, ours, theirs)]: calls as users of OpenCV and SciPy write them."""
    random = np.random.default_rng(1)
    small = random.integers(0, 256, (32, 32), dtype=np.uint8)
    rgb = random.integers(0, 256, (2048, 2048, 3), dtype=np.uint8)
    images = {"grey": np.ascontiguousarray(rgb[..., 0]), "RGB": rgb, "f32": rgb[..., 0].astype(np.float32)}
    taps, line = random.normal(size=(5, 5)).astype(np.float32), np.array([1, 4, 6, 4, 1], np.float32) / 16
    sharp = np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], np.float32)
    calls = {
        "GaussianBlur 5": lambda m, x: m.GaussianBlur(x, (5, 5), 0), "GaussianBlur sigma 3": lambda m, x: m.GaussianBlur(x, (0, 0), 3),
        "blur 5": lambda m, x: m.blur(x, (5, 5)), "boxFilter 31": lambda m, x: m.boxFilter(x, -1, (31, 31)),
        "filter2D 3": lambda m, x: m.filter2D(x, -1, sharp), "filter2D 5": lambda m, x: m.filter2D(x, -1, taps),
        "sepFilter2D 5": lambda m, x: m.sepFilter2D(x, -1, line, line), "Sobel f32": lambda m, x: m.Sobel(x, cv2.CV_32F, 1, 0),
        "Laplacian f32": lambda m, x: m.Laplacian(x, cv2.CV_32F)}
    grey = {"Sobel": lambda m, x: m.Sobel(x, cv2.CV_16S, 1, 0), "Scharr": lambda m, x: m.Scharr(x, cv2.CV_16S, 0, 1),
            "Laplacian 3": lambda m, x: m.Laplacian(x, cv2.CV_16S, ksize=3)}
    ndimage = {
        "gaussian_filter 2": lambda m, x: m.gaussian_filter(x, 2), "uniform_filter 9": lambda m, x: m.uniform_filter(x, 9),
        "correlate 5": lambda m, x: m.correlate(x, taps), "sobel": lambda m, x: m.sobel(x), "laplace": lambda m, x: m.laplace(x)}
    rows = [("32 x 32 GaussianBlur", lambda m: m.GaussianBlur(small, (5, 5), 0), gconv_cv, cv2),
            ("32 x 32 filter2D", lambda m: m.filter2D(small, -1, sharp), gconv_cv, cv2),
            ("32 x 32 gaussian_filter", lambda m: m.gaussian_filter(small, 1), gconv_ndimage, scipy.ndimage)]
    for names, table, ours, theirs in ((images, calls, gconv_cv, cv2), (["grey"], grey, gconv_cv, cv2), (["grey", "f32"], ndimage, gconv_ndimage, scipy.ndimage)):
        rows += [(f"{name} {image}", lambda m, call=call, x=images[image]: call(m, x), ours, theirs)
                 for image in names for name, call in table.items()]
    return rows


def tell_table(words, runs):
    for name, call, ours, theirs in make_table():
        if all(word in name for word in words):
            each = runs if theirs is cv2 or name.startswith("32") else 3  # SciPy takes up to a second
            (wall, _), (their_wall, _) = measure({"": lambda: call(ours), "theirs": lambda: call(theirs)}, each,
                                                 2000 if name.startswith("32") else 1).values()
            print(f"{name:28} {wall:10.1f} us, theirs {their_wall:10.1f}: {their_wall / wall:6.2f} x", flush=True)


def tell(title, found):
    print(title)
    for name, (wall, processor) in found.items():
        print(f"  {name:32} {wall:12.1f} us wall {processor:12.1f} us processor")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--table", nargs="*")
    arguments = parser.parse_args()
    gconv.set_threads(arguments.threads)
    cv2.setNumThreads(arguments.threads or cv2.getNumberOfCPUs())
    random = np.random.default_rng(1)
    kernel = np.array([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], np.float32)
    full = random.normal(size=(3, 3)).astype(np.float32)
    print(f"gconv {gconv.version()} on {gconv.devices()[0]['description']}, OpenCV {cv2.__version__}, SciPy {scipy.__version__}")
    if arguments.table is not None:
        return tell_table(arguments.table, arguments.runs)

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
