/* SPDX-License-Identifier: MIT */
/*
 * The part of direct for small filters on one or three channels, as first layers have them.
 *
 *     samples of a thread, in registers                     filters of a block, in shared memory
 *     +-----------------------+                             +-------+
 *     | (HIGH - 1) stride + R |                             | C R R |  bias, the next filter ...
 *     | by 3 stride + R,      |   x  tap after tap   ->     +-------+
 *     | of C channels         |                             HIGH x 4 sums, stored before the next filter
 *     +-----------------------+
 *
 * A thread loads all samples that HIGH x 4 neighbouring outputs need, once. Then it goes through the filters. For 3 x 3 taps
 * of 3 channels, 7 loads of four weights serve 27 HIGH x 4 multiply-adds. A thread stores 16 bytes of each row of outputs.
 * If rows are not aligned, a warp first exchanges outputs, so that its lanes store neighbours.
 */
#pragma once

#include "../../core/copies.cuh"
#include "../../core/weights.cuh"

#include <algorithm>
#include <utility>

namespace small {

constexpr int THREADS = 128, WIDE = 4;

/* A kernel for C channels and R x R taps. A thread has HIGH x WIDE outputs. FIT blocks fit on a multiprocessor. */
template <int C_, int R_, int STRIDE_, int HIGH_, int FIT_> struct shape {
  static constexpr int C = C_, R = R_, STRIDE = STRIDE_, HIGH = HIGH_, FIT = FIT_, TAPS = C * R * R;
  static constexpr int PITCH = (TAPS + 4) / 4 * 4; /* taps and bias, rounded up to groups of four */
  static constexpr int ROWS = (HIGH - 1) * STRIDE + R, COLUMNS = (WIDE - 1) * STRIDE + R;
};

/* The work of each block. A job is a block of threads and a block of filters. If the last jobs are too few for all
 * multiprocessors, each of these jobs is divided into parts of its filters. Otherwise most multiprocessors would wait for
 * the few that have a second job. */
struct division {
  int32_t tiles, filters;      /* blocks of threads; filters of a job */
  int32_t jobs, parts;         /* jobs that are not divided; parts of each divided job */
  int32_t part_filters, count; /* filters of a part; blocks of the grid */
};

struct small_arguments {
  gconv_layer_problem problem;
  const float *weights, *in; /* in the order of prepare() */
  float *out;
  int32_t across, down; /* threads of a row of outputs; rows of threads of an image */
  int64_t threads;
  bool whole; /* rows are multiples of WIDE, and aligned to 16 bytes */
  division work;
};

constexpr int MOST_FILTERS = 64, LEAST_FILTERS = 4; /* the most filters of a block; the fewest of a part of a job */

/* Calls f with the constants 0 .. N - 1. Instructions take constants as offsets from an address that is computed once. With
 * the index of an unrolled loop instead, the compiler would compute addresses again for each filter. */
template <int... I, class F> DEVICE void for_each(std::integer_sequence<int, I...>, const F &f) {
  (f.template operator()<I>(), ...);
}
template <int N, class F> DEVICE void for_each(const F &f) {
  for_each(std::make_integer_sequence<int, N>(), f);
}

/* Returns from[COLUMN] if it is `there`, else 0. In C++, the condition would become eight instructions. */
template <int COLUMN> DEVICE float load_if(bool there, const float *from) {
  float v;
  asm("{\n.reg .pred there;\nsetp.ne.b32 there, %2, 0;\nmov.f32 %0, 0f00000000;\n@there ld.global.nc.f32 %0, [%1 + %3];\n}"
      : "=f"(v)
      : "l"(from), "r"((int)there), "n"(COLUMN * 4));
  return v;
}

/* Loads the samples of a thread. They are 0 outside the image. */
template <class S>
DEVICE void fetch(const gconv_layer_problem &p, const float *in, int top, int left, float (&x)[S::C][S::ROWS][S::COLUMNS]) {
  const int64_t plane = (int64_t)p.height * p.width;
  const float *corner = in + (int64_t)top * p.width + left;
  bool there[S::COLUMNS];
  UNROLLED_FOR (int column = 0; column < S::COLUMNS; column++)
    there[column] = (unsigned)(left + column) < (unsigned)p.width;
  UNROLLED_FOR (int c = 0; c < S::C; c++)
    UNROLLED_FOR (int row = 0; row < S::ROWS; row++) {
      const bool inside = (unsigned)(top + row) < (unsigned)p.height;
      const float *from = corner + c * plane + row * p.width;
      for_each<S::COLUMNS>([&]<int COLUMN>() { x[c][row][COLUMN] = load_if<COLUMN>(inside && there[COLUMN], from); });
    }
}

template <int FIRST> DEVICE float4 load_four(uint32_t at) {
  float4 w;
  asm("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4 + %5];"
      : "=f"(w.x), "=f"(w.y), "=f"(w.z), "=f"(w.w)
      : "r"(at), "n"(FIRST * 4));
  return w;
}

/* Adds a filter's taps, and its bias. */
template <class S>
DEVICE void add_filter(uint32_t weights, const float (&x)[S::C][S::ROWS][S::COLUMNS], float (&sums)[S::HIGH][WIDE]) {
  for_each<S::PITCH / 4>([&]<int NUMBER>() {
    constexpr int FIRST = 4 * NUMBER;
    const float4 w = load_four<FIRST>(weights);
    const float four[4] = {w.x, w.y, w.z, w.w};
    UNROLLED_FOR (int t = FIRST; t < FIRST + 4 && t <= S::TAPS; t++) {
      const int c = t / S::R / S::R, r = t / S::R % S::R, s = t % S::R;
      UNROLLED_FOR (int i = 0; i < S::HIGH; i++)
        UNROLLED_FOR (int j = 0; j < WIDE; j++)
          sums[i][j] = t == S::TAPS ? sums[i][j] + four[t - FIRST]
                                    : fmaf(four[t - FIRST], x[c % S::C][i * S::STRIDE + r][j * S::STRIDE + s], sums[i][j]);
    }
  });
}

/* Computes all filters of a block, for rows of outputs aligned to 16 bytes, without activation or (RELU) with relu. */
template <class S, bool RELU>
DEVICE void walk(const gconv_layer_problem &p, uint32_t weights, int count, const float (&x)[S::C][S::ROWS][S::COLUMNS],
                 float *out, int64_t plane) {
  UNROLLED_2_FOR (int k = 0; k < count; k++, out += plane, weights += S::PITCH * 4) {
    float y[S::HIGH][WIDE] = {};
    add_filter<S>(weights, x, y);
    UNROLLED_FOR (int i = 0; i < S::HIGH; i++) {
      UNROLLED_FOR (int j = 0; j < WIDE; j++)
        y[i][j] = RELU && y[i][j] < 0 ? 0.0f : y[i][j];
      __stcs((float4 *)(out + (int64_t)i * p.out_width), make_float4(y[i][0], y[i][1], y[i][2], y[i][3]));
    }
  }
}

/* ---- Rows that are not aligned ---- */

/* Returns the place of column `column` of the warp. Lanes that write every WIDE-th column use different banks. */
DEVICE constexpr int place_of(int column) {
  return column + column / 8;
}
constexpr int PLACES = 32 * WIDE + 32 * WIDE / 8; /* words of shared memory for the columns of a warp */

/* HIGH outputs, one below the other, that a lane stores. */
struct column {
  float *to;
  bool there;
};

/* Row and column of the first output of thread `number`. The last threads of an image overlap the threads above, so that all
 * have HIGH rows. Rows that two threads compute have the same bits. */
struct corner {
  int64_t image;
  int top, left;
};
template <int HIGH> DEVICE corner find_corner(const small_arguments &a, int64_t number) {
  const int64_t row = quotient(number, a.across), image = quotient(row, a.down);
  return {image, min((int)(row - image * a.down) * HIGH, a.problem.out_height - HIGH),
          (int)(number - row * a.across) * WIDE};
}

/* Returns column `number` of the warp, whose threads are numbered from `first` on. */
template <int HIGH> DEVICE column find_column(const small_arguments &a, int64_t first, int filter, int number) {
  const corner at = find_corner<HIGH>(a, first + number / WIDE);
  const int left = at.left + number % WIDE;
  const gconv_layer_problem &p = a.problem;
  const int64_t begin = (at.image * p.filters + filter) * p.out_height + at.top;
  return {a.out + begin * p.out_width + left, first + number / WIDE < a.threads && left < p.out_width};
}

/* put_word() writes HIGH outputs of a column as a word of shared memory at an address + AT. get_word() reads them. */
template <int AT, int HIGH> DEVICE void put_word(uint32_t to, const float (&y)[HIGH]) {
  if constexpr (HIGH == 4)
    asm volatile("st.shared.v4.f32 [%0 + %1], {%2, %3, %4, %5};" ::"r"(to), "n"(AT), "f"(y[0]), "f"(y[1]), "f"(y[2]),
                 "f"(y[3])
                 : "memory");
  else if constexpr (HIGH == 2)
    asm volatile("st.shared.v2.f32 [%0 + %1], {%2, %3};" ::"r"(to), "n"(AT), "f"(y[0]), "f"(y[1]) : "memory");
  else
    asm volatile("st.shared.f32 [%0 + %1], %2;" ::"r"(to), "n"(AT), "f"(y[0]) : "memory");
}
template <int AT, int HIGH> DEVICE void get_word(uint32_t from, float (&y)[HIGH]) {
  if constexpr (HIGH == 4)
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4 + %5];"
                 : "=f"(y[0]), "=f"(y[1]), "=f"(y[2]), "=f"(y[3])
                 : "r"(from), "n"(AT)
                 : "memory");
  else if constexpr (HIGH == 2)
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2 + %3];" : "=f"(y[0]), "=f"(y[1]) : "r"(from), "n"(AT) : "memory");
  else
    asm volatile("ld.shared.f32 %0, [%1 + %2];" : "=f"(y[0]) : "r"(from), "n"(AT) : "memory");
}

