/* SPDX-License-Identifier: MIT */
#include "names/manifest.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/folders.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME ".gconv-manifest"

/* Longer lines are passed over: no run writes them, as the system opens no paths of that length. Larger files are refused.
 */
enum { MOST_LINE = 5 * PATH_MAX, MOST_BYTES = 1 << 30 };

/* A line of a manifest. */
typedef struct note {
  char *path, *relative; /* as in the line: escaped, and `path` relative to the manifest's folder; owned */
  gconv_print result, input;
  uint64_t job;
} note;

struct gconv_manifest {
  char *folder; /* "", or ending with a slash */
  char *path;   /* path of the manifest to which the run appends */
  uint64_t job;
  note *records; /* sorted by path once all are read; a result may have several records */
  size_t count;
  int file;             /* -1: results are not recorded */
  pthread_mutex_t lock; /* guards `file` */
};

gconv_print gconv_print_of(const char *path) {
  gconv_print print = {0};
  print.known = gconv_file_checksum(path, &print.bytes, &print.crc32) == GCONV_OK;
  return print;
}

static bool equal(gconv_print a, gconv_print b) {
  return a.known && b.known && a.bytes == b.bytes && a.crc32 == b.crc32;
}

/* ---- Lines --------------------------------------------------------------------------------------------------------- */

/* Returns a name with the escapes that lines need. For free(); NULL without memory. */
static char *escaped(const char *name) {
  char *text = malloc(2 * strlen(name) + 1), *out = text;
  for (; text && *name; name++) {
    char letter = *name == '\t' ? 't' : *name == '\n' ? 'n' : *name;
    if (letter != *name || letter == '\\')
      *out++ = '\\';
    *out++ = letter;
  }
  if (text)
    *out = '\0';
  return text;
}

/* Cuts off the field at *at, and moves *at to the next one. NULL if there is no field. */
static char *cut_field(char **at) {
  return *at ? strsep(at, "\t") : NULL;
}

static bool parse_field(char **at, int base, uint64_t most, uint64_t *number) {
  char *field = cut_field(at), *end;
  if (!field || !*field || *field == '-')
    return false;
  errno = 0;
  *number = strtoull(field, &end, base);
  return *end == '\0' && errno == 0 && *number <= most;
}

static bool parse_print(char **at, gconv_print *print) {
  uint64_t crc32 = 0;
  print->known = parse_field(at, 10, UINT64_MAX, &print->bytes) && parse_field(at, 16, UINT32_MAX, &crc32);
  print->crc32 = (uint32_t)crc32;
  return print->known;
}

/* Parses a line into *record, whose texts are parts of the changed line. Returns false if it is no whole record. */
static bool parse_line(char *line, note *record) {
  bool whole = parse_print(&line, &record->result) && parse_print(&line, &record->input) &&
               parse_field(&line, 16, UINT64_MAX, &record->job) && cut_field(&line);
  record->path = whole ? cut_field(&line) : NULL;
  record->relative = whole ? cut_field(&line) : NULL;
  return record->path && record->relative && !line;
}

/* ---- Reading ------------------------------------------------------------------------------------------------------- */

static gconv_status add_record(gconv_manifest *manifest, note record) {
  GCONV_GROW(manifest->records, manifest->count, "out of memory");
  record.path = strdup(record.path);
  record.relative = strdup(record.relative);
  manifest->records[manifest->count++] = record;
  return record.path && record.relative ? GCONV_OK : gconv_no_memory();
}

/* Reads all lines. Lines that are not whole are passed over: power may have failed while one was written. */
static gconv_status read_lines(gconv_manifest *manifest, FILE *file) {
  GCONV_FREED char *line = calloc(1, MOST_LINE);
  char *last = line + MOST_LINE - 1, *end;
  bool passing = false; /* these bytes belong to a line that is too long */
  note record;
  GCONV_NEED_MEMORY(line, "out of memory");
  while ((*last = 1) && fgets(line, MOST_LINE, file)) {
    bool is_cut = *last == '\0' && last[-1] != '\n';
    if (!is_cut && !passing && line[0] != '#' && (end = strchr(line, '\n'))) {
      *end = '\0';
      if (parse_line(line, &record))
        GCONV_TRY(add_record(manifest, record));
    }
    passing = is_cut;
  }
  return GCONV_OK;
}

