/* SPDX-License-Identifier: MIT */
#include "update.h"
#include "base/cpu.h"

/* A loop for each optimiser: a choice within the loop would prevent vector code. */
#define UPDATE(word, OPTIMIZER) UPDATE_BY(update_##OPTIMIZER, OPTIMIZER)
#define UPDATE_BY(name, optimizer_value)                                                                                    \
  GCONV_INLINE void name##_body(const gconv_learn_step *step, bool are_weights, size_t count,                               \
                                const float *restrict gradient, float *restrict parameters, float *restrict first,          \
                                float *restrict second) {                                                                   \
    gconv_learn_step own = *step;                                                                                           \
    own.optimizer = optimizer_value;                                                                                        \
    if (are_weights && own.elimination != 0) {                                                                              \
      for (size_t i = 0; i < count; i++)                                                                                    \
        gconv_learn_update(&own, true, gradient[i], &parameters[i], &first[i], &second[i]);                                 \
      return;                                                                                                               \
    }                                                                                                                       \
    own.elimination = 0;                                                                                                    \
    own.keep = are_weights ? own.keep : 1.0f;                                                                               \
    for (size_t i = 0; i < count; i++)                                                                                      \
      gconv_learn_update(&own, true, gradient[i], &parameters[i], &first[i], &second[i]);                                   \
  }                                                                                                                         \
  GCONV_VECTORIZED(name,                                                                                                    \
                   (const gconv_learn_step *step, bool are_weights, size_t count, const float *restrict gradient,           \
                    float *restrict parameters, float *restrict first, float *restrict second),                             \
                   (step, are_weights, count, gradient, parameters, first, second))

GCONV_EACH_OPTIMIZER(UPDATE)

void gconv_learn_update_range(const gconv_learn_step *step, bool are_weights, size_t count, const float *gradient,
                              float *parameters, float *first, float *second) {
#define ROW(word, OPTIMIZER) [OPTIMIZER] = update_##OPTIMIZER,
  void (*const updates[])(const gconv_learn_step *, bool, size_t, const float *, float *, float *,
                          float *) = {GCONV_EACH_OPTIMIZER(ROW)};
#undef ROW
  updates[step->optimizer](step, are_weights, count, gradient, parameters, first, second);
}