/* walk() for rows of any alignment and (CURVED) any activation. Lanes that store 16 bytes to unaligned places, or single
 * floats 16 bytes apart, take two to three times as long. So a warp exchanges its outputs through shared memory, and
 * neighbouring lanes store neighbours. `put` and `get` are where the lane writes and reads there. */
template <class S, bool RELU, bool CURVED>
DEVICE void walk_unaligned(const gconv_layer_problem &p, uint32_t weights, int count,
                           const float (&x)[S::C][S::ROWS][S::COLUMNS], column (&columns)[WIDE], uint32_t put,
                           uint32_t get) {
  const int64_t next = (int64_t)(p.out_height - S::HIGH) * p.out_width;
  uint32_t other = PLACES * S::HIGH * 4; /* offset to the other half, which is no longer read */
  ROLLED_FOR (int k = 0; k < count; k++, weights += S::PITCH * 4) {
    float y[S::HIGH][WIDE] = {}, words[WIDE][S::HIGH];
    add_filter<S>(weights, x, y);
    UNROLLED_FOR (int i = 0; i < S::HIGH * WIDE; i++) {
      const float v = y[i / WIDE][i % WIDE];
      words[i % WIDE][i / WIDE] = CURVED ? gconv_activate(&p, v) : RELU && v < 0 ? 0.0f : v;
    }
    for_each<WIDE>([&]<int J>() { put_word<J * S::HIGH * 4>(put, words[J]); });
    __syncwarp();
    for_each<WIDE>([&]<int J>() { get_word<place_of(32 * J) * S::HIGH * 4>(get, words[J]); });
    UNROLLED_FOR (int i = 0; i < S::HIGH; i++)
      UNROLLED_FOR (int j = 0; j < WIDE; j++) {
        if (columns[j].there)
          *columns[j].to = words[j][i];
        columns[j].to += p.out_width;
      }
    UNROLLED_FOR (int j = 0; j < WIDE; j++)
      columns[j].to += next;
    put += other, get += other, other = -other;
  }
}

