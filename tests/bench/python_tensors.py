#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tensors of PyTorch on a GPU: gconv.filter against torch.conv2d and CuPy's ndimage, in turns, and `gconv bench`.

usage: PYTHONPATH=BUILD/python tests/bench/python_tensors.py GCONV
Images of 8192 x 8192 float32, three in turn, which no cache holds. Prints medians of 30 calls, each timed by events.
"""
import statistics
import subprocess
import sys

import torch

import gconv

SIZE = 8192


def measure(calls, runs=30):
    """{name: median of milliseconds a call}, of functions of the number of the run that take turns. Nothing waits between calls, as in a program."""
    times = {name: [] for name in calls}
    for run in range(-3, runs):
        for name, call in calls.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call(run % 3)
            end.record()
            times[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(begin.elapsed_time(end) for begin, end in pairs[3:]) for name, pairs in times.items()}


def captured(plan, x, out):
    """A CUDA graph of a call, after a call that plans."""
    graph = torch.cuda.CUDAGraph()
    plan(x, out=out)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        plan(x, out=out)
    return graph


def main():
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    try:
        import cupy
        import cupyx.scipy.ndimage as ndimage
    except ImportError:
        cupy = None
    xs = [torch.rand(SIZE, SIZE, device="cuda") for _ in range(3)]
    outs = [torch.empty_like(x) for x in xs]
    for size in (3, 9):
        taps = torch.rand(size, size)
        weight, kernel = taps[None, None].cuda(), taps.numpy()
        calls = {"gconv.filter": lambda i: gconv.filter(xs[i], kernel, out=outs[i]),
                 "torch conv2d": lambda i: torch.nn.functional.conv2d(xs[i][None, None], weight, padding=size // 2)}
        plan = gconv.Plan(kernel, (SIZE, SIZE), "float32", device="cuda")
        calls["gconv.Plan"] = lambda i: plan(xs[i], out=outs[i])
        graph = captured(plan, xs[0], outs[0])
        calls["a CUDA graph of a Plan"] = lambda i: graph.replay()
        if cupy:
            arrays, cupy_kernel = [cupy.asarray(x) for x in xs], cupy.asarray(kernel)
            calls["CuPy correlate"] = lambda i: ndimage.correlate(arrays[i], cupy_kernel, mode="constant")
        found = measure(calls)
        difference = (gconv.filter(xs[0], kernel)[None, None] - torch.nn.functional.conv2d(xs[0][None, None], weight, padding=size // 2)).abs().max()
        print(f"{size} x {size}, float32, {SIZE} x {SIZE}: largest difference to torch {difference.item():.1e}")
        for name, ms in found.items():
            print(f"  {name:24} {ms:8.4f} ms, {ms / found['gconv.filter']:6.2f} x gconv.filter")
        print(subprocess.run([sys.argv[1], "bench", "--image", f"{SIZE}x{SIZE}x1", "--type", "f32", "--sizes", str(size), "-a", "auto", "-d", "cuda"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout, flush=True)


if __name__ == "__main__":
    main()
