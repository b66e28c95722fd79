/* SPDX-License-Identifier: MIT */
/* What a name means, filters as text, and what is said of them. */
#include "filter_test.h"

#include <math.h>
#include <sys/stat.h>

/* ---- What a name means ---- */

static void file_comes_before_builtin(void **state) {
  (void)state;
  gconv_filters list = read_good("sobel_x", NULL);
  assert_int_equal(list.items[0].rows, 3);
  assert_string_equal(logged, "");
  gconv_filters_free(&list);
  write_string("sobel_x", "7\n");
  list = read_good("sobel_x", NULL);
  assert_taps(&list.items[0], 1, 1, (float[]){7});
  assert_string_equal(logged, "'sobel_x' is read from the file of this name, not the built-in filter");
  assert_int_equal(logged_level, GCONV_LOG_REMARK);
  gconv_filters_free(&list);
  assert_int_equal(remove("sobel_x"), 0);
}

static void folder_is_no_filter(void **state) {
  (void)state;
  gconv_filters forced = read_good("gaussian", "vips"); /* a syntax is for files */
  gconv_filters_free(&forced);
  assert_int_equal(mkdir("gaussian", 0777), 0);
  assert_int_equal(mkdir("things", 0777), 0);
  gconv_filters list = read_good("gaussian", NULL);
  gconv_filters_free(&list);
  read_bad("things", NULL, GCONV_BAD_ARGUMENT, "things: is a folder; a filter is a file");
  assert_int_equal(rmdir("gaussian") + rmdir("things"), 0);
}

static void finds_shipped_files(void **state) {
  (void)state;
  assert_int_equal(mkdir("shipped", 0777), 0);
  write_string("shipped/ours_7.txt", "1 2\n");
  setenv("GCONV_FILTERS", "shipped", 1);
  assert_string_equal(gconv_filter_folder(), "shipped");
  const char *const names[] = {"ours_7", "ours_7.txt"};
  for (size_t i = 0; i < COUNT(names); i++) {
    gconv_filters list = read_good(names[i], "vips"); /* the syntax is that of the user's own files */
    assert_string_equal(list.items[0].name, "ours_7");
    assert_taps(&list.items[0], 1, 2, (float[]){1, 2});
    gconv_filters_free(&list);
  }
  read_bad("ours_8", NULL, GCONV_BAD_ARGUMENT, "did you mean 'ours_7'?");
  read_bad("../shipped/ours_9", NULL, GCONV_BAD_ARGUMENT, "../shipped/ours_9: there is no such file");
  write_string("ours_7", "3\n");
  gconv_filters list = read_good("ours_7", NULL);
  assert_string_equal(logged, "'ours_7' is read from the file of this name, not the shipped shipped/ours_7.txt");
  gconv_filters_free(&list);
  assert_int_equal(remove("ours_7"), 0);
  unsetenv("GCONV_FILTERS");
  assert_string_not_equal(gconv_filter_folder(), "shipped");
}

static void reads_inline_kernels(void **state) {
  (void)state;
  const struct {
    const char *spec;
    int32_t rows, columns;
    size_t count;
  } cases[] = {
      {"3x3: 0,-1,0 -1,5,-1 0,-1,0", 3, 3, 1},
      {"1,2,1,2,4,2,1,2,1", 3, 3, 1},
      {"-1 0 1 -2 0 2 -1 0 1", 3, 3, 1},
      {"1x2:1/3,2/3", 2, 1, 1},
      {"nan,1,-,1", 2, 2, 1},
      {"  3x3>:0 0 0 1 0 0 0 0 0", 3, 3, 4},
      {"[0 -1 0; -1 5 -1]", 2, 3, 1},
      {"1/9 * [[1], [1], [1]]", 3, 1, 1},
      {"np.array([[1, 2]])", 1, 2, 1},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    gconv_filters list = read_good(cases[i].spec, NULL);
    assert_int_equal(list.count, cases[i].count);
    assert_int_equal(list.items[0].rows, cases[i].rows);
    assert_int_equal(list.items[0].columns, cases[i].columns);
    assert_string_equal(list.items[0].name, cases[i].count == 1 ? "kernel" : "kernel_1");
    gconv_filters_free(&list);
  }
  read_bad("3x1: 1 x 3", NULL, GCONV_BAD_ARGUMENT, "inline kernel:1:8: 'x' is not a number");
  read_bad("3x1: 1 2", NULL, GCONV_BAD_ARGUMENT, "needs 3 values, but has 2");
  read_bad("[1 2; 3]", NULL, GCONV_BAD_ARGUMENT, "inline kernel:1: row 2 has 1 number,");
  read_bad("edge[12].txt", NULL, GCONV_BAD_ARGUMENT, "there is no filter 'edge[12].txt'");
  read_bad("3x1: 1 2 \x01", NULL, GCONV_BAD_ARGUMENT, "byte 10 is 0x01");
}

