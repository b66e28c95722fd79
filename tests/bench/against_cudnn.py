#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What cuDNN takes for the layers of layers.c, by PyTorch: device-resident, NCHW, in float32, TF32 and (channels last) float16.

    tests/bench/against_cudnn.py       # beside build/tests/bench_layers --device cuda, on the same machine

Prints a line a layer: N C H W K R stride padding, then the median milliseconds and TFLOP/s of each.
"""
import statistics
import torch
import torch.nn.functional as F

LAYERS = (  # N, C, H, W, K, R, stride, pad
    (32, 3, 224, 224, 64, 7, 2, 3), (32, 64, 56, 56, 64, 3, 1, 1), (32, 128, 28, 28, 128, 3, 1, 1),
    (32, 256, 14, 14, 256, 3, 1, 1), (32, 512, 7, 7, 512, 3, 1, 1), (32, 64, 56, 56, 256, 1, 1, 0),
    (16, 3, 224, 224, 64, 3, 1, 1), (16, 64, 224, 224, 64, 3, 1, 1), (8, 3, 512, 512, 64, 11, 4, 2),
    (10, 4, 128, 128, 10, 16, 1, 0), (10, 4, 256, 256, 10, 32, 1, 0), (256, 3, 128, 128, 128, 8, 1, 0),
    (10, 3, 128, 128, 3, 64, 1, 0), (1, 3, 2160, 3840, 16, 5, 1, 2), (1, 3, 2160, 3840, 32, 9, 1, 4))


def median_ms(call, runs=20, warm=5):
    for _ in range(warm):
        call()
    times = []
    for _ in range(runs):
        start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record(); call(); stop.record(); stop.synchronize()
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
        ms = median_ms(lambda: F.conv2d(a, b, stride=s, padding=p))
        cells.append(f"{math} {ms:8.4f} ms {flop / ms / 1e9:6.1f} TFLOP/s")
    print(f"{n:3d} {c:3d} {h:4d} {w:4d} {k:3d} {r:2d} {s} {p} | " + " | ".join(cells), flush=True)
