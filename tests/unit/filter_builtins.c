/* SPDX-License-Identifier: MIT */
/* Built-in filters, their parameters, and the files that ship with gconv. */
#include "filter_test.h"

#include <dirent.h>
#include <math.h>

/* ---- Values: as MATLAB's documentation and console print fspecial's (4 decimals), and integers exactly ---- */

typedef struct value {
  const char *spec;
  int32_t rows, columns;
  float tolerance;
  float taps[25];
} value;

static const value values[] = {
    {"identity", 3, 3, 0, {0, 0, 0, 0, 1, 0, 0, 0, 0}},
    {"identity:size=2x1", 2, 1, 0, {0, 1}},
    {"average:size=1x4", 1, 4, 0, {0.25F, 0.25F, 0.25F, 0.25F}},
    {"average", 3, 3, 0, {1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9}},
    {"binomial:size=2x3", 2, 3, 0, {0.125F, 0.25F, 0.125F, 0.125F, 0.25F, 0.125F}},
    {"gaussian", 3, 3, 5e-5F, {0.0113F, 0.0838F, 0.0113F, 0.0838F, 0.6193F, 0.0838F, 0.0113F, 0.0838F, 0.0113F}},
    {"gaussian: size = 2, sigma = 1", 2, 2, 0, {0.25F, 0.25F, 0.25F, 0.25F}},
    {"gaussian:size=1x3,sigma=0.001", 1, 3, 0, {0, 1, 0}},
    {"gaussian:size=2x2,sigma=0.001", 2, 2, 0, {0.25F, 0.25F, 0.25F, 0.25F}},
    {"log", 5, 5, 5e-5F, {0.0448F, 0.0468F, 0.0564F, 0.0468F,  0.0448F, 0.0468F, 0.3167F, 0.7146F, 0.3167F,
                          0.0468F, 0.0564F, 0.7146F, -4.9048F, 0.7146F, 0.0564F, 0.0468F, 0.3167F, 0.7146F,
                          0.3167F, 0.0468F, 0.0448F, 0.0468F,  0.0564F, 0.0468F, 0.0448F}},
    {"laplacian", 3, 3, 5e-5F, {0.1667F, 0.6667F, 0.1667F, 0.6667F, -3.3333F, 0.6667F, 0.1667F, 0.6667F, 0.1667F}},
    {"laplacian:alpha=0", 3, 3, 0, {0, 1, 0, 1, -4, 1, 0, 1, 0}},
    {"laplacian_4", 3, 3, 0, {0, 1, 0, 1, -4, 1, 0, 1, 0}},
    {"laplacian_8", 3, 3, 0, {1, 1, 1, 1, -8, 1, 1, 1, 1}},
    {"unsharp", 3, 3, 5e-5F, {-0.1667F, -0.6667F, -0.1667F, -0.6667F, 4.3333F, -0.6667F, -0.1667F, -0.6667F, -0.1667F}},
    {"disk:radius=1", 3, 3, 5e-5F, {0.0251F, 0.1453F, 0.0251F, 0.1453F, 0.3183F, 0.1453F, 0.0251F, 0.1453F, 0.0251F}},
    {"disk:radius=0.4", 1, 1, 0, {1}},
    {"sharpen:amount=0.5", 3, 3, 0, {0, -0.5F, 0, -0.5F, 3, -0.5F, 0, -0.5F, 0}},
    {"motion", 1, 9, 1e-7F, {1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9, 1.F / 9}},
    {"motion:len=3,theta=90", 3, 1, 1e-7F, {1.F / 3, 1.F / 3, 1.F / 3}},
    {"motion:len=3,theta=-90", 3, 1, 1e-7F, {1.F / 3, 1.F / 3, 1.F / 3}},
    {"motion:len=1", 1, 1, 0, {1}},
    {"sobel_x", 3, 3, 0, {-1, 0, 1, -2, 0, 2, -1, 0, 1}},
    {"sobel_y", 3, 3, 0, {-1, -2, -1, 0, 0, 0, 1, 2, 1}},
    {"prewitt_x", 3, 3, 0, {-1, 0, 1, -1, 0, 1, -1, 0, 1}},
    {"prewitt_y", 3, 3, 0, {-1, -1, -1, 0, 0, 0, 1, 1, 1}},
    {"scharr_x", 3, 3, 0, {-3, 0, 3, -10, 0, 10, -3, 0, 3}},
    {"scharr_y", 3, 3, 0, {-3, -10, -3, 0, 0, 0, 3, 10, 3}},
    {"roberts_x", 2, 2, 0, {1, 0, 0, -1}},
    {"roberts_y", 2, 2, 0, {0, 1, -1, 0}},
    {"sharpen", 3, 3, 0, {0, -1, 0, -1, 5, -1, 0, -1, 0}},
    {"emboss", 3, 3, 0, {-2, -1, 0, -1, 1, 1, 0, 1, 2}},
    {"kirsch:direction=sw", 3, 3, 0, {-3, -3, -3, 5, 0, -3, 5, 5, -3}},
    {"gabor:size=1x3,sigma=1,lambda=4,gamma=1", 1, 3, 1e-7F, {0, 1, 0}},
    {"gabor:size=1x3,sigma=1,lambda=4,gamma=1,psi=90", 1, 3, 1e-6F, {-0.60653066F, 0, 0.60653066F}},
};

