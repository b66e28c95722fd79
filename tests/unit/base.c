/* SPDX-License-Identifier: MIT */
/* The base room: errors, sizes, threads, sources and sinks. */
#include "base/file.h"
#include "base/memory.h"
#include "base/processors.h"
#include "base/suggest.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "gconv_jobs.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void errors_keep_their_text(void **state) {
  (void)state;
  assert_int_equal(gconv_fail(GCONV_BAD_FILE, "line %d is odd", 3), GCONV_BAD_FILE);
  assert_string_equal(gconv_last_error(), "line 3 is odd");
  assert_int_equal(gconv_fail_in(GCONV_BAD_FILE, "%s", "a.txt"), GCONV_BAD_FILE);
  assert_string_equal(gconv_last_error(), "a.txt: line 3 is odd");
  gconv_fail(GCONV_BAD_FILE, "again: %s", gconv_last_error());
  assert_string_equal(gconv_last_error(), "again: a.txt: line 3 is odd");
  char longer[20000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  gconv_fail(GCONV_BAD_FILE, "%s", longer);
  gconv_fail_in(GCONV_BAD_FILE, "%s", longer);
  assert_in_range(strlen(gconv_last_error()), 1000, 19999);
}

/* What callers of the library read names fields; what stands first may be a path, and is left as it is. */
static void texts_name_fields(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"raise it with --max-pixels 9", "raise it with 'max_pixels' 9"},
      {"--max-pixels: no such file", "--max-pixels: no such file"},
      {"(--padding, --alpha drop), by --depth float or --depth", "('padding', alpha=drop), by float32 or 'type'"},
      {"a.txt: say with --raw, or --no-clobber, --skip-existing", "a.txt: say in syntax, or existing, existing=skip"},
      {"-o results/ or a folder (-o results/)", "-o results/ or a folder (results/)"},
      {"a --b.png, -- and --array=1-8 and x--gray stay, a - b too",
       "a --b.png, -- and --array=1-8 and x--gray stay, a - b too"},
      {"the last --gray", "the last 'gray'"},
      {"--missing mean --missing drop", "--missing mean missing=drop"},
      {"ends in -", "ends in -"},
      {"ends in --", "ends in --"},
  };
  gconv_message message;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    gconv_fail(GCONV_BAD_ARGUMENT, "%s", texts[i][0]);
    assert_string_equal(gconv_last_error(), texts[i][1]);
    gconv_complain(&message, GCONV_BAD_ARGUMENT, "%s", texts[i][0]);
    assert_string_equal(message.text, texts[i][1]);
  }
}

static void remember(gconv_log_level level, const char *text, void *user) {
  snprintf(user, 64, "%d %s", (int)level, text);
}

static void log_reaches_the_function(void **state) {
  (void)state;
  char heard[64] = "";
  gconv_warn("nobody hears %d", 1);
  gconv_set_log(remember, heard);
  gconv_warn("sum is %g", 0.5);
  assert_string_equal(heard, "0 sum is 0.5");
  gconv_remark("note");
  assert_string_equal(heard, "1 note");
  gconv_set_log(NULL, NULL);
}

static void products_do_not_overflow(void **state) {
  (void)state;
  size_t product = 0;
  assert_true(gconv_multiply(1u << 20, 1u << 20, &product));
  assert_int_equal(product, (size_t)1 << 40);
  assert_false(gconv_multiply(SIZE_MAX / 2, 3, &product));
  assert_int_equal(product, SIZE_MAX);
  assert_int_equal(gconv_checked_product(3, (size_t[]){SIZE_MAX / 4, 5, 1}), SIZE_MAX);
  assert_int_equal(gconv_checked_product(3, (size_t[]){3, 5, 7}), 105);
  assert_int_equal(gconv_common_multiple(6, 4), 12);
  assert_int_equal(gconv_common_multiple(1, 7), 7);
  assert_int_equal(gconv_common_multiple(INT32_MAX, INT32_MAX - 1), (int64_t)INT32_MAX * (INT32_MAX - 1));
  void *memory = NULL;
  assert_int_equal(gconv_allocate(SIZE_MAX, "everything", &memory), GCONV_NO_MEMORY);
  assert_null(memory);
  assert_non_null(strstr(gconv_last_error(), "everything"));
  assert_int_equal(gconv_allocate(0, "nothing", &memory), GCONV_OK);
  assert_int_equal((uintptr_t)memory % GCONV_ALIGNMENT, 0);
  gconv_release(memory);
}