template <class S> __global__ void __launch_bounds__(THREADS, S::FIT) convolve(const __grid_constant__ small_arguments a) {
  __shared__ __align__(16) float weights[MOST_FILTERS * S::PITCH];
  const gconv_layer_problem &p = a.problem;
  const division &work = a.work;
  const int number_cut = (int)blockIdx.x - work.jobs; /* among the parts of divided jobs; below 0 for whole jobs */
  const int job = number_cut < 0 ? (int)blockIdx.x : work.jobs + number_cut / work.parts;
  const int begin = job / work.tiles * work.filters, end = min(begin + work.filters, p.filters);
  const int first = number_cut < 0 ? begin : begin + number_cut % work.parts * work.part_filters;
  const int count = min(end - first, number_cut < 0 ? work.filters : work.part_filters);
  if (count <= 0)
    return;
  const int64_t number = (int64_t)(job % work.tiles) * THREADS + threadIdx.x, plane = (int64_t)p.out_height * p.out_width;
  const corner own = find_corner<S::HIGH>(a, number);
  float x[S::C][S::ROWS][S::COLUMNS];
  /* Samples are loaded while the weights arrive. Threads past the last output load nothing. */
  fetch<S>(p, a.in + own.image * S::C * p.height * p.width,
           number < a.threads ? own.top * S::STRIDE - p.pad_top : INT32_MIN / 2, own.left * S::STRIDE - p.pad_left, x);
  for (int i = threadIdx.x; i < count * (S::PITCH / 4); i += THREADS)
    ((float4 *)weights)[i] = __ldg((const float4 *)(a.weights + (int64_t)first * S::PITCH) + i);
  __syncthreads();
  uint32_t at = shared_address(weights);
  asm volatile("" : "+r"(at)); /* keeps loads from `at` after the barrier */
  const bool relu = p.activation == GCONV_ACTIVATION_RELU, curved = p.activation != GCONV_ACTIVATION_NONE && !relu;
  if (!a.whole || curved) {
    __shared__ __align__(16) float exchange[THREADS / 32][2 * PLACES][S::HIGH];
    const int lane = threadIdx.x % 32;
    column columns[WIDE];
    UNROLLED_FOR (int j = 0; j < WIDE; j++)
      columns[j] = find_column<S::HIGH>(a, number - lane, first, lane + 32 * j);
    uint32_t put = shared_address(exchange[threadIdx.x / 32] + place_of(lane * WIDE)),
             get = shared_address(exchange[threadIdx.x / 32] + place_of(lane));
    asm volatile("" : "+r"(put), "+r"(get));
    curved ? walk_unaligned<S, false, true>(p, at, count, x, columns, put, get)
    : relu ? walk_unaligned<S, true, false>(p, at, count, x, columns, put, get)
           : walk_unaligned<S, false, false>(p, at, count, x, columns, put, get);
    return;
  }
  if (number >= a.threads)
    return;
  float *out = a.out + (own.image * p.filters + first) * plane + (int64_t)own.top * p.out_width + own.left;
  relu ? walk<S, true>(p, at, count, x, out, plane) : walk<S, false>(p, at, count, x, out, plane);
}