static void has_the_published_values(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(values); i++) {
    const value *v = &values[i];
    gconv_filters list = read_good(v->spec, NULL);
    assert_int_equal(list.count, 1);
    const gconv_filter *f = &list.items[0];
    if (f->rows != v->rows || f->columns != v->columns)
      fail_msg("%s: %d x %d", v->spec, f->rows, f->columns);
    for (int32_t t = 0; t < v->rows * v->columns; t++)
      if (!(fabsf(f->taps[t] - v->taps[t]) <= v->tolerance))
        fail_msg("%s: tap %d is %.9g, expected %.9g", v->spec, t, (double)f->taps[t], (double)v->taps[t]);
    gconv_filters_free(&list);
  }
}

/* The quarter of disk(5) that MATLAB prints: 0, 0, 0, 0.0012, 0.0050, 0.0063; 0, 0.0000, 0.0062, 0.0124, 0.0127, ... */
static void disk_is_weighted_by_area(void **state) {
  (void)state;
  gconv_filters list = read_good("disk", NULL);
  const gconv_filter *f = &list.items[0];
  const float edge[6] = {0, 0, 0, 0.0012F, 0.0050F, 0.0063F}, next[6] = {0, 0.00003F, 0.0062F, 0.0124F, 0.0127F, 0.0127F};
  assert_int_equal(f->rows, 11);
  for (int s = 0; s < 6; s++) {
    assert_true(fabsf(f->taps[s] - edge[s]) <= 5e-5F && f->taps[s] == f->taps[10 - s] && f->taps[s] == f->taps[11 * s]);
    assert_true(fabsf(f->taps[11 + s] - next[s]) <= 5e-5F);
  }
  assert_true(f->taps[12] > 0);
  gconv_filters_free(&list);
}

static double sum_of(const gconv_filter *f) {
  double sum = 0;
  for (int32_t i = 0; i < f->rows * f->columns; i++)
    sum += (double)f->taps[i];
  return sum;
}

static void check_sum(const char *spec, double sum, int32_t side) {
  gconv_filters list = read_good(spec, NULL);
  if (!(fabs(sum_of(&list.items[0]) - sum) < 1e-6) || (side && list.items[0].rows != side))
    fail_msg("%s: sum %g, %d rows", spec, sum_of(&list.items[0]), list.items[0].rows);
  gconv_filters_free(&list);
}

static void sums_and_sizes(void **state) {
  (void)state;
  check_sum("gaussian:sigma=2", 1, 13);
  check_sum("gaussian:size=auto", 1, 5);
  check_sum("gaussian:size=5", 1, 5);
  check_sum("gaussian:size=4x6,sigma=3", 1, 4);
  check_sum("disk:radius=3.7", 1, 9);
  check_sum("disk:radius=0.6", 1, 3);
  check_sum("disk:radius=100", 1, 201);
  check_sum("motion:len=20,theta=33", 1, 0);
  check_sum("motion:len=20,theta=133", 1, 0);
  check_sum("log:sigma=1.4", 0, 11);
  check_sum("log:size=9,sigma=1.4", 0, 9);
  check_sum("dog", 0, 11);
  check_sum("dog:size=7,sigma1=1,sigma2=2", 0, 7);
  check_sum("binomial:size=48", 1, 48);
}

/* ---- Names and parameters ---- */

static void lists_names_in_order(void **state) {
  (void)state;
  size_t count = 0;
  for (; gconv_builtin_at(count); count++) {
    const gconv_builtin_info *info = gconv_builtin_at(count);
    assert_true(count == 0 || strcmp(gconv_builtin_at(count - 1)->name, info->name) < 0);
    assert_true(strlen(info->help) > 10 && strlen(info->help) < 120);
    char spec[160]; /* the listed defaults are legal, and are the defaults */
    snprintf(spec, sizeof spec, "%s%s%s", info->name, *info->parameters ? ":" : "", info->parameters);
    gconv_filters plain = read_good(info->name, NULL), spelled = read_good(spec, NULL);
    assert_int_equal(plain.count, spelled.count);
    assert_taps(&plain.items[0], spelled.items[0].rows, spelled.items[0].columns, spelled.items[0].taps);
    gconv_filters_free(&plain);
    gconv_filters_free(&spelled);
  }
  assert_string_equal(gconv_builtin_at(7)->name, "gaussian");
  assert_string_equal(gconv_builtin_at(7)->parameters, "size=3,sigma=0.5");
}

