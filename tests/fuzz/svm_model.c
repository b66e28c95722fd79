/* SPDX-License-Identifier: MIT */
/* The reader of LIBSVM's models, fed with anything (libFuzzer). Models that are taken must be sound. */
#include "svm/svm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds) {
  if (!holds)
    abort();
}

static void check_model(const gconv_svm *model) {
  const gconv_svm_info *info = gconv_svm_get_info(model);
  size_t vectors = 0;
  demand(info->columns > 0 && info->gamma >= 0);
  demand(info->type == GCONV_SVM_EPSILON_SVR || info->class_count >= 2);
  demand(!info->features || (info->type == GCONV_SVM_C_SVC && info->columns > 0));
  for (size_t k = 0; k < 3 * info->class_count && info->palette; k++)
    demand(info->palette[k] <= UINT8_MAX);
  for (size_t c = 0; c < info->class_count; c++) {
    demand(info->classes[c] != NULL);
    vectors += model->class_vectors[c];
  }
  demand(info->type == GCONV_SVM_EPSILON_SVR || vectors == info->vector_count);
  for (size_t i = 0; i < info->vector_count; i++)
    for (size_t k = 0; k < model->vectors.rows[i].count; k++)
      demand(model->vectors.rows[i].columns[k] < info->columns && isfinite(model->vectors.rows[i].values[k]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *bytes = malloc(size ? size : 1); /* no more than there are, so that a step too far is seen */
  gconv_source source;
  gconv_svm *model = NULL;
  demand(bytes != NULL);
  if (size > 0)
    memcpy(bytes, data, size);
  gconv_source_of_bytes("input", bytes, size, &source);
  if (gconv_svm_read_source(&source, &model) == GCONV_OK)
    check_model(model);
  gconv_source_close(&source);
  free(bytes);
  gconv_svm_free(model);
  return 0;
}
