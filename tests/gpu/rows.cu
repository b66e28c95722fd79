/* SPDX-License-Identifier: MIT */
/*
 * Rows of the RBF kernel by digits (svm_rows_int8.cu) have the bytes of those by float64: of numbers of many kinds, and
 * where no value, some, or all of a tile are unsure.
 */
#include "kernels/cuda/svm/rows.cu"
#include "kernels/cuda/svm/rows_int8.cu"

#include "cuda_test.h"

#include <math.h>
#include <string.h>
#include <vector>

static int failed = 0;

static uint64_t state = 1;
static uint32_t draw() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 32);
}
static double even() { /* in [0, 1) */
  return draw() / 4294967296.0;
}
static double normal() {
  return sqrt(-2 * log((draw() + 1.0) / 4294967297.0)) * cos(6.283185307179586 * even());
}

typedef enum kind {
  GRID,
  NORMAL,
  NEARLY_EQUAL,
  SCALED_COLUMNS,
  SCALED_LINES,
  SUBNORMAL,
  SPARSE,
  TOP,
  HUGE_NUMBERS,
  RESTS,
  LAST_DIGITS
} kind;
static const char *const names[] = {
    "24 bits", "normal",         "nearly equal", "columns of other scales", "lines of other scales",  "subnormal",
    "sparse",  "largest digits", "huge",         "rests of one sign",       "last digits of one sign"};

static float make(kind k, size_t line, size_t column) {
  static const float tops[] = {0x1.fdfdfcp0f, 0x1.fdfdfep0f, 0x1.fep0f, 0x1.fffffep0f, 1.0f, 0x1p-24f};
  switch (k) {
  case GRID:
    return (float)(draw() >> 8) * 0x1p-24f;
  case NORMAL:
    return (float)normal();
  case NEARLY_EQUAL:
    return (float)(sin((double)column) + 1e-4 * normal());
  case SCALED_COLUMNS: /* some are far below 2^-32 of the largest */
    return (float)ldexp(normal(), -(int)(column % 50));
  case SCALED_LINES:
    return (float)ldexp(normal(), (int)(line * 7 % 40) - 30);
  case SUBNORMAL:
    return (float)(even() * 1e-40);
  case SPARSE: /* with lines of zeros */
    return line % 5 == 0 || draw() % 16 > 0 ? 0.0f : (float)normal();
  case TOP:
    return tops[draw() % 6] * (draw() % 2 ? 1.0f : -1.0f);
  case HUGE_NUMBERS:
    return (float)(normal() * 1e37);
  case RESTS: /* of every other line, digits lack a quarter of their last unit, in all columns but one */
    return line % 2 ? 1 - (float)(draw() >> 10) * 0x1p-24f
           : column ? (float)((draw() % (1 << 21) + (1 << 21)) * 4 + 1) * 0x1p-32f
                    : 1.0f;
  case LAST_DIGITS: /* the third and the fourth digit are 127, in all columns but one */
    return column ? (float)((draw() % 64) << 16 | 0x7f7f) * 0x1p-30f : 1.0f;
  }
  return 0;
}

struct problem {
  kind of;
  size_t cases, rows, count, columns;
  double gamma;
  bool serves; /* else digits are taken all the same */
  bool hard;   /* there are tiles in which too many values are unsure */
};