static void names_are_fit_for_files(void **state) {
  (void)state;
  gconv_filters list = read_good("gaussian:size=9, sigma=1/2", NULL);
  assert_string_equal(list.items[0].name, "gaussian_size9_sigma1-2");
  gconv_filters_free(&list);
}

static void kirsch_is_eight(void **state) {
  (void)state;
  gconv_filters list = read_good("kirsch", NULL);
  const char *const names[] = {"kirsch_n", "kirsch_ne", "kirsch_e", "kirsch_se",
                               "kirsch_s", "kirsch_sw", "kirsch_w", "kirsch_nw"};
  assert_int_equal(list.count, 8);
  for (size_t i = 0; i < 8; i++) {
    assert_string_equal(list.items[i].name, names[i]);
    assert_true(sum_of(&list.items[i]) == 0);
  }
  assert_taps(&list.items[1], 3, 3, (float[]){-3, 5, 5, -3, 0, 5, -3, -3, -3});
  gconv_filters_free(&list);
}

static void unsharp_mask_is_of_the_gaussian(void **state) {
  (void)state;
  gconv_filters mask = read_good("usm:size=5x4,sigma=0.8,amount=1.5", NULL),
                blur = read_good("gaussian:size=5x4,sigma=0.8", NULL);
  assert_int_equal(mask.items[0].rows, 5);
  assert_int_equal(mask.items[0].columns, 4);
  for (int i = 0; i < 20; i++) /* the anchor is at 2, 2 */
    assert_float_equal(mask.items[0].taps[i], (i == 10 ? 2.5F : 0) - 1.5F * blur.items[0].taps[i], 2e-7F);
  assert_true(fabs(sum_of(&mask.items[0]) - 1) < 1e-6);
  gconv_filters_free(&mask);
  gconv_filters_free(&blur);
  mask = read_good("usm", NULL);
  assert_int_equal(mask.items[0].rows, 7);
  gconv_filters_free(&mask);
}

static void pairs_are_two(void **state) {
  (void)state;
  const char *const pairs[] = {"prewitt", "roberts", "scharr", "sobel"};
  for (size_t i = 0; i < COUNT(pairs); i++) {
    gconv_filters list = read_good(pairs[i], NULL);
    assert_int_equal(list.count, 2);
    assert_true(list.gradient);
    for (size_t k = 0; k < 2; k++) {
      char name[32];
      snprintf(name, sizeof name, "%s_%c", pairs[i], k == 0 ? 'x' : 'y');
      gconv_filters one = read_good(name, NULL);
      assert_string_equal(list.items[k].name, name);
      assert_taps(&list.items[k], one.items[0].rows, one.items[0].columns, one.items[0].taps);
      assert_false(one.gradient);
      gconv_filters_free(&one);
    }
    assert_int_not_equal(gconv_filters_read("no such filter", NULL, &list), GCONV_OK);
    assert_true(list.gradient); /* as before */
    assert_int_equal(gconv_filters_read(pairs[i], NULL, &list), GCONV_OK);
    assert_false(list.gradient); /* not alone */
    gconv_filters_free(&list);
  }
}

