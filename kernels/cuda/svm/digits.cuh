/* SPDX-License-Identifier: MIT */
/*
 * Cuts lines of float32 numbers into digits of 8 bits. Tensor cores of int8 compute sums of x y from them (rows_int8.cu).
 *
 * The numbers x of a line become integers X of 32 bits, x = 2^e (X + r). e is chosen so that the largest |X| is between 2^30
 * and 2^31, or a little below. The rest r is 1/2 at most. It is 0 for numbers of at least 2^-6 of the largest, because X
 * has all of their bits. Each X is cut into four digits of -128 .. 127:
 *
 *     X = x1 256^3 + x2 256^2 + x3 256 + x4
 *
 * A product X Y is 16 products of digits xi yj. The 13 with i + j <= 6 are summed up exactly, as integers. Their sum is T. T
 * lacks the other three products, and the products with r. Here x y stands for the sum over all columns:
 *
 *     x y / 2^(ex + ey) - T  =  256 (x3 y4 + x4 y3) + x4 y4  +  r_x (Y + r_y)  +  X r_y
 *
 * A sum of products is at most |x| |y|, where |x| = sqrt(sum of x^2). It is also at most the largest number of one line
 * times the sum of the absolute numbers of the other. So
 *
 *     | x y - 2^(ex + ey) T |  <=  E  =  p_x q_y + q_x p_y + min(v_x u_y, s_x m_y) + min(u_x v_y, m_x s_y)
 *
 *     p = 2^e (256 |x3| + |x4|)     u = 2^e (|X| + |r|), which is |x| at least     m: the largest number
 *     q = 2^e |x4|                  v = 2^e |r|                                    s = 2^e (sum of the absolute r)
 *
 * These six numbers of each line are computed when it is cut, and rounded up. A sum in float64 is a chain of `columns` fused
 * multiply-adds, each with a rounding error of 2^-53:
 *
 *     | chain - x y |  <=  columns 2^-53 |x| |y| (1 + 2^-30)        of up to MOST_COLUMNS columns
 *
 * In a distance d = (|x|^2 + |y|^2) - 2 x y, the part in parentheses is the same for both methods. Each method rounds 2^(ex
 * + ey) T and d with a relative error of 2^-53, and |d| <= |x|^2 + |y|^2 + 2 |x| |y| <= 2 u_x^2 + 2 u_y^2. So the distance
 * by digits differs from the distance by the chain by at most
 *
 *     D  =  2 E + (columns + 8) 2^-52 u_x u_y + 2^-50 (u_x^2 + u_y^2)
 *
 * Distances below 0 become 0, which brings the two no further apart. e^(-gamma d) has a relative difference of gamma D.
 */
#pragma once

#include "../core/unroll.cuh"
#include "rows.h"

namespace svm_digits {

/* A piece of memory has the digits of TILE lines and PIECE_COLUMNS columns. It is a sequence of units, each of one digit of
 * UNIT columns: the first digits of columns 0 .. 15, of columns 16 .. 31, the second digits of columns 0 .. 15 ... A unit
 * has UNIT bytes per line. Tensor cores need this layout: 8 lines of 16 bytes are contiguous. */
enum { DIGITS = 4, TILE = 64, PIECE_COLUMNS = 32, UNIT = 16, UNIT_BYTES = TILE * UNIT };
enum { UNITS = PIECE_COLUMNS / UNIT * DIGITS, PIECE = UNITS * UNIT_BYTES };
/* Up to MOST_COLUMNS columns, sums of 4 products of digits, each 2^14 at most, stay below 2^31. */
enum { MOST_COLUMNS = (1 << 15) - PIECE_COLUMNS };
enum { CUT_LINES = 8, CUT_THREADS = 32 * CUT_LINES };
constexpr uint32_t EVERY_128 = 0x80808080u, MOST_DIGITS = 0x7f7f7f7fu; /* 128 in each byte; the largest X with four digits */

/* The six numbers of a line that bound E and D, or their maxima over many lines. */
struct bounds {
  float p, q, u, v, m, s;
};

/* The data of a line that the multiplication needs besides its digits. */
struct __align__(16) line {
  double norm, scale; /* |x|^2, as the caller gives it; 2^e */
  bounds most;
  float *to; /* rows only: where their values are stored */
};

__device__ inline double power_of_two(int exponent) {
  return __hiloint2double((1023 + exponent) << 20, 0);
}

/* Returns the least e for which four digits hold the largest number of a line. */
__device__ inline int exponent_of(float largest) {
  if (largest == 0)
    return 0;
  const int exponent = (__double2hiint((double)largest) >> 20) - 1023 - 30;
  return (double)largest * power_of_two(-exponent) > MOST_DIGITS ? exponent + 1 : exponent;
}

/* The sums from which bounds follow, of one lane or of all lanes. */
struct lengths {
  double whole = 0, rest = 0, rest_sum = 0; /* X^2, r^2, |r| */
  int32_t third = 0, fourth = 0;            /* x3^2, x4^2 */