static bool is_regular(int file, off_t *bytes) {
  struct stat status;
  bool known = fstat(file, &status) == 0;
  *bytes = known ? status.st_size : 0;
  return known && S_ISREG(status.st_mode);
}

static gconv_status refuse_size(const char *path) {
  return gconv_fail(GCONV_TOO_LARGE,
                    "%s: larger than the %d bytes that a manifest may have: remove it, and all results are made again", path,
                    MOST_BYTES);
}

/* Reads one manifest. Passes over a link, and anything but a readable regular file. */
static gconv_status read_manifest(gconv_manifest *manifest, const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* O_NONBLOCK: does not wait if it is a pipe */
  off_t bytes;
  FILE *stream = file >= 0 && is_regular(file, &bytes) ? fdopen(file, "r") : NULL;
  if (!stream) {
    if (file >= 0)
      close(file);
    return GCONV_OK;
  }
  gconv_status status = bytes > MOST_BYTES ? refuse_size(path) : read_lines(manifest, stream);
  fclose(stream);
  return status;
}

static gconv_status read_named(gconv_manifest *manifest, const char *name) {
  GCONV_FREED char *path = gconv_format_text("%s%s", manifest->folder, name);
  return path ? read_manifest(manifest, path) : gconv_no_memory();
}

static int compare_records(const void *a, const void *b) {
  return strcmp(((const note *)a)->path, ((const note *)b)->path);
}

static gconv_status read_all(gconv_manifest *manifest) {
  GCONV_ENDED_BY(gconv_entries_free) gconv_entries entries = {0};
  gconv_entries_read(manifest->folder, true, &entries); /* a folder that is not there yet has no entries */
  for (int i = 0; i < entries.count; i++)
    if (strncmp(entries.items[i]->d_name, NAME, strlen(NAME)) == 0)
      GCONV_TRY(read_named(manifest, entries.items[i]->d_name));
  if (manifest->count > 0)
    qsort(manifest->records, manifest->count, sizeof *manifest->records, compare_records);
  return GCONV_OK;
}

/* ---- Writing ------------------------------------------------------------------------------------------------------- */

static gconv_status complain_file(const gconv_manifest *manifest, const char *what) {
  return gconv_fail(GCONV_IO_ERROR, "%s: cannot %s: %s", manifest->path, what, strerror(errno));
}

static bool write_all(int file, const char *text, size_t size) {
  while (size > 0) {
    ssize_t count = write(file, text, size);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return false;
    text += count;
    size -= (size_t)count;
  }
  return true;
}

/* Locks the manifest, as two runs that make the same results would disturb each other. Does nothing on file systems without
 * locks. */