static void explains_wrong_parameters(void **state) {
  (void)state;
  const struct {
    const char *spec, *fragment;
  } cases[] = {
      {"gaussian:sigm=2", "gaussian has no parameter 'sigm'; did you mean 'sigma'?"},
      {"gaussian:radius=2", "gaussian has no parameter 'radius'; its parameters and their defaults: size=3,sigma=0.5"},
      {"sobel_x:size=5", "sobel_x has no parameter 'size', nor any other"},
      {"sobel_x:3", "sobel_x has no parameters: '3' is too much"},
      {"gaussian:0x1",
       "gaussian: '0x1' is not of the form name=value, such as size=3; parameters and their defaults: size=3,sigma=0.5"},
      {"gaussian:sigma=1,", "'' is not of the form name=value"},
      {"gaussian:sigma=1,sigma=2", "gaussian: sigma is given twice"},
      {"gaussian:sigma=0", "sigma goes from 0.001 to 4096"},
      {"gaussian:sigma=nan", "'nan' is not finite"},
      {"gaussian:sigma=two", "gaussian:sigma=two: 'two' is not a number"},
      {"gaussian:size=0",
       "gaussian:size=0: a size is a number from 1 to 32768, or two, rows x columns, such as 3x5, or auto"},
      {"average:size=auto", "average:size=auto: a size is"},
      {"average:size=3x", "a size is"},
      {"average:size=3.5", "a size is"},
      {"average:size=-3", "a size is"},
      {"average:size=100000", "from 1 to 32768"},
      {"average:size=9999999999", "from 1 to 32768"},
      {"laplacian:alpha=1.5", "alpha goes from 0 to 1"},
      {"kirsch:direction=up", "direction is one of: all n ne e se s sw w nw"},
  };
  for (size_t i = 0; i < COUNT(cases); i++)
    read_bad(cases[i].spec, NULL, GCONV_BAD_ARGUMENT, cases[i].fragment);
  read_bad("average:size=32768", NULL, GCONV_TOO_LARGE, "the limit is 67108864 taps");
  read_bad("gaussian:sigma=4096", NULL, GCONV_TOO_LARGE, "the limit is 67108864 taps");
}

/* ---- filters/ ---- */

/* A shipped file is equal to the built-in filter that its first line names, "# gaussian:size=5", or says there: "# no
 * built-in: ...". Its second line says what it is for. */
static void check_shipped(const char *path, const char *file) {
  char first[256], second[256];
  FILE *text = fopen(path, "r");
  assert_non_null(text);
  assert_true(fgets(first, sizeof first, text) && fgets(second, sizeof second, text));
  fclose(text);
  assert_true(strncmp(first, "# ", 2) == 0 && strncmp(second, "# ", 2) == 0);
  first[strcspn(first, "\n")] = '\0';
  if (gconv_bank_is_one(path)) { /* tests/unit/bank_files.c reads it */
    assert_int_equal(strncmp(first + 2, "no built-in: ", 13), 0);
    return;
  }
  gconv_filters shipped = read_good(path, NULL);
  assert_int_equal(shipped.count, 1);
  assert_string_equal(logged, "");
  if (strncmp(first + 2, "no built-in: ", 13) != 0) {
    gconv_filters builtin = read_good(first + 2, NULL);
    assert_int_equal(builtin.count, 1);
    assert_int_equal(builtin.items[0].rows, shipped.items[0].rows);
    assert_int_equal(builtin.items[0].columns, shipped.items[0].columns);
    for (int32_t i = 0; i < shipped.items[0].rows * shipped.items[0].columns; i++)
      if (shipped.items[0].taps[i] != builtin.items[0].taps[i])
        fail_msg("%s: tap %d is not that of %s", file, i, first + 2);
    gconv_filters_free(&builtin);
  }
  gconv_filters_free(&shipped);
}

static void shipped_files_equal_builtins(void **state) {
  (void)state;
  size_t count = 0;
  DIR *folder = opendir(GCONV_SOURCE_FOLDER "/filters");
  assert_non_null(folder);
  for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
    char path[512];
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof path, GCONV_SOURCE_FOLDER "/filters/%s", entry->d_name);
    check_shipped(path, entry->d_name);
    count++;
  }
  closedir(folder);
  assert_true(count > 0);
}

/* A shipped file that has the name of a built-in filter is that filter. */
static void shipped_files_bear_their_names(void **state) {
  (void)state;
  for (size_t i = 0; gconv_builtin_at(i); i++) {
    char path[512];
    snprintf(path, sizeof path, GCONV_SOURCE_FOLDER "/filters/%s.txt", gconv_builtin_at(i)->name);
    if (access(path, F_OK) != 0)
      continue;
    gconv_filters shipped = read_good(path, NULL), builtin = read_good(gconv_builtin_at(i)->name, NULL);
    assert_taps(&shipped.items[0], builtin.items[0].rows, builtin.items[0].columns, builtin.items[0].taps);
    gconv_filters_free(&shipped);
    gconv_filters_free(&builtin);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(has_the_published_values),
      cmocka_unit_test(disk_is_weighted_by_area),
      cmocka_unit_test(sums_and_sizes),
      cmocka_unit_test(lists_names_in_order),
      cmocka_unit_test(names_are_fit_for_files),
      cmocka_unit_test(kirsch_is_eight),
      cmocka_unit_test(pairs_are_two),
      cmocka_unit_test(unsharp_mask_is_of_the_gaussian),
      cmocka_unit_test(explains_wrong_parameters),
      cmocka_unit_test(shipped_files_equal_builtins),
      cmocka_unit_test(shipped_files_bear_their_names),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