/* ---- Host ---- */

/* Returns the number of filters of a job: many, since they share samples, but so few that no multiprocessor is idle. */
inline int32_t job_filters(int64_t tiles, int32_t filters) {
  const int64_t parts = divide_up(MANY_BLOCKS, tiles), least = divide_up(filters, MOST_FILTERS),
                most = divide_up(filters, 4);
  return (int32_t)divide_up(filters, parts < least ? least : parts < most ? parts : most);
}

/* Divides the work. `places` is the number of blocks that all multiprocessors run at a time. */
inline division divide(int64_t threads, int32_t filters, int32_t places) {
  division d = {(int32_t)divide_up(threads, THREADS)};
  d.filters = job_filters(d.tiles, filters);
  const int32_t jobs = (int32_t)(d.tiles * divide_up(filters, d.filters)), rest = jobs % places;
  const int32_t parts = jobs < places || rest == 0 ? 1 : std::min(places / rest, std::max(d.filters / LEAST_FILTERS, 1));
  d.jobs = parts == 1 ? jobs : jobs - rest;
  d.part_filters = (int32_t)divide_up(d.filters, parts), d.parts = (int32_t)divide_up(d.filters, d.part_filters);
  d.count = d.jobs + (jobs - d.jobs) * d.parts;
  return d;
}

