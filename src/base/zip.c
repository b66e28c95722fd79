/* SPDX-License-Identifier: MIT */
#include "base/zip.h"
#include "base/checksum.h"
#include "base/element.h"
#include "base/ending.h"
#include "base/foreign_model.h"
#include "base/memory.h"
#include "base/suggest.h"

#include <string.h>
#include <zlib.h>

enum {
  END_BYTES = 22,            /* the record at the end; a comment may follow */
  MOST_COMMENT = UINT16_MAX, /* the most bytes of this comment */
  LOCATOR_BYTES = 20,        /* the locator of zip64, before the record at the end */
  END64_BYTES = 56,          /* the record of zip64, to which the locator points */
  ENTRY_BYTES = 46,          /* an entry of the directory, before its name, extra fields and comment */
  LOCAL_BYTES = 30,          /* the header before a member, before its name and extra fields */
  EXTRA64 = 1,               /* the number of zip64's extra field */
  MOST_DIRECTORY = 64 << 20,
  MOST_DEFLATED = 1032, /* the most bytes that deflate makes of one; an archive that promises more is damaged */
  INPUT_BYTES = 32768,  /* bytes of a member that are inflated at a time */
  LISTED = 12           /* the most names in an error text */
};

static uint64_t number(const uint8_t *bytes, size_t count) {
  return gconv_bytes_number(bytes, count, false);
}

static bool has_magic(const uint8_t *bytes, char a, char b) {
  return bytes[0] == 'P' && bytes[1] == 'K' && bytes[2] == a && bytes[3] == b;
}

bool gconv_zip_sniff(const uint8_t *bytes, size_t size) {
  return size >= 4 && (has_magic(bytes, 3, 4) || has_magic(bytes, 5, 6)); /* the second begins an empty archive */
}

static gconv_status fail_damaged(const gconv_source *archive, const char *what) {
  return gconv_fail(GCONV_BAD_FILE, "%s: not a whole zip archive: %s", archive->name, what);
}

static gconv_status read_at(gconv_source *archive, uint64_t position, void *bytes, size_t count, const char *what) {
  if (position > archive->size || archive->size - position < count)
    return fail_damaged(archive, what);
  GCONV_TRY(gconv_source_rewind(archive, position));
  return gconv_source_read_exactly(archive, bytes, count, what);
}

/* ---- The directory ---- */

/* Where the directory is. */
typedef struct place {
  uint64_t count, size, offset;
} place;

/* If there is a record of zip64, replaces the numbers of the record at `end` by its larger ones. */
static gconv_status find_place64(gconv_source *archive, uint64_t end, place *found) {
  uint8_t locator[LOCATOR_BYTES], record[END64_BYTES];
  if (end < LOCATOR_BYTES)
    return GCONV_OK;
  GCONV_TRY(read_at(archive, end - LOCATOR_BYTES, locator, sizeof locator, "its end is missing"));
  if (!has_magic(locator, 6, 7))
    return GCONV_OK;
  GCONV_TRY(read_at(archive, number(locator + 8, 8), record, sizeof record, "the end of its directory is missing"));
  if (!has_magic(record, 6, 6))
    return fail_damaged(archive, "the end of its directory is missing");
  *found = (place){number(record + 32, 8), number(record + 40, 8), number(record + 48, 8)};
  return GCONV_OK;
}

/* Finds the record at the end of the archive. A comment may follow it. */
static gconv_status find_place(gconv_source *archive, place *found) {
  size_t tail = archive->size < END_BYTES + MOST_COMMENT ? (size_t)archive->size : END_BYTES + MOST_COMMENT;
  GCONV_FREED uint8_t *bytes = NULL;
  GCONV_ALLOCATE(bytes, tail, "the end of an archive");
  GCONV_TRY(read_at(archive, archive->size - tail, bytes, tail, "its end is missing"));
  size_t at = tail < END_BYTES ? 0 : tail - END_BYTES + 1;
  while (at > 0 && !has_magic(bytes + at - 1, 5, 6))
    at--;
  if (at == 0)
    return fail_damaged(archive, "its directory is missing: the file may have been cut");
  const uint8_t *end = bytes + at - 1;
  *found = (place){number(end + 10, 2), number(end + 12, 4), number(end + 16, 4)};
  return find_place64(archive, archive->size - tail + at - 1, found);
}

