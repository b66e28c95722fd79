/* SPDX-License-Identifier: MIT */
/* Hopper's instructions as functions: barriers in shared memory and bulk copies, which later GPUs have, too (COPY_ENGINE);
 * and (sm_90a alone: HOPPER) the multiplication of matrices in shared memory by a warpgroup, which has 128 threads. Compiled
 * for other GPUs, kernels that use such instructions are empty, and are never launched. */
#pragma once

#include "../core/behind.cuh"
#include "../core/copies.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER 1
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define COPY_ENGINE 1
#endif

namespace hopper {

using ::admit_kernel_behind;
using ::await_kernel_before;
using ::launch_behind;

/* ---- Barriers: a phase ends after `count` arrivals, when all announced bytes have arrived ---- */

DEVICE void barrier_init(uint64_t *barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
DEVICE void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void barrier_arrive(uint32_t address) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
}
DEVICE void barrier_arrive(uint64_t *barrier) {
  barrier_arrive(shared_address(barrier));
}
/* Announces how many bytes will be copied, and arrives. */
DEVICE void barrier_expect(uint64_t *barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/* Waits until the phase of this parity has ended. */
DEVICE void barrier_wait(uint32_t address, uint32_t parity) {
  asm volatile("{\n.reg .pred done;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n}" ::"r"(address),
               "r"(parity)
               : "memory");
}
DEVICE void barrier_wait(uint64_t *barrier, uint32_t parity) {
  barrier_wait(shared_address(barrier), parity);
}

/* Copies `bytes` bytes, a multiple of 16, to shared memory, and reports them to the barrier. */
DEVICE void bulk_copy(void *to, const void *from, uint32_t bytes, uint64_t *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

/* bulk_copy() to all blocks of a cluster whose bit in `blocks` is set. Each block gets the bytes at the same place, and its
 * own barrier counts them. */
DEVICE void bulk_copy_to_all(void *to, const void *from, uint32_t bytes, uint64_t *barrier, uint16_t blocks) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(blocks)
               : "memory");
}
/* Arrives at the barrier that is at the same place in the shared memory of another block of the cluster. */
DEVICE void barrier_arrive_there(uint64_t *barrier, uint32_t block) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(barrier)),
               "r"(block)
               : "memory");
}
/* All threads of the blocks of a cluster wait for each other. */
DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Reads a float at the place of `address` in the shared memory of another block of the cluster. */
DEVICE float load_there(uint32_t address, uint32_t block) {
  float number;
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\n"
               "ld.shared::cluster.f32 %0, [there];\n}"
               : "=f"(number)
               : "r"(address), "r"(block)
               : "memory");
  return number;
}
/* Prefetches `bytes` bytes, a multiple of 16, to the L2 cache. */
DEVICE void bulk_prefetch(const void *from, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

/* bulk_store() starts a copy from shared to global memory. bulk_store_commit() closes the thread's group of copies.
 * bulk_store_read() waits until all groups have been read from shared memory, bulk_store_done() until they are done. */
DEVICE void bulk_store(const void *to, uint32_t from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
DEVICE void bulk_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
DEVICE void bulk_store_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
DEVICE void bulk_store_done() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Makes this thread's stores to shared memory visible to tensor cores and bulk copies, after the next barrier. */
DEVICE void publish() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Returns the largest number of all lanes. */
DEVICE uint32_t largest_of_warp(uint32_t number) {
#ifdef COPY_ENGINE
  number = __reduce_max_sync(UINT32_MAX, number);
#else
  for (int distance = 16; distance > 0; distance /= 2)
    number = max(number, __shfl_xor_sync(UINT32_MAX, number, distance));
#endif
  return number;
}

/* Waits at barrier `name` for `threads` threads, which are some warps of the block. */
DEVICE void barrier_of(int32_t name, int32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
/* Arrives at a barrier of barrier_of() without waiting. The other warps wait there. */
DEVICE void barrier_pass(int32_t name, int32_t threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/* Raises the registers of each thread of a warpgroup to REGISTERS; registers_down() gives registers up. */
template <int REGISTERS> DEVICE void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> DEVICE void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* ---- Multiplication ---- */

DEVICE void multiply_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void multiply_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most N of the committed groups are under way. */
template <int N> DEVICE void multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define SUMS_4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SUMS_8(i) SUMS_4(i), SUMS_4(i + 4)
#define SUMS_16(i) SUMS_8(i), SUMS_8(i + 8)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)
#define SUMS_64(i) SUMS_32(i), SUMS_32(i + 32)
#define NUMBERS_10(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9"
#define NUMBERS_TO_3 "%0, %1, %2, %3"
#define NUMBERS_TO_7 NUMBERS_TO_3 ", %4, %5, %6, %7"
#define NUMBERS_TO_15 NUMBERS_TO_7 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NUMBERS_TO_31 NUMBERS_TO_15 ", %16, %17, %18, %19, " NUMBERS_10(2) ", %30, %31"
#define NUMBERS_TO_63                                                                                                       \
  NUMBERS_TO_31 ", %32, %33, %34, %35, %36, %37, %38, %39, " NUMBERS_10(4) ", " NUMBERS_10(5) ", %60, %61, %62, %63"
#define NUMBERS_TO_69 NUMBERS_TO_63 ", %64, %65, %66, %67, %68, %69"
#define NUMBERS_TO_127                                                                                                      \
  NUMBERS_TO_69 ", " NUMBERS_10(7) ", " NUMBERS_10(8) ", " NUMBERS_10(9) ", " NUMBERS_10(10) ", " NUMBERS_10(               \
      11) ", %120, %121, %122, %123, %124, %125, %126, %127"

/* c = a * b, or c += a * b if `add`: 64 rows by 256 columns; the operands are 32 bytes deep, and both in shared memory. The
 * descriptors give their places (tensor_multiply.cuh). Thread 32 w + 4 g + t of the warpgroup holds rows 16 w + g and 16 w +
 * g + 8. c[4 j] and c[4 j + 1] are columns 8 j + 2 t and 8 j + 2 t + 1 of the first row. c[4 j + 2] and c[4 j + 3] are these
 * columns of the second row. */
#define DEFINE_MULTIPLY(NAME, SHAPE, TAIL)                                                                                  \
  DEVICE void NAME(float(&c)[128], uint64_t a, uint64_t b, uint32_t add) {                                                  \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\nwgmma.mma_async.sync.aligned." SHAPE " {" NUMBERS_TO_127   \
                 "}, %128, %129, add, 1, 1" TAIL ";\n}"                                                                     \
                 : SUMS_64(0), SUMS_64(64)                                                                                  \
                 : "l"(a), "l"(b), "r"(add));                                                                               \
  }
DEFINE_MULTIPLY(multiply_fp16, "m64n256k16.f32.f16.f16", ", 0, 0")
DEFINE_MULTIPLY(multiply_bf16, "m64n256k16.f32.bf16.bf16", ", 0, 0")
DEFINE_MULTIPLY(multiply_tf32, "m64n256k8.f32.tf32.tf32", "")

/* c = a * b, or c += a * b if `add`, with a in registers, for 2 * COUNT columns. COUNT is the number of a thread's sums.
 * a[0] has numbers of the thread's first row, a[1] of its second row:
 *
 *              depth    a[0] and a[1] have          a[2] and a[3] have
 *     fp16     16       numbers 2 t and 2 t + 1     the numbers 8 further on; bf16, too
 *     tf32     8        number t                    the numbers 4 further on */
#define DEFINE_MULTIPLY_HELD(NAME, COUNT, SHAPE, TAIL, NUMBERS, SUMS, A, B, ADD)                                            \
  DEVICE void NAME(float(&c)[COUNT], const uint32_t(&a)[4], uint64_t b, uint32_t add) {                                     \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned." SHAPE " {" NUMBERS       \
                 "}, {" A "}, " B ", add, 1, 1" TAIL ";\n}"                                                                 \
                 : SUMS(0)                                                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                                           \
  }
#define DEFINE_MULTIPLY_HALVES(N, COUNT, NUMBERS, SUMS, A, B, ADD)                                                          \
  DEFINE_MULTIPLY_HELD(multiply_fp16, COUNT, "m64n" #N "k16.f32.f16.f16", ", 0", NUMBERS, SUMS, A, B, ADD)                  \
  DEFINE_MULTIPLY_HELD(multiply_bf16, COUNT, "m64n" #N "k16.f32.bf16.bf16", ", 0", NUMBERS, SUMS, A, B, ADD)
DEFINE_MULTIPLY_HALVES(8, 4, NUMBERS_TO_3, SUMS_4, "%4, %5, %6, %7", "%8", "%9")
DEFINE_MULTIPLY_HALVES(16, 8, NUMBERS_TO_7, SUMS_8, "%8, %9, %10, %11", "%12", "%13")
DEFINE_MULTIPLY_HALVES(32, 16, NUMBERS_TO_15, SUMS_16, "%16, %17, %18, %19", "%20", "%21")
DEFINE_MULTIPLY_HALVES(64, 32, NUMBERS_TO_31, SUMS_32, "%32, %33, %34, %35", "%36", "%37")
DEFINE_MULTIPLY_HALVES(128, 64, NUMBERS_TO_63, SUMS_64, "%64, %65, %66, %67", "%68", "%69")
DEFINE_MULTIPLY_HELD(multiply_tf32, 32, "m64n64k8.f32.tf32.tf32", "", NUMBERS_TO_31, SUMS_32, "%32, %33, %34, %35", "%36",
                     "%37")

/* c += a * b of int8, exact in int32: 64 rows by 64 columns, 32 deep; c as above. a[0] has numbers 4 t to 4 t + 3 of the
 * thread's first row, a[1] those of its second row. a[2] and a[3] have the numbers 16 further on. */
#define INTEGERS_4(i) "+r"(c[i]), "+r"(c[i + 1]), "+r"(c[i + 2]), "+r"(c[i + 3])
#define INTEGERS_16(i) INTEGERS_4(i), INTEGERS_4(i + 4), INTEGERS_4(i + 8), INTEGERS_4(i + 12)
DEVICE void multiply_int8(int32_t (&c)[32], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {" NUMBERS_TO_31 "}, {%32, %33, %34, %35}, %36, 1;"
               : INTEGERS_16(0), INTEGERS_16(16)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

} // namespace hopper
