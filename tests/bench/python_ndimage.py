#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gconv.ndimage against scipy.ndimage, in turns, on a 4K photo of random levels.

usage: PYTHONPATH=BUILD/python tests/bench/python_ndimage.py [--threads N] [--runs N] [CALL...]
--threads: of gconv; by default one a processor. SciPy has one. CALL: those whose name contains it. Prints the least wall time
of each, and the least time of the processor of all threads, which other programs on the machine disturb less.
"""
import argparse
import time

import numpy as np
import scipy.ndimage

import gconv
import gconv.ndimage


def make_calls():
    """{name: a function of the module}."""
    random = np.random.default_rng(1)
    rgb = random.integers(0, 256, (2160, 3840, 3), dtype=np.uint8)
    plane, wide = rgb[..., 0].astype(np.float32), rgb[..., 0].astype(np.uint16) * 257
    mean, signs = np.full((9, 9, 1), 1 / 81), random.normal(size=(3, 3, 1))
    weights, into, floats = random.random((9, 9, 1)) / 81, np.empty_like(rgb), np.empty_like(plane)
    return {
        "u8 gaussian_filter, sigma 2": lambda m: m.gaussian_filter(rgb, (2, 2, 0)),
        "u8 gaussian_filter, sigma 4": lambda m: m.gaussian_filter(rgb, (4, 4, 0)),
        "u8 gaussian_filter, sigma 4, output=": lambda m: m.gaussian_filter(rgb, (4, 4, 0), output=into),
        "u8 uniform_filter, 9 x 9": lambda m: m.uniform_filter(rgb, (9, 9, 1)),
        "u8 uniform_filter, 9 x 9, output=": lambda m: m.uniform_filter(rgb, (9, 9, 1), output=into),
        "u8 correlate, 9 x 9": lambda m: m.correlate(rgb, weights),
        "u8 correlate, 9 x 9, a mean": lambda m: m.correlate(rgb, mean),
        "u8 correlate, 3 x 3, taps of both signs": lambda m: m.correlate(rgb, signs),
        "u8 correlate1d, taps of both signs": lambda m: m.correlate1d(rgb, [-1, 2.5, -1], axis=0),
        "u8 sobel, also over colours": lambda m: m.sobel(rgb, 0),
        "u8 sobel, also over colours, output=": lambda m: m.sobel(rgb, 0, output=into),
        "u8 sobel to int16": lambda m: m.sobel(rgb, 0, np.int16),
        "u8 sobel to float32": lambda m: m.sobel(rgb, 0, np.float32),
        "u8 prewitt": lambda m: m.prewitt(rgb, 1),
        "u8 laplace": lambda m: m.laplace(rgb),
        "u8 gaussian_laplace, sigma 2, to float32": lambda m: m.gaussian_laplace(rgb, 2, np.float32),
        "u8 gradient magnitude, sigma 2, to float32": lambda m: m.gaussian_gradient_magnitude(rgb, 2, np.float32),
        "u16 plane gaussian_filter, sigma 4": lambda m: m.gaussian_filter(wide, 4),
        "u16 plane sobel": lambda m: m.sobel(wide, 0),
        "f32 plane gaussian_filter, sigma 2": lambda m: m.gaussian_filter(plane, 2),
        "f32 plane gaussian_filter, sigma 4": lambda m: m.gaussian_filter(plane, 4),
        "f32 plane gaussian_filter, sigma 4, output=": lambda m: m.gaussian_filter(plane, 4, output=floats),
        "f32 plane uniform_filter, 9 x 9": lambda m: m.uniform_filter(plane, 9),
        "f32 plane correlate, 9 x 9": lambda m: m.correlate(plane, weights[..., 0]),
        "f32 plane sobel": lambda m: m.sobel(plane, 0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("call", nargs="*")
    arguments = parser.parse_args()
    gconv.set_threads(arguments.threads)
    print(f"{'least of ' + str(arguments.runs) + ' runs, ms':42} gconv: wall  processor    SciPy: wall  processor")
    for name, call in make_calls().items():
        if arguments.call and not any(word in name for word in arguments.call):
            continue
        call(gconv.ndimage)
        least = {}
        for run in range(arguments.runs):
            for module in (gconv.ndimage, scipy.ndimage) if run < 3 else (gconv.ndimage,):
                begin, begin_processor = time.perf_counter(), time.process_time()
                call(module)
                took = time.perf_counter() - begin, time.process_time() - begin_processor
                least[module] = tuple(map(min, least.get(module, took), took))
        (wall, processor), (their_wall, their_processor) = least[gconv.ndimage], least[scipy.ndimage]
        print(f"{name:42} {wall * 1e3:11.1f} {processor * 1e3:10.1f} {their_wall * 1e3:14.1f} {their_processor * 1e3:10.1f}"
              f"   {their_wall / wall:5.1f} x", flush=True)


if __name__ == "__main__":
    main()