template <class T> static T *upload(const std::vector<T> &from) {
  T *to = NULL;
  CUDA(cudaMalloc(&to, from.size() * sizeof(T)));
  CUDA(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  return to;
}

/* Of the last rows by digits: unsure values, and tiles in which too many are. */
static void count_unsure(const gconv_svm_gpu_digits &digits, const problem &p, size_t pitch, size_t *values, size_t *tiles) {
  const layout at(p.count, digits.most_rows, pitch);
  std::vector<uint32_t> unsure((p.rows + TILE - 1) / TILE * ((gconv_svm_padded(p.count) + TILE - 1) / TILE) * 4);
  CUDA(cudaMemcpy(unsure.data(), (uint8_t *)digits.memory + at.unsure, unsure.size() * 4, cudaMemcpyDeviceToHost));
  *values = *tiles = 0;
  for (size_t i = 0; i < unsure.size(); i += 4) {
    const size_t all = unsure[i] + unsure[i + 1] + unsure[i + 2] + unsure[i + 3];
    *values += all;
    *tiles += all > MOST_UNSURE;
  }
}

static void check(const problem &p) {
  const size_t pitch = (p.columns + GCONV_SVM_GPU_COLUMNS - 1) / GCONV_SVM_GPU_COLUMNS * GCONV_SVM_GPU_COLUMNS;
  const size_t padded = gconv_svm_padded(p.count);
  std::vector<float> numbers(p.cases * pitch);
  std::vector<double> norms(p.cases);
  std::vector<uint32_t> members(p.count), wanted(p.rows);
  for (size_t i = 0; i < p.cases; i++)
    for (size_t c = 0; c < p.columns; c++) {
      const float x = make(p.of, i, c);
      numbers[i * pitch + c] = x;
      norms[i] += (double)x * (double)x;
    }
  for (size_t i = 0; i < p.count; i++)
    members[i] = (uint32_t)((i * 7919 + 3) % p.cases);
  for (size_t i = 0; i < p.rows; i++)
    wanted[i] = members[draw() % p.count];
  float *out = NULL;
  CUDA(cudaMalloc(&out, p.rows * padded * sizeof(float)));
  std::vector<float *> to(p.rows);
  for (size_t i = 0; i < p.rows; i++)
    to[i] = out + i * padded;
  float *const there = upload(numbers);
  double *const there_norms = upload(norms);
  uint32_t *const there_members = upload(members), *const there_wanted = upload(wanted);
  float **const there_to = upload(to);
  const gconv_svm_gpu_cases cases = {there, there_norms, p.cases, pitch};
  const gconv_svm_formula formula = {GCONV_SVM_FORM_EXP, 0, p.gamma, 0, false};
  std::vector<uint32_t> expected(p.rows * padded), found(p.rows * padded);
  gconv_svm_gpu_digits digits = {};
  const size_t bytes = gconv_svm_gpu_digits_bytes(p.count, p.rows, pitch);
  void *memory = NULL;
  CUDA(cudaMalloc(&memory, bytes + 1));
  CUDA(cudaMemset(memory, 0xa5, bytes + 1));
  if (bytes > 0)
    CUDA(gconv_svm_gpu_digits_make(&formula, &cases, there_members, p.count, p.rows, memory, NULL, &digits));
  const bool served = digits.serve;
  digits.serve = bytes > 0;
  for (int by_digits = 0; by_digits < 2; by_digits++) {
    CUDA(cudaMemset(out, 0x7b, p.rows * padded * sizeof(float)));
    if (by_digits && digits.serve)
      gconv_svm_gpu_rows_by_digits(&formula, &cases, there_wanted, there_to, p.rows, there_members, &digits, NULL);
    else
      gconv_svm_gpu_rows(&formula, &cases, there_wanted, there_to, p.rows, there_members, p.count, NULL, NULL);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(by_digits ? found.data() : expected.data(), out, found.size() * 4, cudaMemcpyDeviceToHost));
  }
  size_t different = 0, ones = 0, zeros = 0, unsure = 0, tiles = 0;
  for (size_t i = 0; i < found.size(); i++) {
    different += found[i] != expected[i];
    zeros += expected[i] == 0;
    ones += expected[i] == 0x3f800000;
  }
  if (digits.serve)
    count_unsure(digits, p, pitch, &unsure, &tiles);
  const bool right = bytes > 0 && different == 0 && served == p.serves && (tiles > 0) == p.hard;
  printf("%s: %zu of %zu cases of %zu, %zu rows, gamma %g: %zu of %zu differ (%zu are 0, %zu are 1), %zu unsure, %zu "
         "tiles%s%s\n",
         names[p.of], p.count, p.cases, p.columns, p.rows, p.gamma, different, found.size(), zeros, ones, unsure, tiles,
         served ? "" : ", do not serve", right ? "" : ": WRONG");
  failed += !right;
  for (void *m : {(void *)out, (void *)there, (void *)there_norms, (void *)there_members, (void *)there_wanted,
                  (void *)there_to, memory})
    CUDA(cudaFree(m));
}

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0 || gconv_svm_gpu_digits_bytes(1000, 512, 1000) == 0) {
    printf("no GPU, or none of this kind\n");
    return SKIPPED;
  }
  check({GRID, 4000, 512, 4000, 1000, 1e-3, true, false});
  check({GRID, 9000, 130, 8999, 256, 2e-3, true, false});   /* 8 pieces, the fewest */
  check({NORMAL, 3333, 191, 3001, 271, 5e-4, true, false}); /* an odd number of pieces, with one of zeros */
  check({NORMAL, 700, 128, 129, 777, 2e-4, true, false});
  check({NORMAL, 300, 1, 33, 300, 5e-4, true, false});
  check({NORMAL, 300, 65, 192, 300, 5e-4, true, false});
  check({NORMAL, 3000, 300, 3000, 2049, 1e-5, true, false});
  check({NORMAL, 500, 140, 450, 20000, 1e-6, true, false});
  check({NEARLY_EQUAL, 2000, 256, 2000, 500, 0.01, true, false});
  check({NEARLY_EQUAL, 2000, 256, 2000, 500, 1e4, false, true});
  check({SCALED_COLUMNS, 2000, 200, 1999, 600, 1e-4, true, false});
  check({SCALED_LINES, 4000, 256, 3900, 400, 1e-3, false, true});
  check({SUBNORMAL, 1000, 200, 900, 300, 1e77, true, false});
  check({SPARSE, 3000, 200, 2900, 1234, 1e-3, true, false});
  check({SPARSE, 3000, 200, 2900, 1234, 10, false, false}); /* nearly all values are 0 or 1 */
  check({TOP, 3000, 200, 2900, 600, 1e-3, true, false});
  check({HUGE_NUMBERS, 1000, 200, 900, 300, 2e-78, true, false});
  check({RESTS, 3000, 200, 2900, 600, 3e-4, true, false});
  check({LAST_DIGITS, 3000, 200, 2900, 600, 0.03, true, false});
  check({NORMAL, 1000, 200, 900, 300, 0.1, false, true});
  check({NORMAL, 1000, 200, 900, 300, 1e9, false, true}); /* even zeros are unsure */
  return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
