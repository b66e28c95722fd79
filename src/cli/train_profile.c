/* SPDX-License-Identifier: MIT */
/* Which kernels a training on a GPU ran, how long each took, and what limits it, as a table, as JSON and as a picture. */
#include "bench/kernels.h"
#include "cli/page.h"
#include "cli/train.h"

#include <string.h>

enum { WIDTH = 900, LEFT = 420, RIGHT = 130, LINE = 22, TOP = 40 };

static double all_ms(const gconv_training_run *run) {
  double ms = 0;
  for (size_t i = 0; i < run->kernel_count; i++)
    ms += run->kernels[i].ms;
  return ms;
}

static double mean_us(const gconv_kernel_times *kernel) {
  return 1000 * kernel->ms / (double)kernel->launches;
}

/* Returns what limits a kernel, judged by its launches: the time of a launch, too few blocks, or the kernel's work. */
static const char *limit_of(const gconv_training_run *run, const gconv_kernel_times *kernel) {
  const gconv_machine *machine = gconv_device_get_machine(run->device);
  const double blocks = (double)kernel->blocks / (double)kernel->launches;
  return mean_us(kernel) < 1000 * machine->launch_ms ? "launch" : blocks < machine->units ? "few blocks" : "work";
}

gconv_status gconv_train_profile_begin(const gconv_training_run *run) {
  const char *device = run->settings->common.device;
  if (!device || strncmp(device, "cuda", 4) != 0)
    return gconv_refuse("--profile records the kernels of NVIDIA GPUs: take one with -d cuda");
  const gconv_status status = gconv_kernels_begin();
  return status == GCONV_OK ? GCONV_OK : gconv_fail_in(status, "--profile");
}

static void put_picture(FILE *out, const void *context) {
  const gconv_training_run *run = context;
  const double all = all_ms(run), most = run->kernels[0].ms, wide = WIDTH - LEFT - RIGHT;
  gconv_svg_begin(out, WIDTH, TOP + LINE * ((int)run->kernel_count + 1), false);
  fprintf(out, "<text x='10' y='24' font-weight='bold'>kernels of %zu epochs: %.1f ms of %.1f</text>\n", run->epoch_count,
          all, 1000 * run->seconds);
  for (size_t i = 0; i < run->kernel_count; i++) {
    const gconv_kernel_times *kernel = &run->kernels[i];
    const int top = TOP + LINE * (int)i;
    fprintf(out,
            "<text x='%d' y='%d' text-anchor='end'>%.60s</text><rect x='%d' y='%d' width='%.1f' height='%d' "
            "fill='#1f77b4'/><text x='%.1f' y='%d'>%.1f us, %s</text>\n",
            LEFT - 8, top + 15, kernel->longest.name, LEFT, top + 3, wide * kernel->ms / most, LINE - 6,
            LEFT + wide * kernel->ms / most + 6, top + 15, mean_us(kernel), limit_of(run, kernel));
  }
  fputs("</svg>\n", out);
}

gconv_status gconv_train_profile_end(gconv_training_run *run) {
  const char *plot = run->settings->common.plot;
  gconv_status status = gconv_kernels_end(&run->kernels, &run->kernel_count);
  if (status != GCONV_OK)
    return gconv_fail_in(status, "--profile");
  if (!plot)
    return GCONV_OK;
  GCONV_FREED char *path = gconv_format_text("%.*s-profile.svg", (int)(strlen(plot) - strlen(".svg")), plot);
  return path ? gconv_page_write(path, put_picture, run) : gconv_no_memory();
}

void gconv_train_profile_tell(const gconv_telling *t, const gconv_training_run *run) {
  const double all = all_ms(run);
  json_t *list = t->json && run->kernel_count > 0 ? json_array() : NULL;
  if (run->kernel_count > 0 && !t->json)
    fprintf(t->out, "  kernels     %.1f ms of %.1f\n\n  %8s %9s %6s %8s  %-10s %s\n", all, 1000 * run->seconds, "launches",
            "us each", "%", "blocks", "limit", "kernel");
  for (size_t i = 0; i < run->kernel_count; i++) {
    const gconv_kernel_times *kernel = &run->kernels[i];
    const double share = all > 0 ? kernel->ms / all : 0, us = mean_us(kernel);
    const int64_t blocks = kernel->blocks / kernel->launches;
    const char *limit = limit_of(run, kernel), *name = kernel->longest.name;
    if (t->json)
      json_array_append_new(list, json_pack("{s:s, s:I, s:f, s:f, s:I, s:s}", "kernel", name, "launches",
                                            (json_int_t)kernel->launches, "us", us, "share", share, "blocks",
                                            (json_int_t)blocks, "limit", limit));
    else
      fprintf(t->out, "  %8lld %9.2f %6.1f %8lld  %-10s %s\n", (long long)kernel->launches, us, 100 * share,
              (long long)blocks, limit, name);
  }
  if (run->kernel_count > 0)
    gconv_tell_json(t, "kernels", list);
}
