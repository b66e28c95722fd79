/* SPDX-License-Identifier: MIT */
/* Multiplication by a warpgroup with the first operand in registers: 64 rows, 16 deep, by N columns in shared memory. */
#ifndef GCONV_CUDA_LAYER_GATHER_MULTIPLY_CUH
#define GCONV_CUDA_LAYER_GATHER_MULTIPLY_CUH

#include "hopper.cuh"

namespace gather {

#ifdef HOPPER
/* c += a * b, or c = a * b if not `add`. Thread 32 w + 4 g + t of the warpgroup has a[0]: row 16 w + g, numbers 2 t and 2 t
 * + 1; a[1]: row + 8; a[2] and a[3]: numbers + 8. c is as in hopper.cuh, b is a descriptor. */
template <int N>
__device__ __forceinline__ void multiply(float (&c)[N / 2], const uint32_t (&a)[4], uint64_t b, uint32_t add);

#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define EIGHT(i) FOUR(i), FOUR(i + 4)
#define SIXTEEN(i) EIGHT(i), EIGHT(i + 8)
#define THIRTY_TWO(i) SIXTEEN(i), SIXTEEN(i + 16)
#define SIXTY_FOUR(i) THIRTY_TWO(i), THIRTY_TWO(i + 32)
#define TO_3 "%0, %1, %2, %3"
#define TO_7 TO_3 ", %4, %5, %6, %7"
#define TO_15 TO_7 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TO_31 TO_15 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TO_63                                                                                                               \
  TO_31 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "  \
        "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define DEFINE_MULTIPLY(N, SUMS, ALL, A, B, ADD)                                                                            \
  template <>                                                                                                               \
  __device__ __forceinline__ void multiply<N>(float(&c)[N / 2], const uint32_t(&a)[4], uint64_t b, uint32_t add) {          \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N                   \
                 "k16.f32.f16.f16 {" SUMS "}, {" A "}, " B ", add, 1, 1, 0;\n}"                                             \
                 : ALL(0)                                                                                                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                                           \
  }
DEFINE_MULTIPLY(8, TO_3, FOUR, "%4, %5, %6, %7", "%8", "%9")
DEFINE_MULTIPLY(16, TO_7, EIGHT, "%8, %9, %10, %11", "%12", "%13")
DEFINE_MULTIPLY(32, TO_15, SIXTEEN, "%16, %17, %18, %19", "%20", "%21")
DEFINE_MULTIPLY(64, TO_31, THIRTY_TWO, "%32, %33, %34, %35", "%36", "%37")
DEFINE_MULTIPLY(128, TO_63, SIXTY_FOUR, "%64, %65, %66, %67", "%68", "%69")

#undef FOUR
#undef EIGHT
#undef SIXTEEN
#undef THIRTY_TWO
#undef SIXTY_FOUR
#undef TO_3
#undef TO_7
#undef TO_15
#undef TO_31
#undef TO_63
#undef DEFINE_MULTIPLY
#endif

} // namespace gather

#endif
