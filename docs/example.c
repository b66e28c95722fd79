/* SPDX-License-Identifier: MIT */
/* Loads two photos of one size, filters both with one plan, and saves them: example SOBEL.txt IN1 OUT1.png IN2 OUT2.png
 * cc example.c $(pkg-config --cflags --libs --static gconv) -o example */
#include <gconv/gconv.h>
#include <stdio.h>

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, gconv_last_error());
  return 1;
}

int main(int argc, char **argv) {
  gconv_filters filters = {NULL, 0};
  gconv_device *device = NULL;
  gconv_operation *operation = NULL;
  gconv_plan *plan = NULL;
  gconv_options options = gconv_options_default();
  if (argc != 6)
    return fprintf(stderr, "usage: %s FILTER IN1 OUT1 IN2 OUT2\n", argv[0]), 2;
  if (gconv_filters_read(argv[1], NULL, &filters))
    return failed("filter");
  if (filters.gradient) /* two filters, such as those of sobel, make one image */
    options.combine = GCONV_COMBINE_MAGNITUDE;
  if (gconv_operation_filters(&filters, &options, &operation) || gconv_device_open("auto", 0, &device))
    return failed("start");
  for (int i = 2; i < 6; i += 2) {
    gconv_image photo = {GCONV_U8}, edges = {GCONV_U8};
    if (gconv_image_read(argv[i], NULL, &photo))
      return failed("read");
    if (!plan && gconv_plan_create(device, &photo, operation, 0, &plan))
      return failed("plan");
    if (gconv_plan_execute(plan, &photo, &edges, 1, NULL) || gconv_image_write(argv[i + 1], NULL, &edges))
      return failed("filter");
    gconv_image_free(&photo);
    gconv_image_free(&edges);
  }
  gconv_plan_free(plan);
  gconv_operation_free(operation);
  gconv_device_close(device);
  gconv_filters_free(&filters);
  return 0;
}