/* ---- Threads ---- */

typedef struct count {
  atomic_int calls[1000];
  atomic_int bad_thread;
  int threads;
} count;

static void count_turn(void *context, size_t turn, int thread) {
  count *counted = context;
  atomic_fetch_add(&counted->calls[turn], 1);
  if (thread < 0 || thread >= counted->threads)
    atomic_store(&counted->bad_thread, 1);
}

static void each_turn_is_taken_once(void **state) {
  (void)state;
  for (int threads = 1; threads <= 8; threads++) {
    gconv_threads *pool = NULL;
    assert_int_equal(gconv_threads_create(threads, &pool), GCONV_OK);
    count *counted = calloc(1, sizeof *counted);
    assert_non_null(counted);
    counted->threads = gconv_threads_count(pool);
    const size_t turns[] = {0, 1, 2, 7, 1000, 1000};
    int expected[1000] = {0};
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++) {
      gconv_threads_run(pool, turns[i], count_turn, counted);
      for (size_t turn = 0; turn < 1000; turn++) {
        expected[turn] += turn < turns[i];
        assert_int_equal(atomic_load(&counted->calls[turn]), expected[turn]);
      }
    }
    assert_int_equal(atomic_load(&counted->bad_thread), 0);
    gconv_threads_free(pool);
    free(counted);
  }
}

/* Several callers of one pool. */
typedef struct crowd {
  gconv_threads *pool;
  atomic_int busy, most, calls, clashes;
  atomic_bool taken[8]; /* seats */
} crowd;

enum { CALLERS = 5, ROUNDS = 40, TURNS = 6 };

static void occupy(void *context, size_t turn, int seat) {
  crowd *c = context;
  (void)turn;
  int busy = atomic_fetch_add(&c->busy, 1) + 1, most = atomic_load(&c->most);
  while (busy > most && !atomic_compare_exchange_weak(&c->most, &most, busy)) {
  }
  if (atomic_exchange(&c->taken[seat], true))
    atomic_fetch_add(&c->clashes, 1);
  atomic_fetch_add(&c->calls, 1);
  usleep(50);
  atomic_store(&c->taken[seat], false);
  atomic_fetch_sub(&c->busy, 1);
}

static void *call_again_and_again(void *argument) {
  crowd *c = argument;
  for (int i = 0; i < ROUNDS; i++)
    gconv_threads_run(c->pool, (size_t)(1 + i % TURNS), occupy, c);
  return NULL;
}

static void callers_share_the_seats(void **state) {
  (void)state;
  for (int threads = 2; threads <= 4; threads++) {
    crowd c = {.most = 0};
    pthread_t callers[CALLERS];
    assert_int_equal(gconv_threads_create(threads, &c.pool), GCONV_OK);
    for (int i = 0; i < CALLERS; i++)
      assert_int_equal(pthread_create(&callers[i], NULL, call_again_and_again, &c), 0);
    for (int i = 0; i < CALLERS; i++)
      pthread_join(callers[i], NULL);
    int calls = 0;
    for (int i = 0; i < ROUNDS; i++)
      calls += CALLERS * (1 + i % TURNS);
    assert_int_equal(atomic_load(&c.calls), calls);
    assert_int_equal(atomic_load(&c.clashes), 0);
    assert_int_equal(atomic_load(&c.most), threads); /* never more, and all of them where there is enough to do */
    gconv_threads_free(c.pool);
  }
}

static gconv_status fail_errand(void *context) {
  return gconv_fail(GCONV_IO_ERROR, "errand %d", *(const int *)context);
}

static gconv_status do_nothing(void *context) {
  (void)context;
  return GCONV_OK;
}

/* While others have turns, their threads take over errands, too. */
static void errands_bring_their_error_home(void **state) {
  (void)state;
  crowd c = {.most = 0};
  pthread_t callers[CALLERS];
  assert_int_equal(gconv_threads_create(2, &c.pool), GCONV_OK);
  for (int i = 0; i < CALLERS; i++)
    assert_int_equal(pthread_create(&callers[i], NULL, call_again_and_again, &c), 0);
  for (int i = 0; i < 300; i++) {
    char expected[32];
    snprintf(expected, sizeof expected, "errand %d", i);
    assert_int_equal(gconv_threads_do(c.pool, fail_errand, &i), GCONV_IO_ERROR);
    assert_string_equal(gconv_last_error(), expected);
    assert_int_equal(gconv_threads_do(c.pool, do_nothing, NULL), GCONV_OK);
  }
  for (int i = 0; i < CALLERS; i++)
    pthread_join(callers[i], NULL);
  gconv_threads_free(c.pool);
}