static void explains_unknown_names(void **state) {
  (void)state;
  read_bad("gausian", NULL, GCONV_BAD_ARGUMENT, "there is no filter 'gausian'");
  read_bad("gausian:sigma=2", NULL, GCONV_BAD_ARGUMENT, "did you mean 'gaussian'?");
  read_bad("Gaussian:0x1", NULL, GCONV_BAD_ARGUMENT, "parameters and their defaults: size=3,sigma=0.5");
  read_bad("gaussian,sigma=3", NULL, GCONV_BAD_ARGUMENT, "follow a colon: gaussian:size=3,sigma=0.5");
  read_bad("gaussian sigma=3", NULL, GCONV_BAD_ARGUMENT, "did you mean 'gaussian'? Its parameters follow a colon");
  read_bad("sobel.txt", NULL, GCONV_BAD_ARGUMENT, "did you mean 'sobel'?");
  read_bad("soble_x", NULL, GCONV_BAD_ARGUMENT, "did you mean 'sobel_x'?");
  read_bad("Edges", NULL, GCONV_BAD_ARGUMENT, "did you mean 'sobel'?");
  read_bad("blur", NULL, GCONV_BAD_ARGUMENT, "Name one of them: gaussian:sigma=2");
  read_bad("laplacian_5", NULL, GCONV_BAD_ARGUMENT, "did you mean 'laplacian_4'?");
  read_bad("Median", NULL, GCONV_BAD_ARGUMENT, "a median is no convolution");
  read_bad("qqqqqqqq", NULL, GCONV_BAD_ARGUMENT, "has this name (`gconv filters` lists them;");
  read_bad("", NULL, GCONV_BAD_ARGUMENT, "there is no filter ''");
  read_bad("5_tap.txt", NULL, GCONV_BAD_ARGUMENT, "there is no filter '5_tap.txt'");
  read_bad("missing/sobel_x.txt", NULL, GCONV_BAD_ARGUMENT, "missing/sobel_x.txt: there is no such file");
  read_bad("gaussian", "excel", GCONV_BAD_ARGUMENT, "no syntax of filters called 'excel'; known are matrix");
  char longest[5000];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  read_bad(longest, NULL, GCONV_BAD_ARGUMENT, "there is no filter");
  memcpy(longest, "gaussian:", 9);
  read_bad(longest, NULL, GCONV_BAD_ARGUMENT, "gaussian: has more than 255 characters of parameters");
}

static void tells_what_cannot_be_opened(void **state) {
  (void)state;
  if (geteuid() == 0) { /* nothing is unreadable to root; a name that loops is */
    assert_int_equal(symlink("loop.txt", "loop.txt"), 0);
    read_bad("loop.txt", NULL, GCONV_IO_ERROR, "loop.txt: cannot open");
    return;
  }
  write_string("secret.txt", "1\n");
  assert_int_equal(chmod("secret.txt", 0), 0);
  read_bad("secret.txt", NULL, GCONV_IO_ERROR, "secret.txt: cannot open");
}

