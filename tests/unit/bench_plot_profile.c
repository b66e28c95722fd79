/* SPDX-License-Identifier: MIT */
/* The drawings of profiles, by the scripts that are left where there is no gnuplot. */
#include "bench/bench.h"
#include "bench/plot.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* In the place of what report.c, against.c and measure.c have. */
const char *gconv_bench_kind_name(size_t kind) {
  return (const char *[]){"multiply-add", "integer and logic"}[kind > 0];
}
const char *gconv_bench_path_name(size_t path) {
  return (const char *[]){"DRAM read", "L2"}[path > 0];
}
const char *gconv_bench_device_of(const gconv_bench *bench, const gconv_bench_row *row) {
  (void)bench, (void)row;
  return "cpu";
}
static char said[1200];
void gconv_bench_say(const gconv_bench *bench, const char *format, ...) {
  (void)bench, (void)format;
  snprintf(said, sizeof said, "%s", gconv_last_error());
}

static char folder[] = "/tmp/gconv-XXXXXX", picture[64], script[64], profile_script[64], text[20000];
static gconv_device device = {.info.description = "a GPU"};

static gconv_bench_row row(const char *algorithm, const char *filter, double scale) {
  gconv_bench_row made = {.algorithm = algorithm, .ms = 1, .place = 1};
  gconv_profile *p = &made.profile;
  snprintf(made.filter, sizeof made.filter, "%s", filter);
  *p = (gconv_profile){.known = true,
                       .occupancy = 0.4 * scale,
                       .units = 0.11 * scale,
                       .memory = 0.7 * scale,
                       .joules = 12 * scale,
                       .theoretical = 0.5 * scale,
                       .kernel = {48, 1024, 49152, 1, "k"},
                       .limits = {2048, 32, 65536, 233472, 1024}};
  for (int i = 0; i < GCONV_PROFILE_KIND_COUNT; i++)
    p->kinds[i] = 3e6;
  for (int i = 0; i < GCONV_PROFILE_PATH_COUNT; i++)
    p->bytes[i] = 5e6;
  snprintf(p->stalls[0].reason, sizeof p->stalls[0].reason, "barrier");
  p->stalls[0].share = 0.25;
  return made;
}

/* Reads the file, and removes it. */
static const char *take(const char *path) {
  FILE *in = fopen(path, "r");
  text[0] = '\0';
  if (in) {
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    unlink(path);
  }
  return text;
}

static void want(const char *part) {
  if (!strstr(text, part))
    fail_msg("'%s' is missing in\n%s", part, text);
}

static void test_each_figure_has_its_panel(void **state) {
  (void)state;
  gconv_bench_row rows[] = {row("a", "batch 1", 1), row("b", "batch 1", 0.5)};
  const gconv_bench bench = {.device = &device, .rows = rows, .count = 2};
  static const struct {
    int panel;
    const char *title, *numbers; /* the first row's */
  } panels[] = {{GCONV_DRAW_BUSY, "busy: % of the peak", "\"units\" 11\n\"memory\" 70\n"},
                {GCONV_DRAW_INSTRUCTIONS, "millions of instructions of warps", "\"multiply-add\" 3\n"},
                {GCONV_DRAW_WAITS, "waiting for: % of the time of warps", "\"barrier\" 25\n"},
                {GCONV_DRAW_BYTES, "MB", "\"DRAM read\" 5\n\"L2\" 5\n"},
                {GCONV_DRAW_WARPS, "warps: % of the most", "\"resident\" 40\n\"that fit\" 50\n"},
                {GCONV_DRAW_WARPS, "the longest kernel", "\"registers of a thread\" 48\n\"shared KB of a block\" 48\n"},
                {GCONV_DRAW_ENERGY, "J of an execution", "\"the whole GPU\" 12\n"},
                {GCONV_DRAW_OCCUPANCY, "by registers of a thread: % of the warps", "\"64\" 50\n"},
                {GCONV_DRAW_OCCUPANCY, "by threads of a block: % of the warps", "\"256\" 50\n"},
                {GCONV_DRAW_OCCUPANCY, "by KB of shared memory: % of the warps", "\"56\" 50\n"}};
  for (size_t i = 0; i < sizeof panels / sizeof *panels; i++) {
    char title[100];
    snprintf(title, sizeof title, "set title '%s'", panels[i].title);
    assert_int_equal(gconv_bench_plot_profiles(&bench, picture, panels[i].panel), GCONV_UNSUPPORTED);
    take(script);
    want(title);
    want(panels[i].numbers);
    want(" title 'b'");
    assert_int_equal(gconv_bench_plot_profiles(&bench, picture, 127 & ~panels[i].panel), GCONV_UNSUPPORTED);
    assert_null(strstr(take(script), title));
  }
}

static void test_rows_of_one_method_have_lines_of_their_own(void **state) {
  (void)state;
  gconv_bench_row rows[] = {row("a", "2-3-4", 1), row("a", "5-6-7", 1)};
  const gconv_bench bench = {.device = &device, .rows = rows, .count = 2};
  assert_int_equal(gconv_bench_plot_profiles(&bench, picture, GCONV_DRAW_ENERGY), GCONV_UNSUPPORTED);
  take(script);
  want(" title 'a, 2-3-4'");
  want(" title 'a, 5-6-7'");
}

static void test_a_profile_is_of_one_method(void **state) {
  (void)state; /* though the times of the row are held against another's */
  gconv_bench_row rows[] = {row("a", "105-32-2", 1), row("b", "105-32-2", 1)};
  for (int i = 0; i < 2; i++) {
    rows[i].drawn = i == 0 ? -1 : 2;
    snprintf(rows[i].line, sizeof rows[i].line, "a against %s", rows[i].algorithm);
  }
  const gconv_bench bench = {.device = &device, .rows = rows, .count = 2};
  assert_int_equal(gconv_bench_plot_profiles(&bench, picture, GCONV_DRAW_ENERGY), GCONV_UNSUPPORTED);
  take(script);
  want(" title 'a'");
  want(" title 'b'");
}

static void test_both_scripts_are_left(void **state) {
  (void)state;
  gconv_bench_row rows[] = {row("a", "batch 1", 1)};
  const gconv_bench bench = {.device = &device, .rows = rows, .count = 1};
  assert_int_equal(gconv_bench_draw(&bench, "", picture, true), GCONV_UNSUPPORTED);
  assert_non_null(strstr(said, script));
  assert_non_null(strstr(gconv_last_error(), profile_script));
  assert_non_null(strstr(take(script), "1 1\n"));
  take(profile_script);
  for (size_t i = 0; i < 7; i++)
    want((const char *[]){"busy", "millions", "waiting", "MB", "warps", "longest", "J of"}[i]);
}

static int make_folder(void **state) {
  (void)state;
  if (!mkdtemp(folder) || setenv("PATH", "/nowhere", 1) != 0)
    return 1;
  snprintf(picture, sizeof picture, "%s/p.svg", folder);
  snprintf(script, sizeof script, "%s/p.svg.gp", folder);
  snprintf(profile_script, sizeof profile_script, "%s/p-profile.svg.gp", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_figure_has_its_panel),
      cmocka_unit_test(test_rows_of_one_method_have_lines_of_their_own),
      cmocka_unit_test(test_a_profile_is_of_one_method),
      cmocka_unit_test(test_both_scripts_are_left),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
