/* SPDX-License-Identifier: MIT */
/* Hopper's (sm_90a) instructions for tensor cores as functions: barriers in shared memory, bulk copies, and the
 * multiplication of matrices in shared memory by a warpgroup, which has 128 threads. On other GPUs the functions are empty;
 * no kernel that uses them is launched there. */
#pragma once

#include "../copies.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER 1
#endif

namespace hopper {

#ifdef HOPPER

/* ---- Barriers: a phase ends after `count` arrivals, when all announced bytes have arrived ---- */

__device__ __forceinline__ void barrier_init(uint64_t *barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t address) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t *barrier) {
  barrier_arrive(shared_address(barrier));
}
__device__ __forceinline__ void barrier_expect(uint64_t *barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/* Waits until the phase of this parity has ended. */
__device__ __forceinline__ void barrier_wait(uint32_t address, uint32_t parity) {
  asm volatile("{\n.reg .pred done;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n}" ::"r"(address),
               "r"(parity)
               : "memory");
}
__device__ __forceinline__ bool barrier_is_over(uint64_t *barrier, uint32_t parity) {
  uint32_t over;
  asm volatile("{\n.reg .pred done;\n"
               "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
               "selp.u32 %0, 1, 0, done;\n}"
               : "=r"(over)
               : "r"(shared_address(barrier)), "r"(parity)
               : "memory");
  return over;
}
__device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity) {
  barrier_wait(shared_address(barrier), parity);
}

/* Copies `bytes`, a multiple of 16, to shared memory, and reports that to the barrier. */
__device__ __forceinline__ void bulk_copy(void *to, const void *from, uint32_t bytes, uint64_t *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

/* Copies from shared to global memory. The thread may wait for the copies started before a commit: for all but the last LEFT
 * commits to be read, or for all to be done. */
__device__ __forceinline__ void bulk_store(const void *to, uint32_t from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int LEFT = 0> __device__ __forceinline__ void bulk_store_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory");
}
__device__ __forceinline__ void bulk_store_done() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Makes this thread's stores to shared memory visible to tensor cores and bulk copies, after the next barrier. */
__device__ __forceinline__ void publish() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <int REGISTERS> __device__ __forceinline__ void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ __forceinline__ void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* ---- Multiplication ---- */

__device__ __forceinline__ void multiply_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void multiply_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most N of the committed groups are under way. */
template <int N> __device__ __forceinline__ void multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define EIGHT(i) FOUR(i), FOUR(i + 4)
#define SIXTEEN(i) EIGHT(i), EIGHT(i + 8)
#define THIRTY_TWO(i) SIXTEEN(i), SIXTEEN(i + 16)
#define SIXTY_FOUR(i) THIRTY_TWO(i), THIRTY_TWO(i + 32)
#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9"
#define TO_3 "%0, %1, %2, %3"
#define TO_7 TO_3 ", %4, %5, %6, %7"
#define TO_15 TO_7 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TO_31 TO_15 ", %16, %17, %18, %19, " TEN(2) ", %30, %31"
#define TO_63 TO_31 ", %32, %33, %34, %35, %36, %37, %38, %39, " TEN(4) ", " TEN(5) ", %60, %61, %62, %63"
#define TO_69 TO_63 ", %64, %65, %66, %67, %68, %69"
#define TO_127                                                                                                              \
  TO_69 ", " TEN(7) ", " TEN(8) ", " TEN(9) ", " TEN(10) ", " TEN(11) ", %120, %121, %122, %123, %124, %125, %126, %127"

/* c = a * b, or c += a * b if `add`: 64 rows by 256 columns; the operands are 32 bytes deep, and both in shared memory. The
 * descriptors give their places (tensor.cuh). Thread 32 w + 4 g + t of the warpgroup holds rows 16 w + g and 16 w + g + 8.
 * c[4 j + i] is, for i = 0 and 1, columns 8 j + 2 t and 8 j + 2 t + 1 of the first row, for i = 2 and 3 those of the second
 * row. */
#define DEFINE_MULTIPLY(NAME, SHAPE, TAIL)                                                                                  \
  __device__ __forceinline__ void NAME(float(&c)[128], uint64_t a, uint64_t b, uint32_t add) {                              \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\nwgmma.mma_async.sync.aligned." SHAPE " {" TO_127           \
                 "}, %128, %129, add, 1, 1" TAIL ";\n}"                                                                     \
                 : SIXTY_FOUR(0), SIXTY_FOUR(64)                                                                            \
                 : "l"(a), "l"(b), "r"(add));                                                                               \
  }
DEFINE_MULTIPLY(multiply_fp16, "m64n256k16.f32.f16.f16", ", 0, 0")
DEFINE_MULTIPLY(multiply_bf16, "m64n256k16.f32.bf16.bf16", ", 0, 0")
DEFINE_MULTIPLY(multiply_tf32, "m64n256k8.f32.tf32.tf32", "")

/* The same of float16 for N columns, 16 deep, with a in registers. a[0] has numbers 2 t and 2 t + 1 of the thread's first
 * row, a[1] those of its second row; a[2] and a[3] have the numbers 8 further on. */
template <int N>
__device__ __forceinline__ void multiply(float (&c)[N / 2], const uint32_t (&a)[4], uint64_t b, uint32_t add);
#define DEFINE_MULTIPLY_HELD(N, SUMS, ALL, A, B, ADD)                                                                       \
  template <>                                                                                                               \
  __device__ __forceinline__ void multiply<N>(float(&c)[N / 2], const uint32_t(&a)[4], uint64_t b, uint32_t add) {          \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N                   \
                 "k16.f32.f16.f16 {" SUMS "}, {" A "}, " B ", add, 1, 1, 0;\n}"                                             \
                 : ALL(0)                                                                                                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                                           \
  }
DEFINE_MULTIPLY_HELD(8, TO_3, FOUR, "%4, %5, %6, %7", "%8", "%9")
DEFINE_MULTIPLY_HELD(16, TO_7, EIGHT, "%8, %9, %10, %11", "%12", "%13")
DEFINE_MULTIPLY_HELD(32, TO_15, SIXTEEN, "%16, %17, %18, %19", "%20", "%21")
DEFINE_MULTIPLY_HELD(64, TO_31, THIRTY_TWO, "%32, %33, %34, %35", "%36", "%37")
DEFINE_MULTIPLY_HELD(128, TO_63, SIXTY_FOUR, "%64, %65, %66, %67", "%68", "%69")
__device__ __forceinline__ void multiply_fp16(float (&c)[64], const uint4 &a, uint64_t b, uint32_t add) {
  const uint32_t held[4] = {a.x, a.y, a.z, a.w};
  multiply<128>(c, held, b, add);
}

#undef FOUR
#undef EIGHT
#undef SIXTEEN
#undef THIRTY_TWO
#undef SIXTY_FOUR
#undef TEN
#undef TO_3
#undef TO_7
#undef TO_15
#undef TO_31
#undef TO_63
#undef TO_69
#undef TO_127
#undef DEFINE_MULTIPLY
#undef DEFINE_MULTIPLY_HELD

#endif

} // namespace hopper
