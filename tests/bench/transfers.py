#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pinned against pageable memory: GB/s of cudaMemcpy to the GPU and back, medians of 9 copies. Needs libcudart alone.

usage: transfers.py [LIBCUDART]
"""
import ctypes
import sys
import time

MOST = 256 << 20
TO_DEVICE, TO_HOST = 1, 2  # cudaMemcpyKind


def check(status):
    if status != 0:
        sys.exit(f"CUDA error {status}")


def gigabytes_per_s(cudart, to, source, count, kind):
    times = []
    for _ in range(9):
        start = time.perf_counter()
        check(cudart.cudaMemcpy(to, source, count, kind))
        check(cudart.cudaDeviceSynchronize())
        times.append(time.perf_counter() - start)
    return count / sorted(times)[len(times) // 2] / 1e9


def main():
    cudart = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libcudart.so")
    cudart.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    device, pinned, pageable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(MOST)
    check(cudart.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(MOST)))
    start = time.perf_counter()
    check(cudart.cudaMallocHost(ctypes.byref(pinned), ctypes.c_size_t(MOST)))
    print(f"pinning 256 MiB: {(time.perf_counter() - start) * 1e3:.1f} ms")
    ctypes.memset(pageable, 1, MOST)
    page = ctypes.addressof(pageable)
    print("     MiB  pageable up  pinned up  pageable down  pinned down  (GB/s)")
    for count in (1 << 16, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20):
        up = [gigabytes_per_s(cudart, device, host, count, TO_DEVICE) for host in (page, pinned)]
        down = [gigabytes_per_s(cudart, host, device, count, TO_HOST) for host in (page, pinned)]
        print(f"{count / 2**20:8.4g} {up[0]:12.1f} {up[1]:10.1f} {down[0]:14.1f} {down[1]:12.1f}")


if __name__ == "__main__":
    main()
