/* SPDX-License-Identifier: MIT */
/* Hopper's (sm_90a) instructions for tensor cores as functions: barriers in shared memory, bulk copies, and the
 * multiplication of matrices in shared memory by a warpgroup, which has 128 threads. On other GPUs the functions are empty;
 * no kernel that uses them is launched there. */
#ifndef GCONV_CUDA_LAYER_HOPPER_CUH
#define GCONV_CUDA_LAYER_HOPPER_CUH

#include <stdint.h>

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER 1
#endif

namespace hopper {

__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

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
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define ALL SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48), SIXTEEN(64), SIXTEEN(80), SIXTEEN(96), SIXTEEN(112)
#define REGISTERS_0_TO_127                                                                                                  \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                                 \
  "%16, %17, %18, %19, %20, %21, "                                                                                          \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "                                                  \
  "%36, %37, %38, %39, %40, %41, "                                                                                          \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "                                                  \
  "%56, %57, %58, %59, %60, %61, "                                                                                          \
  "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, "                                                  \
  "%76, %77, %78, %79, %80, %81, "                                                                                          \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                                                  \
  "%96, %97, %98, %99, %100, %101, "                                                                                        \
  "%102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, "                                                \
  "%114, %115, %116, %117, %118, "                                                                                          \
  "%119, %120, %121, %122, %123, %124, %125, %126, %127}, "

#define REGISTERS_0_TO_63                                                                                                   \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                                 \
  "%16, %17, %18, %19, %20, %21, "                                                                                          \
  "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "                                                  \
  "%36, %37, %38, %39, %40, %41, "                                                                                          \
  "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "                                                  \
  "%56, %57, %58, %59, %60, %61, %62, %63}, "

/* c = a * b, or c += a * b if `add`: 64 rows by 256 columns; the operands are 32 bytes deep, and both in shared memory. The
 * descriptors give their places (tensor.cuh). Thread 32 w + 4 g + t of the warpgroup holds rows 16 w + g and 16 w + g + 8.
 * c[4 j + i] is, for i = 0 and 1, columns 8 j + 2 t and 8 j + 2 t + 1 of the first row, for i = 2 and 3 those of the second
 * row. */
#define DEFINE_MULTIPLY(NAME, SHAPE, TAIL)                                                                                  \
  __device__ __forceinline__ void NAME(float(&c)[128], uint64_t a, uint64_t b, uint32_t add) {                              \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, "                                                              \
                 "0;\nwgmma.mma_async.sync.aligned." SHAPE " " REGISTERS_0_TO_127 "%128, %129, add, 1, 1" TAIL ";\n}"       \
                 : ALL                                                                                                      \
                 : "l"(a), "l"(b), "r"(add));                                                                               \
  }
DEFINE_MULTIPLY(multiply_fp16, "m64n256k16.f32.f16.f16", ", 0, 0")
DEFINE_MULTIPLY(multiply_bf16, "m64n256k16.f32.bf16.bf16", ", 0, 0")
DEFINE_MULTIPLY(multiply_tf32, "m64n256k8.f32.tf32.tf32", "")

/* The same for 128 columns, with a in registers. It has the rows of c. Its numbers are 2 t and 2 t + 1 of the first 8 of the
 * first row, then of the second row, then the same of the next 8 numbers. */
#define DEFINE_MULTIPLY_HELD(NAME, SHAPE)                                                                                   \
  __device__ __forceinline__ void NAME(float(&c)[64], const uint4 &a, uint64_t b, uint32_t add) {                           \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %69, "                                                               \
                 "0;\nwgmma.mma_async.sync.aligned." SHAPE " " REGISTERS_0_TO_63                                            \
                 "{%64, %65, %66, %67}, %68, add, 1, 1, 0;\n}"                                                              \
                 : SIXTEEN(0), SIXTEEN(16), SIXTEEN(32), SIXTEEN(48)                                                        \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b), "r"(add));                                               \
  }
DEFINE_MULTIPLY_HELD(multiply_fp16, "m64n128k16.f32.f16.f16")

#undef FOUR
#undef SIXTEEN
#undef ALL
#undef REGISTERS_0_TO_127
#undef REGISTERS_0_TO_63
#undef DEFINE_MULTIPLY
#undef DEFINE_MULTIPLY_HELD

#endif

} // namespace hopper

#endif