/* Reads the numbers that did not fit into an entry from its extra field of zip64, which has them in the order of `wide`. */
static bool take_extra64(const uint8_t *extra, size_t size, gconv_zip_member *member) {
  uint64_t *const wide[] = {&member->size, &member->stored_size, &member->offset};
  for (size_t at = 0; at + 4 <= size; at += 4 + (size_t)number(extra + at + 2, 2)) {
    size_t length = (size_t)number(extra + at + 2, 2), used = 0;
    if (length > size - at - 4)
      return false;
    if (number(extra + at, 2) != EXTRA64)
      continue;
    for (int i = 0; i < 3; i++)
      if (*wide[i] == UINT32_MAX) {
        if (used + 8 > length)
          return false;
        *wide[i] = number(extra + at + 4 + used, 8);
        used += 8;
      }
  }
  return true;
}

static char *printable(const uint8_t *text, size_t length) {
  char *copy = malloc(length + 1);
  for (size_t i = 0; copy && i < length; i++)
    copy[i] = text[i] < ' ' || text[i] == 127 ? '?' : (char)text[i];
  if (copy)
    copy[length] = '\0';
  return copy;
}

/* Parses the entry at *at, and moves *at past it. */
static gconv_status parse_entry(const gconv_source *archive, const uint8_t **at, const uint8_t *end,
                                gconv_zip_member *member) {
  const uint8_t *e = *at;
  if (end - e < ENTRY_BYTES || !has_magic(e, 1, 2))
    return fail_damaged(archive, "its directory is damaged");
  size_t name = (size_t)number(e + 28, 2), extra = (size_t)number(e + 30, 2), comment = (size_t)number(e + 32, 2);
  if ((size_t)(end - e) < ENTRY_BYTES + name + extra + comment)
    return fail_damaged(archive, "its directory is damaged");
  *member = (gconv_zip_member){.name = printable(e + ENTRY_BYTES, name),
                               .offset = number(e + 42, 4),
                               .stored_size = number(e + 20, 4),
                               .size = number(e + 24, 4),
                               .crc32 = (uint32_t)number(e + 16, 4),
                               .method = (uint16_t)number(e + 10, 2),
                               .encrypted = e[8] & 1};
  *at = e + ENTRY_BYTES + name + extra + comment;
  GCONV_NEED_MEMORY(member->name, "%s: no memory for its directory", archive->name);
  if (!take_extra64(e + ENTRY_BYTES + name, extra, member))
    return fail_damaged(archive, "its directory is damaged");
  return GCONV_OK;
}

static gconv_status parse_directory(const gconv_source *archive, const uint8_t *bytes, size_t size, size_t count,
                                    gconv_zip *zip) {
  GCONV_NEW(zip->members, count + 1, "%s: no memory for its directory", archive->name);
  const uint8_t *at = bytes;
  uint64_t left = archive->size;
  for (const gconv_zip_member *member; zip->count < count;) {
    member = &zip->members[zip->count];
    GCONV_TRY(parse_entry(archive, &at, bytes + size, &zip->members[zip->count++]));
    if (left < LOCAL_BYTES || left - LOCAL_BYTES < member->stored_size) /* else few bytes could be read many times */
      return fail_damaged(archive, "its members are larger together than the archive");
    left -= LOCAL_BYTES + member->stored_size;
  }
  return GCONV_OK;
}

gconv_status gconv_refuse_torch(const char *spec) {
  int length = (int)gconv_member_split(spec);
  const char *slash = memrchr(spec, '/', (size_t)length), *name = slash ? slash + 1 : spec;
  int stem = (int)(spec + length - name);
  const char *dot = memrchr(name, '.', (size_t)stem);
  return gconv_fail(GCONV_UNSUPPORTED,
                    "%.*s: is a file of torch.save(), which has to be run to be read: write the weights with safetensors, "
                    "python3 -c \"import torch; from safetensors.torch import save_file; save_file(torch.load('%.*s', "
                    "weights_only=True), '%.*s.safetensors')\"; if it is a whole model, save model.state_dict() so, or the "
                    "model with torch.onnx.export(model, (torch.zeros(1, 3, 256, 256),), 'model.onnx')",
                    length, spec, stem, name, dot ? (int)(dot - name) : stem, name);
}

/* Refuses files of torch.save(), and models of other programs. They are archives without arrays: they hold a program that
 * makes tensors from the other members. */
static gconv_status refuse_pickles(const gconv_source *archive, const gconv_zip *zip) {
  bool saved = false, script = false;
  GCONV_TRY(gconv_refuse_foreign_model(archive->name));
  for (size_t i = 0; i < zip->count; i++) {
    saved = saved || gconv_ends_in(zip->members[i].name, "/data.pkl");
    script = script || strstr(zip->members[i].name, "/code/");
  }
  return saved && script ? gconv_refuse_torchscript(archive->name) : saved ? gconv_refuse_torch(archive->name) : GCONV_OK;
}