template <class S> void launch(const gconv_layer_execution *e, int32_t processors) {
  const gconv_layer_problem *p = e->problem;
  small_arguments a = {*p, gconv_layer_prepared(p, e->weights), e->in, e->out};
  a.across = (int32_t)divide_up(p->out_width, WIDE);
  a.down = (int32_t)divide_up(p->out_height, S::HIGH);
  a.threads = (int64_t)p->images * a.down * a.across;
  a.whole = p->out_width % WIDE == 0 && (uintptr_t)e->out % 16 == 0;
  a.work = divide(a.threads, p->filters, S::FIT * processors);
  convolve<S><<<a.work.count, THREADS, 0, (cudaStream_t)e->stream>>>(a);
}

/* The constants of a shape. */
struct part {
  void (*launch)(const gconv_layer_execution *, int32_t processors);
  int channels, side, stride, high, taps, pitch;
};
template <class S> constexpr part part_of = {launch<S>, S::C, S::R, S::STRIDE, S::HIGH, S::TAPS, S::PITCH};
constexpr part PARTS[] = {part_of<shape<1, 3, 1, 4, 4>>, part_of<shape<1, 5, 1, 4, 4>>, part_of<shape<1, 7, 1, 2, 4>>,
                          part_of<shape<3, 3, 1, 4, 3>>, part_of<shape<3, 3, 2, 1, 4>>, part_of<shape<3, 5, 1, 2, 3>>};

/* Finds the shape of a problem. `launch` is NULL if there is none. */
inline part find_part(const gconv_layer_problem *p) {
  if (p->groups == 1 && p->dilation_y == 1 && p->dilation_x == 1 && p->filters <= 60000 &&
      (int64_t)p->images * p->out_height * p->out_width <= INT32_MAX)
    for (const part &one : PARTS)
      if (p->channels == one.channels && p->rows == one.side && p->columns == one.side && p->stride_y == one.stride &&
          p->stride_x == one.stride && p->out_height >= one.high)
        return one;
  return {};
}

/* Writes filters one after the other: taps and bias, in groups of four. */
inline void prepare(const part &found, const gconv_layer_problem *p, const float *weights, float *prepared) {
  const float *biases = gconv_layer_biases(p, weights);
  for (int32_t k = 0; k < p->filters; k++, prepared += found.pitch, weights += found.taps) {
    std::fill(prepared, prepared + found.pitch, 0.0f);
    std::copy(weights, weights + found.taps, prepared);
    prepared[found.taps] = biases[k];
  }
}

/* Estimates the milliseconds of multiply-adds, at the part of the peak that an H200 reached, or of storing. Storing takes
 * 1.5 times as long if rows of outputs are not aligned to 32 bytes. With strided columns, lanes' samples are not adjacent;
 * that costs as much as reading the input twice. */
inline double cost(const part &found, const gconv_layer_problem *p, const gconv_machine *machine) {
  const int64_t threads = (int64_t)p->images * divide_up(p->out_height, found.high) * divide_up(p->out_width, WIDE);
  const int64_t blocks = divide_up(threads, THREADS), parts = divide_up(p->filters, job_filters(blocks, p->filters));
  const double instructions = (double)p->filters * found.high * WIDE * (found.taps + 2) + (double)parts * 350;
  const double computing = (double)blocks * THREADS * instructions * lateness((double)(blocks * parts), 4, machine);
  const double outputs = (double)p->images * p->filters * p->out_height * p->out_width;
  const double storing = outputs * 4 / ((p->out_width % 8 == 0 ? 0.85 : 0.55) * machine->bytes_per_ms);
  const double reading = 4.0 * p->images * p->channels * p->height * p->width / machine->bytes_per_ms;
  return machine->launch_ms + std::max(computing / (0.75 * machine->fma_per_ms), storing) +
         (p->stride_x > 1 ? 2 * reading : 0);
}

} // namespace small
