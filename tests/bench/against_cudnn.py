#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What cuDNN takes for the layers of layers.c, by PyTorch: device-resident, NCHW, in float32, TF32 and (channels last) float16.

    tests/bench/against_cudnn.py [--warm]      # beside build/tests/bench_layers --device cuda [--warm], on the same machine

Measures as gconv_network_measure() does: each run is of another input and output, so that no cache holds any of them (with
--warm, of the same), and enqueued while the GPU is busy, so that what the host takes does not count.
Prints a line a layer: N C H W K R stride padding, then the median milliseconds and TFLOP/s of each.
"""
import statistics
import sys
import torch
import torch.nn.functional as F

LAYERS = (  # N, C, H, W, K, R, stride, pad
    (32, 3, 224, 224, 64, 7, 2, 3), (32, 64, 56, 56, 64, 3, 1, 1), (32, 128, 28, 28, 128, 3, 1, 1),
    (32, 256, 14, 14, 256, 3, 1, 1), (32, 512, 7, 7, 512, 3, 1, 1), (32, 64, 56, 56, 256, 1, 1, 0),
    (16, 3, 224, 224, 64, 3, 1, 1), (16, 64, 224, 224, 64, 3, 1, 1), (8, 3, 512, 512, 64, 11, 4, 2),
    (10, 4, 128, 128, 10, 16, 1, 0), (10, 4, 256, 256, 10, 32, 1, 0), (256, 3, 128, 128, 128, 8, 1, 0),
    (10, 3, 128, 128, 3, 64, 1, 0), (1, 3, 2160, 3840, 16, 5, 1, 2), (1, 3, 2160, 3840, 32, 9, 1, 4))


ROTATED_BYTES = 256 << 20  # as in src/layer/network_cuda.cu
BUSY_CYCLES = 200000
WARM = "--warm" in sys.argv[1:]


def copies_of(tensor):
    return 1 if WARM else min(ROTATED_BYTES // tensor.nbytes + 1, 64)


def median_ms(call, x, runs=20):
    kept = [None] * copies_of(call(x))
    copies = [x.clone() for _ in range(copies_of(x))]
    times = []
    for i in range(-5 - len(kept), runs):
        start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
        kept[i % len(kept)] = None
        torch.cuda._sleep(BUSY_CYCLES)
        start.record()
        kept[i % len(kept)] = call(copies[i % len(copies)])
        stop.record()
        stop.synchronize()
        if i >= 0:
            times.append(start.elapsed_time(stop))
    return statistics.median(times)


torch.backends.cudnn.benchmark = True
for n, c, h, w, k, r, s, p in LAYERS:
    x, weight = torch.randn(n, c, h, w, device="cuda"), torch.randn(k, c, r, r, device="cuda")
    flop = 2 * n * k * c * r * r * ((h + 2 * p - r) // s + 1) * ((w + 2 * p - r) // s + 1)
    cells = []
    for math in ("fp32", "tf32", "fp16"):
        torch.backends.cudnn.allow_tf32 = math == "tf32"
        a, b = x, weight
        if math == "fp16":
            a, b = (t.half().contiguous(memory_format=torch.channels_last) for t in (x, weight))
        ms = median_ms(lambda x: F.conv2d(x, b, stride=s, padding=p), a)
        cells.append(f"{math} {ms:8.4f} ms {flop / ms / 1e9:6.1f} TFLOP/s")
    print(f"{n:3d} {c:3d} {h:4d} {w:4d} {k:3d} {r:2d} {s} {p} | " + " | ".join(cells), flush=True)