static void keeps_the_list_on_failure(void **state) {
  (void)state;
  gconv_filters list = read_good("identity", NULL);
  const char *const wrong[] = {"3x1>: 1 2 3; 3x2: 1", "nothing", "gaussian:sigma=-1", "3x3: 1"};
  for (size_t i = 0; i < COUNT(wrong); i++) {
    assert_int_not_equal(gconv_filters_read(wrong[i], NULL, &list), GCONV_OK);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].name, "identity");
  }
  assert_int_equal(gconv_filters_read("kirsch", NULL, &list), GCONV_OK);
  assert_int_equal(list.count, 9);
  gconv_filters_free(&list);
  assert_int_equal(list.count, 0);
  gconv_filters_free(&list);
  gconv_filters_free(NULL);
}

/* A list that the caller made has just the room that it needs. */
static void adds_to_lists_of_the_caller(void **state) {
  (void)state;
  for (size_t count = 1; count < 10; count++) {
    gconv_filters made = {0}, list = {0};
    for (size_t i = 0; i < count; i++)
      assert_int_equal(gconv_filters_read("sobel_x", NULL, &made), GCONV_OK);
    list = (gconv_filters){.items = malloc(count * sizeof *list.items), .count = count};
    assert_non_null(list.items);
    memcpy(list.items, made.items, count * sizeof *list.items);
    free(made.items);
    for (int more = 0; more < 5; more++)
      assert_int_equal(gconv_filters_read("laplacian", NULL, &list), GCONV_OK);
    assert_int_equal(list.count, count + 5);
    assert_string_equal(list.items[count - 1].name, "sobel_x");
    gconv_filters_free(&list);
  }
}

static void names_syntaxes(void **state) {
  (void)state;
  const char *const names[] = {"matrix", "vips", "imagemagick", "opencv", "array", "npy", NULL};
  for (size_t i = 0; i < COUNT(names); i++)
    if (names[i])
      assert_string_equal(gconv_filter_syntax_at(i), names[i]);
    else
      assert_null(gconv_filter_syntax_at(i));
}

/* ---- Text ---- */

static void check_round_trip(const gconv_filter *f) {
  char *text = NULL;
  if (gconv_filter_to_text(f, &text) != GCONV_OK)
    fail_msg("%s", gconv_last_error());
  write_string("trip.txt", text);
  gconv_filters list = {0};
  if (gconv_filters_read("trip.txt", NULL, &list) != GCONV_OK)
    fail_msg("%s\n%s", gconv_last_error(), text);
  const gconv_filter *g = &list.items[0];
  if (list.count != 1 || g->rows != f->rows || g->columns != f->columns || g->anchor_row != f->anchor_row ||
      g->anchor_column != f->anchor_column || memcmp(&g->divisor, &f->divisor, 4) != 0 ||
      memcmp(&g->offset, &f->offset, 4) != 0 ||
      memcmp(g->taps, f->taps, (size_t)f->rows * (size_t)f->columns * sizeof(float)) != 0)
    fail_msg("comes back changed:\n%s", text);
  free(text);
  gconv_filters_free(&list);
}

/* Any finite float, denormal ones among them. */
static float any_float(void) {
  for (;;) {
    uint32_t bits = (uint32_t)rand() << 16 ^ (uint32_t)rand();
    if (rand() % 4 == 0)
      bits &= 0x807FFFFF;
    float value;
    memcpy(&value, &bits, sizeof value);
    if (isfinite(value))
      return value;
  }
}

static void text_keeps_every_bit(void **state) {
  (void)state;
  srand(7);
  for (int turn = 0; turn < 3000; turn++) {
    float taps[25];
    int32_t rows = 1 + rand() % 5, columns = 1 + rand() % 5;
    gconv_filter f = {"any", rows, columns, rows / 2, columns / 2, 1, 0, taps, false};
    bool small = turn % 3 == 0; /* like the sizes of a vips matrix */
    for (int i = 0; i < 25; i++)
      taps[i] = small ? (float)(1 + rand() % 4) : any_float();
    if (turn % 4 == 1)
      f.divisor = small ? 2 : any_float();
    if (f.divisor == 0)
      f.divisor = 1;
    if (turn % 8 >= 5)
      f.offset = small ? 1 : any_float();
    if (turn % 4 == 0) {
      f.offset = 0;
      f.anchor_row = rand() % rows;
      f.anchor_column = rand() % columns;
    }
    check_round_trip(&f);
  }
}

