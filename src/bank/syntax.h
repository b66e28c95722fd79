/* SPDX-License-Identifier: MIT */
/*
 * What a syntax of bank files offers: one row in the table of syntaxes.c, one file each (text.c npy.c safetensors.c onnx.c).
 * A syntax lists what a file has, and reads one of it; choosing is the same for all (file.c).
 */
#ifndef GCONV_BANK_SYNTAX_H
#define GCONV_BANK_SYNTAX_H

#include "bank/bank.h"

typedef struct gconv_bank_syntax {
  const char *name;      /* as gconv_bank_read takes it */
  const char *help;      /* one line */
  const char *extension; /* ".safetensors" */
  /* Whether a file that begins with these bytes (4096, or all that there are) has this syntax. */
  bool (*recognise)(const uint8_t *bytes, size_t size);
  /* Reads what the file has, and adds an entry of each. On failure the caller closes. */
  gconv_status (*open)(gconv_bank_file *file);
  /* Reads an entry without obstacle into an empty bank. On failure the caller frees the bank. */
  gconv_status (*read)(gconv_bank_file *file, size_t index, gconv_bank *bank);
  /* Frees file->state; may be NULL. */
  void (*close)(gconv_bank_file *file);
  /* Writes a bank that was checked; NULL if it cannot be written. */
  gconv_status (*write)(gconv_sink *sink, const gconv_bank *bank);
} gconv_bank_syntax;

extern const gconv_bank_syntax gconv_bank_syntax_text, gconv_bank_syntax_npy, gconv_bank_syntax_safetensors,
    gconv_bank_syntax_onnx;

struct gconv_bank_file {
  gconv_source source; /* can go to any place; its size is known */
  uint8_t *content;    /* what the source is of, if that is memory of the file's own */
  char *path;          /* the name of the source */
  const char *folder;  /* `path`, if other files can be found beside it; NULL if not */
  const gconv_bank_syntax *syntax;
  gconv_bank_entry *entries;
  size_t count, capacity;
  void *state; /* of the syntax */
};

/* Opens the file at `path`; "-" is standard input. */
gconv_status gconv_bank_file_open_path(const char *path, const char *syntax, gconv_bank_file **file);

/* Opens a file whose bytes are in memory and stay the caller's; `name` is for error texts. External data are out of reach.
 */
gconv_status gconv_bank_file_open_bytes(const char *name, uint8_t *bytes, size_t size, const char *syntax,
                                        gconv_bank_file **file);

/* Adds an empty entry; it is valid until the next is added. */
gconv_status gconv_bank_file_add(gconv_bank_file *file, gconv_bank_entry **entry);

/* Why a tensor of this shape is no bank, as the end of a sentence; NULL if it is one. */
const char *gconv_bank_shape_obstacle(int32_t dimensions, const uint64_t *shape);

/* The syntax called `name`; GCONV_BAD_ARGUMENT lists those that there are. */
gconv_status gconv_bank_syntax_by_name(const char *name, const gconv_bank_syntax **syntax);

/* The syntax of a file with this name that begins with these bytes; NULL if none is recognised, and none has the extension.
 */
const gconv_bank_syntax *gconv_bank_syntax_find(const char *name, const uint8_t *bytes, size_t size);
/* The syntax that the extension of `path` names, or NULL. */
const gconv_bank_syntax *gconv_bank_syntax_by_path(const char *path);

#endif