static void threads_are_no_more_than_processors(void **state) {
  (void)state;
  int processors = gconv_processor_count();
  gconv_threads *pool = NULL;
  gconv_device *device = NULL;
  assert_true(processors >= 1);
  unsetenv("GCONV_MOST_THREADS");
  assert_int_equal(gconv_threads_allowed(0), processors);
  assert_int_equal(gconv_threads_allowed(-1), processors);
  assert_int_equal(gconv_threads_allowed(1), 1);
  assert_int_equal(gconv_threads_allowed(processors), processors);
  assert_int_equal(gconv_threads_allowed(processors + 1), processors);
  assert_int_equal(gconv_threads_create(processors + 3, &pool), GCONV_OK);
  assert_int_equal(gconv_threads_count(pool), processors);
  gconv_threads_free(pool);
  assert_int_equal(gconv_device_open("cpu", 4096, &device), GCONV_OK);
  assert_int_equal(gconv_threads_count(gconv_device_threads(device)), processors);
  gconv_device_close(device);
  char most[16];
  snprintf(most, sizeof most, "%d", processors + 2);
  setenv("GCONV_MOST_THREADS", most, 1);
  assert_int_equal(gconv_threads_allowed(0), processors);
  assert_int_equal(gconv_threads_allowed(processors + 1), processors + 1);
  assert_int_equal(gconv_threads_allowed(processors + 9), processors + 2);
  setenv("GCONV_MOST_THREADS", "0", 1);
  assert_int_equal(gconv_threads_allowed(processors + 9), processors);
}

/* More of them than a small machine has processors, unless a test is about that. */
static int allow_threads(void **state) {
  (void)state;
  return setenv("GCONV_MOST_THREADS", "8", 1);
}

/* ---- Sources and sinks, in a folder of their own ---- */

static char folder[] = "/tmp/gconv-base-XXXXXX";

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1; /* fails if a test left something */
}

static void write_text(const char *path, const char *text, size_t size) {
  gconv_sink *sink = NULL;
  assert_int_equal(gconv_sink_open(path, &sink), GCONV_OK);
  assert_int_equal(gconv_sink_write(sink, text, size), GCONV_OK);
  assert_int_equal(gconv_sink_commit(sink, false), GCONV_OK);
}