static void text_states_its_syntax_only_in_doubt(void **state) {
  (void)state;
  char *text = NULL;
  gconv_filter f = {"two\nlines", 3, 2, 1, 1, 1, 0, (float[]){2, 2, 1, 0.1F, 3, 4}, false};
  assert_int_equal(gconv_filter_to_text(&f, &text), GCONV_OK);
  assert_string_equal(text, "# syntax: matrix\n# two?lines\n2 2\n1 0.100000001\n3 4\n");
  free(text);
  f.name = "syntax: npy"; /* not taken for a statement */
  check_round_trip(&f);
  f.name = "two\nlines";
  f.taps[0] = 3;
  assert_int_equal(gconv_filter_to_text(&f, &text), GCONV_OK);
  assert_string_equal(text, "# two?lines\n3 2\n1 0.100000001\n3 4\n");
  free(text);
  f.offset = 128;
  assert_int_equal(gconv_filter_to_text(&f, &text), GCONV_OK);
  assert_string_equal(text, "# two?lines\n2 3 1 128\n3 2\n1 0.100000001\n3 4\n");
  free(text);
  f.offset = 0;
  f.anchor_row = 0;
  assert_int_equal(gconv_filter_to_text(&f, &text), GCONV_OK);
  assert_string_equal(text, "# two?lines\n2x3+1+0:\n3 2\n1 0.100000001\n3 4\n");
  free(text);
}

static void refuses_what_is_no_filter(void **state) {
  (void)state;
  char *text = NULL;
  gconv_filter_analysis analysis;
  const gconv_filter bad[] = {
      {"a", 1, 2, 0, 2, 1, 0, (float[]){1, 2}, false},        {"b", 1, 2, 0, 0, 0, 0, (float[]){1, 2}, false},
      {"c", 1, 2, 0, 0, 1, INFINITY, (float[]){1, 2}, false}, {"d", 1, 2, 0, 0, 1, 0, (float[]){1, NAN}, false},
      {"e", 0, 2, 0, 0, 1, 0, (float[]){1, 2}, false},        {NULL, 1, 2, -1, 0, 1, 0, (float[]){1, 2}, false},
  };
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_int_equal(gconv_filter_to_text(&bad[i], &text), GCONV_BAD_ARGUMENT);
    assert_int_equal(gconv_filter_analyze(&bad[i], &analysis), GCONV_BAD_ARGUMENT);
  }
  const gconv_filter both = {"both", 1, 2, 0, 0, 2, 0, (float[]){1, 2}, false};
  assert_int_equal(gconv_filter_to_text(&both, &text), GCONV_UNSUPPORTED);
  assert_null(text);
}

/* ---- Analysis ---- */

static gconv_filter_analysis analyse(const char *spec) {
  gconv_filter_analysis a;
  gconv_filters list = read_good(spec, NULL);
  assert_int_equal(gconv_filter_analyze(&list.items[0], &a), GCONV_OK);
  gconv_filters_free(&list);
  return a;
}

static void finds_ranks(void **state) {
  (void)state;
  const struct {
    const char *spec;
    int32_t rank;
  } cases[] = {
      {"identity", 1},
      {"average:size=5x7", 1},
      {"gaussian:size=33,sigma=5", 1},
      {"gaussian:size=200x90,sigma=20", 1},
      {"sobel_x", 1},
      {"scharr_y", 1},
      {"roberts_x", 2},
      {"laplacian_4", 2},
      {"laplacian_8", 2},
      {"dog", 2},
      {"unsharp", 2},
      {"log", 3}, /* x^2 g, y^2 g, and the mean that fspecial takes off */
      {"3x3: 1 2 3 4 5 6 7 8 9", 2},
      {"3x3: 1 2 3 4 5 6 7 8 10", 3},
      {"3x1: 1 2 3", 1},
      {"1x3: 1 2 3", 1},
      {"2x2: 0 0 0 0", 0},
      {"2x2: 1e-30 0 0 1e-30", 2},
      {"2x2: 3e38 0 0 3e38", 2},
      {"2x2: 1 0 0 1e-12", 1},
      {"2x2: 1 1 1 1.00001", 2},
      {"2x2: 1 1 1 1.0000001", 1},
      {"average:size=1x30000", 1},
      {"average:size=513x513", -1},
  };
  for (size_t i = 0; i < COUNT(cases); i++)
    if (analyse(cases[i].spec).rank != cases[i].rank)
      fail_msg("%s: rank %d, expected %d", cases[i].spec, analyse(cases[i].spec).rank, cases[i].rank);
}

