/* SPDX-License-Identifier: MIT */
/* What -f takes, but for the contents of files: built-in filters with their parameters, inline kernels, names (libFuzzer).
 */
#include "filter/filter.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *spec = malloc(size + 1);
  if (!spec)
    abort();
  if (size > 0)
    memcpy(spec, data, size);
  spec[size] = '\0';
  gconv_filters list = {0};
  bool file = strchr(spec, '/') || strcmp(spec, "-") == 0 || spec[0] == '.'; /* whatever lies about is no concern of ours */
  if (!file && gconv_filters_read(spec, NULL, &list) == GCONV_OK)
    for (size_t i = 0; i < list.count; i++)
      if (gconv_filter_check(&list.items[i]) != GCONV_OK)
        abort();
  gconv_filters_free(&list);
  free(spec);
  return 0;
}