gconv_status gconv_zip_read(gconv_source *archive, gconv_zip *zip) {
  place directory = {0};
  *zip = (gconv_zip){0};
  if (!gconv_source_can_rewind(archive))
    return gconv_fail(GCONV_UNSUPPORTED, "%s: a zip archive cannot be read from a pipe: save it to a file", archive->name);
  GCONV_TRY(find_place(archive, &directory));
  if (directory.size > MOST_DIRECTORY)
    return gconv_fail(GCONV_TOO_LARGE, "%s: the directory of this zip archive claims %llu bytes; the limit is %d",
                      archive->name, (unsigned long long)directory.size, MOST_DIRECTORY);
  if (directory.count > directory.size / ENTRY_BYTES)
    return fail_damaged(archive, "its directory is damaged");
  GCONV_FREED uint8_t *bytes = NULL;
  GCONV_ALLOCATE(bytes, (size_t)directory.size + 1, "the directory of an archive");
  GCONV_TRY(read_at(archive, directory.offset, bytes, (size_t)directory.size, "its directory is cut"));
  GCONV_TRY(parse_directory(archive, bytes, (size_t)directory.size, (size_t)directory.count, zip));
  return refuse_pickles(archive, zip);
}

void gconv_zip_free(gconv_zip *zip) {
  for (size_t i = 0; i < zip->count; i++)
    free(zip->members[i].name);
  free(zip->members);
  *zip = (gconv_zip){0};
}

/* ---- A member ---- */

/* A member being read. */
typedef struct unpacking {
  gconv_source *archive;
  const char *name;
  z_stream inflater; /* for deflated members */
  bool deflated, ended;
  uint64_t stored_left, left; /* bytes that are left in the archive, and of the content */
  uint32_t crc32, expected;
  uint8_t input[INPUT_BYTES];
} unpacking;

static gconv_status fail_content(const unpacking *u, const char *what) {
  return gconv_fail(GCONV_BAD_FILE, "%s: its bytes in the archive are damaged: %s", u->name, what);
}

/* Reads up to `wanted` stored bytes. */
static gconv_status read_stored(unpacking *u, void *bytes, size_t wanted, size_t *got) {
  size_t some = wanted < u->stored_left ? wanted : (size_t)u->stored_left;
  GCONV_TRY(gconv_source_read_exactly(u->archive, bytes, some, "a member of the archive"));
  u->stored_left -= some;
  *got = some;
  return GCONV_OK;
}

/* Inflates up to `wanted` bytes, as far as the input goes. */
static gconv_status inflate_some(unpacking *u, uint8_t *bytes, size_t wanted, size_t *got) {
  size_t input;
  z_stream *z = &u->inflater;
  z->next_out = bytes;
  z->avail_out = wanted < UINT32_MAX ? (uInt)wanted : UINT32_MAX;
  uInt before = z->avail_out;
  while (z->avail_out == before && !u->ended) {
    if (z->avail_in == 0) {
      GCONV_TRY(read_stored(u, u->input, sizeof u->input, &input));
      z->next_in = u->input;
      z->avail_in = (uInt)input;
    }
    bool starved = z->avail_in == 0;
    int result = inflate(z, Z_NO_FLUSH);
    u->ended = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR)
      return gconv_fail(GCONV_NO_MEMORY, "%s: no memory to inflate it", u->name);
    if ((result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) ||
        (starved && z->avail_out == before && !u->ended))
      return fail_content(u, z->msg ? z->msg : "they end too early");
  }
  *got = before - z->avail_out;
  return GCONV_OK;
}

/* The function fill() of a member's source. After the last byte, checks the checksum. */
static gconv_status fill(void *state, void *bytes, size_t size, size_t *got) {
  unpacking *u = state;
  size_t wanted = size < u->left ? size : (size_t)u->left;
  *got = 0;
  if (wanted == 0)
    return GCONV_OK;
  GCONV_TRY(u->deflated ? inflate_some(u, bytes, wanted, got) : read_stored(u, bytes, wanted, got));
  if (*got == 0)
    return fail_content(u, "they are fewer than its directory says");
  u->crc32 = gconv_crc32(u->crc32, bytes, *got);
  u->left -= *got;
  return u->left == 0 && u->crc32 != u->expected ? fail_content(u, "their checksum is wrong") : GCONV_OK;
}