/* Sums of k outer products have rank k; random taps have all of it. */
static void finds_ranks_of_random_filters(void **state) {
  (void)state;
  enum { ROWS = 70, COLUMNS = 41 };
  static float taps[ROWS * COLUMNS];
  gconv_filter f = {"random", ROWS, COLUMNS, 0, 0, 1, 0, taps, false};
  gconv_filter_analysis a;
  srand(3);
  for (int rank = 0; rank <= COLUMNS; rank += rank < 5 ? 1 : 12) {
    memset(taps, 0, sizeof taps);
    for (int k = 0; k < rank; k++) {
      float column[ROWS], row[COLUMNS];
      for (int r = 0; r < ROWS; r++)
        column[r] = (float)(rand() % 15 - 7); /* small integers: the sums are exact */
      for (int s = 0; s < COLUMNS; s++)
        row[s] = (float)(rand() % 15 - 7);
      for (int i = 0; i < ROWS * COLUMNS; i++)
        taps[i] += column[i / COLUMNS] * row[i % COLUMNS];
    }
    assert_int_equal(gconv_filter_analyze(&f, &a), GCONV_OK);
    assert_int_equal(a.rank, rank);
  }
  for (int i = 0; i < ROWS * COLUMNS; i++)
    taps[i] = (float)rand() / (float)RAND_MAX;
  assert_int_equal(gconv_filter_analyze(&f, &a), GCONV_OK);
  assert_int_equal(a.rank, COLUMNS);
}

static void finds_sums_and_symmetries(void **state) {
  (void)state;
  gconv_filter_analysis a = analyse("sobel_x");
  assert_true(a.sum == 0 && a.positive_sum == 4 && a.negative_sum == -4 && a.zero_taps == 3);
  assert_true(a.symmetric_rows && !a.symmetric_columns && !a.antisymmetric_rows && a.antisymmetric_columns);
  a = analyse("sobel_y");
  assert_true(!a.symmetric_rows && a.symmetric_columns && a.antisymmetric_rows && !a.antisymmetric_columns);
  a = analyse("gaussian");
  assert_true(a.symmetric_rows && a.symmetric_columns && fabs(a.sum - 1) < 1e-6 && a.negative_sum == 0);
  a = analyse("2x2: 0 0 0 0");
  assert_true(a.symmetric_rows && a.symmetric_columns && !a.antisymmetric_rows && !a.antisymmetric_columns &&
              a.zero_taps == 4);
  a = analyse("3x1: 1 2 3");
  assert_true(a.symmetric_rows && !a.symmetric_columns && !a.antisymmetric_columns);
  write_string("scaled.mat", "3 1 -4 7\n1 2 1\n");
  a = analyse("scaled.mat");
  assert_true(a.sum == -1 && a.positive_sum == 0 && a.negative_sum == -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(file_comes_before_builtin),
      cmocka_unit_test(folder_is_no_filter),
      cmocka_unit_test(finds_shipped_files),
      cmocka_unit_test(reads_inline_kernels),
      cmocka_unit_test(explains_unknown_names),
      cmocka_unit_test(tells_what_cannot_be_opened),
      cmocka_unit_test(keeps_the_list_on_failure),
      cmocka_unit_test(names_syntaxes),
      cmocka_unit_test(adds_to_lists_of_the_caller),
      cmocka_unit_test(text_keeps_every_bit),
      cmocka_unit_test(text_states_its_syntax_only_in_doubt),
      cmocka_unit_test(refuses_what_is_no_filter),
      cmocka_unit_test(finds_ranks),
      cmocka_unit_test(finds_ranks_of_random_filters),
      cmocka_unit_test(finds_sums_and_symmetries),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