static gconv_status lock_file(const gconv_manifest *manifest, bool shared) {
  if (flock(manifest->file, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return GCONV_OK;
  return gconv_fail(GCONV_EXISTS,
                    "%s: another gconv is at work on these results: wait for it, or divide the work with --shard",
                    manifest->path);
}

/* Writes the heading of a new file. In an old file, ends a torn last line. */
static gconv_status begin_line(const gconv_manifest *manifest) {
  static const char heading[] = "# gconv: bytes and CRC-32 of a result, those of its input, job, version, result, input\n";
  char last;
  off_t end = lseek(manifest->file, 0, SEEK_END);
  bool torn = end > 0 && pread(manifest->file, &last, 1, end - 1) == 1 && last != '\n';
  bool written =
      end == 0 ? write_all(manifest->file, heading, strlen(heading)) : !torn || write_all(manifest->file, "\n", 1);
  return written ? GCONV_OK : complain_file(manifest, "write");
}

static gconv_status open_own(gconv_manifest *manifest, bool shared) {
  GCONV_TRY(gconv_make_folders(manifest->path, 0777));
  int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  off_t bytes;
  manifest->file = open(manifest->path, flags, 0666);
  const char *trouble = manifest->file < 0 ? (errno == ELOOP ? "is a link" : strerror(errno)) : NULL;
  if (!trouble && !is_regular(manifest->file, &bytes))
    trouble = "is no file";
  if (trouble)
    return gconv_fail(GCONV_IO_ERROR,
                      "%s: cannot open: %s: make it a file that can be written, or remove it, and all results are made "
                      "again",
                      manifest->path, trouble);
  GCONV_TRY(lock_file(manifest, shared));
  return begin_line(manifest);
}

/* ---- The manifest ----------------------------------------------------------------------------------------------------- */

/* Sets the folder of all results, and the path of the manifest to which this run appends. */
static gconv_status name_files(gconv_manifest *manifest, const gconv_outputs *outputs, const gconv_shard *shard) {
  manifest->folder = strdup(outputs->folder);
  GCONV_NEED_MEMORY(manifest->folder, "out of memory");
  manifest->path = shard->count ? gconv_format_text("%s" NAME "-%d-of-%d", manifest->folder, shard->number, shard->count)
                                : gconv_format_text("%s" NAME, manifest->folder);
  return manifest->path ? GCONV_OK : gconv_no_memory();
}

static gconv_status open_all(gconv_manifest *manifest, const gconv_outputs *outputs, const gconv_shard *shard,
                             size_t *removed) {
  GCONV_TRY(name_files(manifest, outputs, shard));
  if (removed) {
    GCONV_TRY(open_own(manifest, false));
    GCONV_TRY(gconv_remove_leftovers(outputs->paths.items, outputs->paths.count, SIZE_MAX, removed));
  }
  return read_all(manifest);
}

static gconv_status open_record(gconv_manifest *manifest, const gconv_outputs *outputs) {
  const gconv_shard all = {0};
  GCONV_TRY(name_files(manifest, outputs, &all));
  return open_own(manifest, true);
}

static gconv_manifest *create(uint64_t job) {
  gconv_manifest *manifest = calloc(1, sizeof *manifest);
  if (manifest)
    *manifest = (gconv_manifest){.job = job, .file = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
  return manifest;
}

/* Hands the manifest over if `status` is GCONV_OK, and closes it otherwise. */
static gconv_status hand_over(gconv_manifest *manifest, gconv_status status, gconv_manifest **result) {
  if (status == GCONV_OK)
    *result = manifest;
  else
    gconv_manifest_close(manifest);
  return status;
}

gconv_status gconv_manifest_open_record(const gconv_outputs *outputs, gconv_manifest **result) {
  gconv_manifest *manifest = create(0);
  return manifest ? hand_over(manifest, open_record(manifest, outputs), result) : gconv_no_memory();
}

gconv_status gconv_manifest_open_all(const gconv_outputs *outputs, const gconv_shard *shard, uint64_t job, size_t *removed,
                                     gconv_manifest **result) {
  if (shard->count < 0 || (shard->count > 0 && (shard->number < 1 || shard->number > shard->count)))
    return gconv_fail(GCONV_BAD_ARGUMENT, "shard %d of %d: there is no such part", shard->number, shard->count);
  GCONV_TRY(gconv_check_texts(&outputs->paths, "the outputs"));
  gconv_manifest *manifest = create(job);
  return manifest ? hand_over(manifest, open_all(manifest, outputs, shard, removed), result) : gconv_no_memory();
}

gconv_status gconv_manifest_open(const gconv_outputs *outputs, const gconv_shard *shard, uint64_t job, size_t *removed,
                                 gconv_manifest **result, gconv_message *message) {
  GCONV_NEED_TOLD(message, outputs, shard, result);
  GCONV_NEED_TOLD(message, outputs->folder);
  return gconv_tell(gconv_manifest_open_all(outputs, shard, job, removed, result), message);
}

/* Compares all of a record except the result. Returns GCONV_FOUND_OTHER_RESULT if all agrees. */
static gconv_finding compare_origin(const gconv_manifest *manifest, const note *record, const char *relative,
                                    gconv_print input) {
  if (record->job != manifest->job)
    return GCONV_FOUND_OTHER_JOB;
  return strcmp(record->relative, relative) == 0 && equal(record->input, input) ? GCONV_FOUND_OTHER_RESULT
                                                                                : GCONV_FOUND_OTHER_INPUT;
}

/* Returns whether `record` belongs to this escaped path. `record` may point to the end of the records. */
static bool is_of(const gconv_manifest *manifest, const note *record, const char *path) {
  return record < manifest->records + manifest->count && strcmp(record->path, path) == 0;
}

/* Finds the first record of an escaped path. If there is none, returns where it would be; NULL if there are no records. */
static const note *find(const gconv_manifest *manifest, const char *path) {
  const note *at = manifest->records, *end = manifest->count > 0 ? at + manifest->count : at;
  while (at < end) {
    const note *middle = at + (end - at) / 2;
    if (strcmp(middle->path, path) < 0)
      at = middle + 1;
    else
      end = middle;
  }
  return at;
}

/* Returns the name of a result as in the records: relative to the folder of the manifest, and escaped. */
static char *name_of(const gconv_manifest *manifest, const char *path) {
  return escaped(path + strlen(manifest->folder));
}

/* Looks up the records of a result. Several runs may have added one. The result is done if one record agrees. */
static gconv_finding look_up(const gconv_manifest *manifest, const char *path, const char *name, const char *relative,
                             gconv_print input) {
  gconv_finding best = GCONV_FOUND_NEW;
  gconv_print result = {0};
  for (const note *at = find(manifest, name); at && is_of(manifest, at, name); at++) {
    gconv_finding found = compare_origin(manifest, at, relative, input);
    if (found == GCONV_FOUND_OTHER_RESULT && best != GCONV_FOUND_OTHER_RESULT)
      result = gconv_print_of(path);
    if (found == GCONV_FOUND_OTHER_RESULT && equal(at->result, result))
      return GCONV_FOUND_DONE;
    best = found > best ? found : best;
  }
  return best;
}

gconv_finding gconv_manifest_look_up(const gconv_manifest *manifest, const char *path, const char *relative,
                                     gconv_print input) {
  GCONV_FREED char *name = name_of(manifest, path), *source = escaped(relative);
  return name && source ? look_up(manifest, path, name, source, input) : GCONV_FOUND_NEW;
}

bool gconv_manifest_knows(const gconv_manifest *manifest, const char *path) {
  GCONV_FREED char *name = name_of(manifest, path);
  gconv_print print = {0};
  bool knows = false;
  for (const note *at = name ? find(manifest, name) : NULL; at && is_of(manifest, at, name); at++) {
    if (!print.known)
      print = gconv_print_of(path);
    knows |= equal(at->result, print);
  }
  return knows;
}

gconv_finding gconv_manifest_find(const gconv_manifest *manifest, const char *path, const gconv_input *input) {
  if (!manifest || !path || !input || !input->relative || !input->file ||
      strncmp(path, manifest->folder, strlen(manifest->folder)) != 0)
    return GCONV_FOUND_NEW;
  return gconv_manifest_look_up(manifest, path, input->relative, gconv_print_of(input->file));
}

/* Makes the line of a result. For free(); NULL without memory. */
static char *make_line(const gconv_manifest *manifest, const char *path, gconv_print result, const char *relative,
                       gconv_print input) {
  GCONV_FREED char *name = name_of(manifest, path), *source = escaped(relative);
  return name && source
             ? gconv_format_text("%" PRIu64 "\t%08" PRIx32 "\t%" PRIu64 "\t%08" PRIx32 "\t%016" PRIx64 "\t%s\t%s\t%s\n",
                                 result.bytes, result.crc32, input.bytes, input.crc32, manifest->job, gconv_version(), name,
                                 source)
             : NULL;
}

gconv_status gconv_manifest_add(gconv_manifest *manifest, const char *path, const char *relative, gconv_print input) {
  if (!input.known) /* a pipe, whose content the next run cannot compare */
    return GCONV_OK;
  gconv_print result = gconv_print_of(path);
  if (!result.known) /* a pipe, or a file that was removed */
    return GCONV_OK;
  GCONV_FREED char *line = make_line(manifest, path, result, relative, input);
  gconv_status status = GCONV_OK;
  GCONV_NEED_MEMORY(line, "out of memory");
  pthread_mutex_lock(&manifest->lock);
  if (manifest->file >= 0 && !write_all(manifest->file, line, strlen(line))) {
    status = complain_file(manifest, "write");
    close(manifest->file);
    manifest->file = -1;
  }
  pthread_mutex_unlock(&manifest->lock);
  return status;
}

void gconv_manifest_close(gconv_manifest *manifest) {
  if (!manifest)
    return;
  for (size_t i = 0; i < manifest->count; i++) {
    free(manifest->records[i].path);
    free(manifest->records[i].relative);
  }
  if (manifest->file >= 0)
    close(manifest->file);
  free(manifest->records);
  free(manifest->folder);
  free(manifest->path);
  free(manifest);
}