  /* Returns the digits of a number, x1 in the highest byte. */
  __device__ uint32_t cut(double scaled) {
    const int32_t whole_number = __double2int_rn(scaled);
    const double left = scaled - (double)whole_number;
    /* The digits plus 128 are the bytes of X + 0x80808080. */
    const uint32_t digits = ((uint32_t)whole_number + EVERY_128) ^ EVERY_128;
    const int32_t third_digit = (int8_t)(digits >> 8), fourth_digit = (int8_t)digits;
    whole += (double)whole_number * (double)whole_number;
    rest += left * left;
    rest_sum += fabs(left);
    third += third_digit * third_digit;
    fourth += fourth_digit * fourth_digit;
    return digits;
  }
  __device__ void add_lanes() {
    UNROLLED_FOR (int by = 16; by > 0; by /= 2) {
      whole += __shfl_xor_sync(~0u, whole, by);
      rest += __shfl_xor_sync(~0u, rest, by);
      rest_sum += __shfl_xor_sync(~0u, rest_sum, by);
      third += __shfl_xor_sync(~0u, third, by);
      fourth += __shfl_xor_sync(~0u, fourth, by);
    }
  }
  __device__ bounds finish(float largest, double scale) const {
    const double more = 1 + 0x1p-20, up = scale * more; /* more than all rounding errors here */
    const double x3 = sqrt((double)third), x4 = sqrt((double)fourth), r = sqrt(rest);
    return {__double2float_ru(up * (256 * x3 + x4)),   __double2float_ru(up * x4),
            __double2float_ru(up * (sqrt(whole) + r)), __double2float_ru(up * r),
            __double2float_ru((double)largest * more), __double2float_ru(up * rest_sum)};
  }
};

/* Returns D of two lines, or of the maxima of many lines. float64 neither overflows nor underflows here. */
__host__ __device__ inline double largest_difference(const bounds &x, const bounds &y, double columns) {
  const double xu = (double)x.u, yu = (double)y.u;
  const double digits = (double)x.p * (double)y.q + (double)x.q * (double)y.p;
  const double x_rest = fmin((double)x.v * yu, (double)x.s * (double)y.m);
  const double y_rest = fmin(xu * (double)y.v, (double)x.m * (double)y.s);
  return (2 * (digits + x_rest + y_rest) + (columns + 8) * 0x1p-52 * xu * yu + 0x1p-50 * (xu * xu + yu * yu)) *
         (1 + 0x1p-20);
}

/* Cuts the lines cases[numbers[i]] for i < count, one warp per line; lines from `count` on are zeros. to: where values of
 * rows are stored, or NULL. most: becomes the maxima of bounds, or NULL. */
__global__ void __launch_bounds__(CUT_THREADS)
    cut_lines(gconv_svm_gpu_cases cases, const uint32_t *numbers, size_t count, uint32_t steps, uint8_t *digits, line *lines,
              float *const *to, bounds *most) {
  const size_t at = (size_t)blockIdx.x * CUT_LINES + threadIdx.x / 32, lane = threadIdx.x % 32;
  const size_t number = at < count ? numbers[at] : 0, pitch = at < count ? cases.pitch : 0;
  const float *x = cases.numbers + number * cases.pitch;
  float largest = 0;
  UNROLLED_8_FOR(size_t c = lane; c < pitch; c += 32)
  largest = fmaxf(largest, fabsf(x[c]));
  UNROLLED_FOR (int by = 16; by > 0; by /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, by));
  const int exponent = exponent_of(largest);
  const double inverse = power_of_two(-exponent);
  uint8_t *piece = digits + at / TILE * steps * PIECE + at % TILE * UNIT;
  lengths own;
  for (size_t unit = lane; unit < (size_t)steps * (PIECE_COLUMNS / UNIT); unit += 32) {
    const float4 *from = (const float4 *)(x + unit * UNIT);
    uint32_t words[DIGITS][UNIT / 4];
    UNROLLED_FOR (int i = 0; i < UNIT / 4; i++) {
      const float4 four = unit * UNIT < pitch ? from[i] : make_float4(0, 0, 0, 0);
      const uint32_t a = own.cut((double)four.x * inverse), b = own.cut((double)four.y * inverse);
      const uint32_t c = own.cut((double)four.z * inverse), d = own.cut((double)four.w * inverse);
      UNROLLED_FOR (int digit = 0; digit < DIGITS; digit++) {
        const int shift = 8 * (DIGITS - 1 - digit);
        words[digit][i] = (a >> shift & 255) | (b >> shift & 255) << 8 | (c >> shift & 255) << 16 | d >> shift << 24;
      }
    }
    UNROLLED_FOR (int digit = 0; digit < DIGITS; digit++)
      *(uint4 *)(piece + unit / 2 * PIECE + (2 * digit + unit % 2) * UNIT_BYTES) =
          make_uint4(words[digit][0], words[digit][1], words[digit][2], words[digit][3]);
  }
  own.add_lanes();
  if (lane > 0)
    return;
  const bounds found = own.finish(largest, power_of_two(exponent));
  lines[at] = {at < count ? cases.norms[number] : 0, power_of_two(exponent), found, to && at < count ? to[at] : NULL};
  for (int i = 0; most && i < (int)(sizeof found / sizeof(float)); i++) /* floats from 0 on are in the order of their bits */
    atomicMax((uint32_t *)most + i, __float_as_uint(((const float *)&found)[i]));
}

} // namespace svm_digits