static void end(void *state) {
  unpacking *u = state;
  if (u->deflated)
    inflateEnd(&u->inflater);
  free(u);
}

static gconv_status check_member(const gconv_zip_member *member, const char *name) {
  if (member->encrypted)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: is encrypted: save it by numpy.savez", name);
  if (member->method != 0 && member->method != 8)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: is compressed by method %d of zip; known are stored and deflate: save it by "
                      "numpy.savez or savez_compressed",
                      name, member->method);
  if (member->method == 0 && member->size != member->stored_size)
    return gconv_fail(GCONV_BAD_FILE, "%s: is stored, but its two sizes differ in the archive", name);
  if (member->size / MOST_DEFLATED > member->stored_size)
    return gconv_fail(GCONV_BAD_FILE, "%s: damaged: the archive promises %llu bytes, but has only %llu compressed bytes",
                      name, (unsigned long long)member->size, (unsigned long long)member->stored_size);
  return GCONV_OK;
}

/* Moves the archive to the bytes of the member, after its local header. */
static gconv_status go_to_bytes(gconv_source *archive, const gconv_zip_member *member) {
  uint8_t local[LOCAL_BYTES];
  GCONV_TRY(read_at(archive, member->offset, local, sizeof local, "a member is missing"));
  uint64_t begin = member->offset + LOCAL_BYTES + number(local + 26, 2) + number(local + 28, 2);
  if (!has_magic(local, 3, 4) || begin > archive->size || archive->size - begin < member->stored_size)
    return fail_damaged(archive, "a member is missing");
  return gconv_source_rewind(archive, begin);
}

gconv_status gconv_zip_open_member(gconv_source *archive, const gconv_zip_member *member, const char *name,
                                   gconv_source *source) {
  *source = (gconv_source){.name = name, .file = -1};
  GCONV_TRY(check_member(member, name));
  GCONV_TRY(go_to_bytes(archive, member));
  unpacking *u;
  GCONV_NEW(u, 1, "%s: no memory to read it", name);
  u->archive = archive;
  u->name = name;
  u->stored_left = member->stored_size;
  u->left = member->size;
  u->expected = member->crc32;
  if (member->method == 8 && inflateInit2(&u->inflater, -MAX_WBITS) != Z_OK) {
    free(u);
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory to inflate it", name);
  }
  u->deflated = member->method == 8;
  return gconv_source_of_function(name, fill, end, u, source);
}

/* ---- Arrays ---- */

bool gconv_zip_is_array(const gconv_zip_member *member, size_t *length) {
  size_t whole = strlen(member->name);
  bool is = whole > 4 && strcmp(member->name + whole - 4, ".npy") == 0;
  *length = is ? whole - 4 : whole;
  return is;
}

static gconv_status fail_to_find(const gconv_source *archive, const gconv_zip *zip, const char *name, size_t arrays) {
  char list[1400] = "", plain[256];
  size_t used = 0, shown = 0, length;
  gconv_suggestion best = {0};
  for (size_t i = 0; i < zip->count; i++) {
    if (!gconv_zip_is_array(&zip->members[i], &length))
      continue;
    snprintf(plain, sizeof plain, "%.*s", (int)length, zip->members[i].name);
    if (name)
      gconv_suggest(&best, name, plain);
    if (shown++ < LISTED)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%.80s", used ? ", " : "", plain);
  }
  if (shown > LISTED)
    snprintf(list + used, sizeof list - used, " and %zu more", shown - LISTED);
  if (arrays == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: has no arrays: a zip archive, but none of numpy.savez", archive->name);
  if (!name)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has %zu arrays: say which, as '%s:NAME'; there are %s", archive->name, arrays,
                      archive->name, list);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has no array called '%s'%s%s%s are %s", archive->name, name,
                    best.name[0] ? ": did you mean '" : "", best.name, best.name[0] ? "'? There" : "; there", list);
}

gconv_status gconv_zip_find_array(const gconv_source *archive, const gconv_zip *zip, const char *name, size_t *index) {
  size_t arrays = 0, found = 0, length;
  for (size_t i = zip->count; i-- > 0;) {
    const gconv_zip_member *member = &zip->members[i];
    if (!gconv_zip_is_array(member, &length))
      continue;
    arrays++;
    bool called =
        !name || strcmp(member->name, name) == 0 || (strlen(name) == length && strncmp(member->name, name, length) == 0);
    if (called) {
      found++;
      *index = i;
    }
  }
  return found == 1 || (name && found > 0) ? GCONV_OK : fail_to_find(archive, zip, name, arrays);
}