/* Control groups, as files of a folder. */
static void quotas_bound_processors(void **state) {
  (void)state;
  const struct {
    const char *groups, *file, *text, *second, *second_text;
    int expected;
  } cases[] = {
      {"0::/\n", "cpu.max", "max 100000\n", NULL, NULL, 64},
      {"0::/\n", "cpu.max", "200000 100000\n", NULL, NULL, 2},
      {"0::/\n", "cpu.max", "150000 100000\n", NULL, NULL, 2},
      {"0::/\n", "cpu.max", "1000 100000\n", NULL, NULL, 1},
      {"0::/\n", "cpu.max", "9900000 100000\n", NULL, NULL, 64},
      {"0::/\n", "cpu.max", "9223372036854775807 1\n", NULL, NULL, 64},
      {"0::/\n", "cpu.max", "", NULL, NULL, 64},
      {"0::/\n", "cpu.max", "200000 0\n", NULL, NULL, 64},
      {"0::/a/b\n", "a/b/cpu.max", "300000 100000\n", NULL, NULL, 3},
      {"0::/a/b\n", "a/b/cpu.max", "300000 100000\n", "a/cpu.max", "200000 100000\n", 2},
      {"0::/a/b\n", "a/b/cpu.max", "max 100000\n", "cpu.max", "100000 100000\n", 1},
      {"0::/out/of/sight\n", "cpu.max", "500000 100000\n", NULL, NULL, 5},
      {"7:cpuset:/a\n", "cpu.max", "200000 100000\n", NULL, NULL, 64},
      {"4:cpu,cpuacct:/a\n0::/\n", "cpu/a/cpu.cfs_quota_us", "250000\n", "cpu/a/cpu.cfs_period_us", "100000\n", 3},
      {"4:cpu,cpuacct:/a\n0::/\n", "cpu/a/cpu.cfs_quota_us", "-1\n", "cpu/a/cpu.cfs_period_us", "100000\n", 64},
      {"4:cpu:/docker/x\n", "cpu/cpu.cfs_quota_us", "400000\n", "cpu/cpu.cfs_period_us", "100000\n", 4},
      {"", "cpu.max", "200000 100000\n", NULL, NULL, 64},
      {"nonsense\n:\n", "cpu.max", "200000 100000\n", NULL, NULL, 64},
  };
  const char *folders[] = {"a", "a/b", "cpu", "cpu/a"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    assert_int_equal(mkdir(folders[i], 0777), 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_text("groups", cases[i].groups, strlen(cases[i].groups));
    write_text(cases[i].file, cases[i].text, strlen(cases[i].text));
    if (cases[i].second)
      write_text(cases[i].second, cases[i].second_text, strlen(cases[i].second_text));
    assert_int_equal(gconv_quota_processors("groups", ".", 64), cases[i].expected);
    unlink(cases[i].file);
    if (cases[i].second)
      unlink(cases[i].second);
  }
  unlink("groups");
  assert_int_equal(gconv_quota_processors("groups", ".", 64), 64);
  for (size_t i = sizeof folders / sizeof *folders; i-- > 0;)
    assert_int_equal(rmdir(folders[i]), 0);
}

static void source_hands_out_every_byte_once(void **state) {
  (void)state;
  enum { SIZE = 300000 };
  uint8_t *bytes = malloc(SIZE), *got = malloc(SIZE);
  assert_true(bytes && got);
  for (int i = 0; i < SIZE; i++)
    bytes[i] = (uint8_t)(i * 7 + i / 251);
  write_text("data", (const char *)bytes, SIZE);
  gconv_source source;
  assert_int_equal(gconv_source_open("data", &source), GCONV_OK);
  assert_int_equal(source.size, SIZE);
  size_t done = 0, count_got = 1;
  for (int round = 0; count_got > 0; round++) {
    const uint8_t *ahead;
    size_t seen;
    assert_int_equal(gconv_source_peek(&source, 1000, &ahead, &seen), GCONV_OK);
    assert_int_equal(seen, SIZE - done < 1000 ? SIZE - done : 1000);
    assert_memory_equal(ahead, bytes + done, seen);
    if (round % 3 == 0) {
      const uint8_t *next;
      assert_int_equal(gconv_source_next(&source, &next, &count_got), GCONV_OK);
      assert_memory_equal(next, bytes + done, count_got);
    } else {
      assert_int_equal(gconv_source_read(&source, got, (size_t)round * 777, &count_got), GCONV_OK);
      assert_memory_equal(got, bytes + done, count_got);
    }
    done += count_got;
    assert_int_equal(source.position, done);
  }
  assert_int_equal(done, SIZE);
  assert_int_equal(gconv_source_read_exactly(&source, got, 1, "the end"), GCONV_BAD_FILE);
  assert_string_equal(gconv_last_error(), "data: the file ends too early, in the end");
  gconv_source_close(&source);
  free(bytes);
  free(got);
  unlink("data");
}

/* Reading does not call the system for each byte: the position in the file shows how much was read at a time. */
static void source_reads_ahead_for_single_bytes(void **state) {
  (void)state;
  enum { SIZE = 200000, LEAST = 10000 };
  char *bytes = malloc(SIZE);
  assert_non_null(bytes);
  for (int i = 0; i < SIZE; i++)
    bytes[i] = (char)(i * 7 + i / 251);
  write_text("data", bytes, SIZE);
  gconv_source source;
  assert_int_equal(gconv_source_open("data", &source), GCONV_OK);
  int calls = 0;
  off_t stood = 0;
  for (int i = 0; i < SIZE; i++) {
    char byte;
    size_t got = 0;
    if (i == 100000)
      assert_int_equal(gconv_source_rewind(&source, 100000), GCONV_OK);
    assert_int_equal(gconv_source_read(&source, &byte, 1, &got), GCONV_OK);
    assert_int_equal(got, 1);
    assert_int_equal(byte, bytes[i]);
    off_t stands = lseek(source.file, 0, SEEK_CUR);
    calls += stands != stood;
    stood = stands;
  }
  assert_true(calls <= SIZE / LEAST);
  gconv_source_close(&source);
  free(bytes);
  unlink("data");
}

static void source_reads_all_within_its_limit(void **state) {
  (void)state;
  write_text("data", "0123456789", 10);
  for (size_t limit = 9; limit <= 11; limit++) {
    gconv_source source;
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(gconv_source_open("data", &source), GCONV_OK);
    assert_int_equal(gconv_source_read_all(&source, limit, &bytes, &size), limit < 10 ? GCONV_TOO_LARGE : GCONV_OK);
    if (limit >= 10) {
      assert_int_equal(size, 10);
      assert_string_equal((const char *)bytes, "0123456789");
    }
    gconv_release(bytes);
    gconv_source_close(&source);
  }
  unlink("data");
}

/* Files of the system say that they have no bytes, and have some. */
static void source_reads_all_of_files_without_a_size(void **state) {
  (void)state;
  gconv_source source;
  uint8_t *bytes = NULL;
  size_t size = 0;
  assert_int_equal(gconv_source_open("/proc/self/status", &source), GCONV_OK);
  assert_int_equal(source.size, 0);
  assert_int_equal(gconv_source_read_all(&source, 1 << 20, &bytes, &size), GCONV_OK);
  assert_true(size > 100);
  assert_int_equal(strlen((const char *)bytes), size);
  gconv_release(bytes);
  gconv_source_close(&source);
}

/* What is in the buffer is not read again: the position in the file stays where it is. */
static void source_goes_back_in_its_buffer(void **state) {
  (void)state;
  enum { SIZE = 200000, SMALL = 100, LARGE = 100000 };
  uint8_t *bytes = malloc(SIZE), *got = malloc(SIZE);
  assert_true(bytes && got);
  for (int i = 0; i < SIZE; i++)
    bytes[i] = (uint8_t)(i * 7 + i / 251);
  write_text("data", (const char *)bytes, SIZE);
  gconv_source source;
  assert_int_equal(gconv_source_open("data", &source), GCONV_OK);
  assert_int_equal(gconv_source_read_exactly(&source, got, SMALL, "bytes"), GCONV_OK);
  off_t place = lseek(source.file, 0, SEEK_CUR);
  assert_true(place > SMALL);
  for (uint64_t to = 0; to < SMALL; to += 9) {
    assert_int_equal(gconv_source_rewind(&source, to), GCONV_OK);
    assert_int_equal(gconv_source_read_exactly(&source, got, SMALL, "bytes"), GCONV_OK);
    assert_memory_equal(got, bytes + to, SMALL);
    assert_int_equal(lseek(source.file, 0, SEEK_CUR), place);
  }
  assert_int_equal(gconv_source_read_exactly(&source, got, LARGE, "bytes"), GCONV_OK); /* past the buffer */
  for (uint64_t to = 0; to + SMALL < SIZE; to += 9999) {
    assert_int_equal(gconv_source_rewind(&source, to), GCONV_OK);
    assert_int_equal(gconv_source_read_exactly(&source, got, to % 2 ? SMALL : SIZE - to, "bytes"), GCONV_OK);
    assert_memory_equal(got, bytes + to, to % 2 ? SMALL : SIZE - to);
  }
  gconv_source_close(&source);
  free(bytes);
  free(got);
  unlink("data");
}

static void source_of_bytes_goes_back_from_its_end(void **state) {
  (void)state;
  enum { SIZE = 6000 };
  uint8_t *bytes = malloc(SIZE), *got = malloc(2 * SIZE);
  size_t length;
  assert_true(bytes && got);
  for (int i = 0; i < SIZE; i++)
    bytes[i] = (uint8_t)(i * 7 + i / 251);
  gconv_source source;
  gconv_source_of_bytes("bytes", bytes, SIZE, &source);
  assert_int_equal(gconv_source_read(&source, got, 2 * SIZE, &length), GCONV_OK);
  assert_int_equal(length, SIZE);
  assert_int_equal(gconv_source_rewind(&source, 10), GCONV_OK);
  assert_int_equal(gconv_source_read(&source, got, 2 * SIZE, &length), GCONV_OK);
  assert_int_equal(length, SIZE - 10);
  assert_memory_equal(got, bytes + 10, SIZE - 10);
  free(bytes);
  free(got);
}

static void lists_and_buffers_grow(void **state) {
  (void)state;
  int *items = NULL;
  size_t moved = 0;
  for (size_t length = 0; length < 5000; length++) {
    int *before = items, *larger = gconv_grown(items, length, sizeof *items);
    assert_non_null(larger);
    moved += larger != before;
    items = larger;
    items[length] = (int)length;
  }
  for (int i = 0; i < 5000; i++)
    assert_int_equal(items[i], i);
  assert_true(moved <= 14); /* 0, 1, 2, 4 ... 4096 */
  assert_null(gconv_grown(NULL, (size_t)1 << 62, 8));
  free(items);
  assert_int_equal(gconv_room(0), 4096);
  assert_int_equal(gconv_room(4096), 4096);
  assert_int_equal(gconv_room(4097), 8192);
  assert_int_equal(gconv_room(SIZE_MAX / 2 + 2), SIZE_MAX);
  for (size_t needed = 1; needed < SIZE_MAX / 8; needed = needed * 3 + 1)
    assert_true(gconv_room(needed) >= needed && (gconv_room(needed) < 2 * needed || needed <= 4096));
}

/* Python's decoder is the oracle of tests/cli/test_json.py; here are the ends of texts. */
static void utf8_is_told_from_other_bytes(void **state) {
  (void)state;
  assert_int_equal(gconv_utf8_bytes("\xc3\xa4", 2), 2);
  assert_int_equal(gconv_utf8_bytes("\xc3\xa4", 1), 0);
  assert_int_equal(gconv_utf8_bytes("\xf0\x9f\x99\x82", 4), 4);
  assert_int_equal(gconv_utf8_bytes("\xf0\x9f\x99\x82", 3), 0);
  assert_true(gconv_utf8_is_whole("", 0));
  assert_true(gconv_utf8_is_whole("a\xe2\x82\xac", 4));
  assert_false(gconv_utf8_is_whole("a\xe2\x82", 3));
  const size_t kept[] = {0, 1, 1, 1, 4, 5, 5};
  for (size_t most = 0; most < sizeof kept / sizeof *kept; most++)
    assert_int_equal(gconv_utf8_cut("a\xe2\x82\xac\xc3", most), kept[most]); /* the last byte is no character */
}

static void source_refuses_what_is_no_file(void **state) {
  (void)state;
  gconv_source source;
  assert_int_equal(gconv_source_open("missing", &source), GCONV_IO_ERROR);
  gconv_source_close(&source);
  assert_int_equal(gconv_source_open(".", &source), GCONV_IO_ERROR);
  assert_non_null(strstr(gconv_last_error(), "folder"));
  gconv_source_close(&source);
}

static void assert_content(const char *path, const char *expected) {
  char text[64] = "";
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  assert_int_equal(size, strlen(expected));
  assert_string_equal(text, expected);
}

static void sink_replaces_whole_or_not_at_all(void **state) {
  (void)state;
  write_text("out", "old", 3);
  assert_int_equal(chmod("out", 06640), 0); /* the bits in front were given to the old content */
  gconv_sink *sink = NULL;
  assert_int_equal(gconv_sink_open("out", &sink), GCONV_OK);
  assert_int_equal(gconv_sink_write(sink, "half", 4), GCONV_OK);
  assert_content("out", "old");
  gconv_sink_discard(sink);
  assert_content("out", "old");
  assert_int_equal(gconv_sink_open("out", &sink), GCONV_OK);
  assert_int_equal(gconv_sink_write(sink, "new", 3), GCONV_OK);
  assert_int_equal(gconv_sink_commit(sink, true), GCONV_EXISTS);
  assert_content("out", "old");
  write_text("out", "new", 3);
  assert_content("out", "new");
  struct stat status;
  assert_int_equal(stat("out", &status), 0);
  assert_int_equal(status.st_mode & 07777, 0640);
  unlink("out");
}

static void sink_prints_text_of_any_length(void **state) {
  (void)state;
  for (int length = 508; length <= 516; length++) { /* around the room of gconv_sink_print() */
    char expected[600];
    gconv_sink *sink = NULL;
    snprintf(expected, sizeof expected, "%*d!", length, 7);
    assert_int_equal(gconv_sink_open("out", &sink), GCONV_OK);
    assert_int_equal(gconv_sink_print(sink, "%*d!", length, 7), GCONV_OK);
    assert_int_equal(gconv_sink_commit(sink, false), GCONV_OK);
    struct stat status;
    assert_int_equal(stat("out", &status), 0);
    assert_int_equal(status.st_size, length + 1);
    char text[600] = "";
    FILE *file = fopen("out", "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text - 1, file), length + 1);
    fclose(file);
    assert_string_equal(text, expected);
  }
  unlink("out");
}

static void sink_follows_links(void **state) {
  (void)state;
  write_text("target", "old", 3);
  assert_int_equal(symlink("target", "link"), 0);
  write_text("link", "new", 3);
  struct stat status;
  assert_int_equal(lstat("link", &status), 0);
  assert_true(S_ISLNK(status.st_mode));
  assert_content("target", "new");
  unlink("link");
  unlink("target");
}

static void sink_removes_what_is_unfinished(void **state) {
  (void)state;
  gconv_sink *sink = NULL;
  assert_int_equal(gconv_sink_open("out", &sink), GCONV_OK);
  assert_int_equal(gconv_sink_write(sink, "half", 4), GCONV_OK);
  gconv_remove_unfinished();
  assert_int_not_equal(access("out", F_OK), 0);
  assert_int_equal(gconv_sink_commit(sink, false), GCONV_IO_ERROR);
}

static void sink_reports_what_cannot_be_written(void **state) {
  (void)state;
  gconv_sink *sink = NULL;
  assert_int_equal(gconv_sink_open("missing/out", &sink), GCONV_IO_ERROR);
  assert_non_null(strstr(gconv_last_error(), "does not exist"));
  assert_int_equal(gconv_sink_open(".", &sink), GCONV_IO_ERROR);
  if (access("/dev/full", W_OK) != 0)
    return;
  assert_int_equal(gconv_sink_open("/dev/full", &sink), GCONV_OK);
  assert_int_equal(gconv_sink_write(sink, "x", 1), GCONV_OK);
  assert_int_equal(gconv_sink_commit(sink, false), GCONV_IO_ERROR);
  assert_non_null(strstr(gconv_last_error(), "No space left"));
}

static void expect_suggestion(const char *word, const char *expected) {
  static const char *const names[] = {"laplacian", "laplacian_4", "laplacian_8", "magnitude", "max", "fft", "json"};
  gconv_suggestion best = {0};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    gconv_suggest(&best, word, names[i]);
  assert_string_equal(best.name, expected);
}

static void suggestions_are_near(void **state) {
  (void)state;
  expect_suggestion("laplacian4", "laplacian_4"); /* as near as laplacian, but more of it was written */
  expect_suggestion("Laplacain", "laplacian");
  expect_suggestion("mag", "magnitude"); /* cut short, which counts as one letter: that of max */
  expect_suggestion("maximum", "max");
  expect_suggestion("jsn", "json");
  expect_suggestion("foo", ""); /* two letters of fft's three */
  expect_suggestion("", "");
  expect_suggestion("a word that is far too long for any name there is, whatever it was meant to say", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_keep_their_text),
      cmocka_unit_test(texts_name_fields),
      cmocka_unit_test(log_reaches_the_function),
      cmocka_unit_test(products_do_not_overflow),
      cmocka_unit_test(suggestions_are_near),
      cmocka_unit_test_setup(each_turn_is_taken_once, allow_threads),
      cmocka_unit_test_setup(callers_share_the_seats, allow_threads),
      cmocka_unit_test_setup(errands_bring_their_error_home, allow_threads),
      cmocka_unit_test(threads_are_no_more_than_processors),
      cmocka_unit_test(quotas_bound_processors),
      cmocka_unit_test(source_hands_out_every_byte_once),
      cmocka_unit_test(source_reads_ahead_for_single_bytes),
      cmocka_unit_test(source_reads_all_within_its_limit),
      cmocka_unit_test(source_reads_all_of_files_without_a_size),
      cmocka_unit_test(source_goes_back_in_its_buffer),
      cmocka_unit_test(source_of_bytes_goes_back_from_its_end),
      cmocka_unit_test(lists_and_buffers_grow),
      cmocka_unit_test(utf8_is_told_from_other_bytes),
      cmocka_unit_test(source_refuses_what_is_no_file),
      cmocka_unit_test(sink_replaces_whole_or_not_at_all),
      cmocka_unit_test(sink_prints_text_of_any_length),
      cmocka_unit_test(sink_follows_links),
      cmocka_unit_test(sink_reports_what_cannot_be_written),
      cmocka_unit_test(sink_removes_what_is_unfinished), /* the last: no file can be made after it */
  };
  return cmocka_run_group_tests_name("base", tests, make_folder, remove_folder);
}
