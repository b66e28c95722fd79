/* SPDX-License-Identifier: MIT */
/* What a support vector machine is: gconv info. */
#include "base/printable.h"
#include "cli/bank.h"
#include "gconv_classify.h"

static void print_kernel(const gconv_svm_info *info) {
  static const char *const names[] = {"rbf", "linear", "polynomial", "sigmoid"};
  printf("  kernel      %s", names[info->kernel]);
  if (info->kernel != GCONV_SVM_LINEAR)
    printf(", gamma %g", info->gamma);
  if (info->kernel == GCONV_SVM_POLYNOMIAL || info->kernel == GCONV_SVM_SIGMOID)
    printf(", coef0 %g", info->coef0);
  if (info->kernel == GCONV_SVM_POLYNOMIAL)
    printf(", degree %d", info->degree);
  printf("\n");
}

gconv_status gconv_svm_print(const char *path) {
  static const char *const scalings[] = {"none", "each column to -1 .. 1", "each column to 0 .. 1",
                                         "each column to a mean of 0 and a standard deviation of 1"};
  gconv_svm *model = NULL;
  GCONV_TRY(gconv_svm_read(path, &model));
  const gconv_svm_info *info = gconv_svm_get_info(model);
  bool classes = info->type == GCONV_SVM_C_SVC;
  gconv_print(stdout, "%s: support vector machine for %s, %zu vectors of %zu columns\n", path,
              classes ? "classes" : "numbers", info->vector_count, info->columns);
  print_kernel(info);
  printf("  scaling     %s\n", scalings[info->scaling]);
  gconv_print_classes(info->classes, info->class_count);
  if (info->features)
    gconv_print(stdout, "  features    %s\n", info->features);
  if (info->probabilities)
    printf("  yields      probabilities%s\n", classes ? "" : " of errors");
  gconv_svm_free(model);
  return GCONV_OK;
}
