/* SPDX-License-Identifier: MIT */
/* The interface of a syntax of bank files. Each syntax is one file (text.c npy.c npz.c safetensors.c onnx.c) and one row in
 * the table of syntaxes.c. A syntax lists the entries of a file, and reads one of them. Choosing an entry is the same for
 * all syntaxes (file.c). */
#pragma once

#include "bank/bank.h"
#include "base/npy_header.h"

typedef struct gconv_bank_syntax {
  const char *name;      /* as gconv_bank_read takes it */
  const char *help;      /* one line */
  const char *extension; /* ".safetensors" */
  /* Returns whether a file that begins with these bytes (4096, or the whole file) has this syntax. */
  bool (*recognise)(const uint8_t *bytes, size_t size);
  /* Reads the contents of the file, and adds an entry for each. On failure the caller closes the file. */
  gconv_status (*open)(gconv_bank_file *file);
  /* Reads an entry without obstacle into an empty bank. On failure the caller frees the bank. */
  gconv_status (*read)(gconv_bank_file *file, size_t index, gconv_bank *bank);
  /* Frees file->state; may be NULL. */
  void (*close)(gconv_bank_file *file);
  /* Writes a bank that was checked. NULL: the syntax cannot be written. */
  gconv_status (*write)(gconv_sink *sink, const gconv_bank *bank);
} gconv_bank_syntax;

extern const gconv_bank_syntax gconv_bank_syntax_text, gconv_bank_syntax_npy, gconv_bank_syntax_npz,
    gconv_bank_syntax_safetensors, gconv_bank_syntax_onnx;

struct gconv_bank_file {
  gconv_source source; /* it can seek, and its size is known */
  uint8_t *content;    /* the memory of the source, if the file owns it */
  char *path;          /* the name of the source */
  const char *folder;  /* `path`, if files beside this one can be read; else NULL */
  const gconv_bank_syntax *syntax;
  gconv_bank_entry *entries;
  size_t count;
  void *state; /* owned by the syntax */
};

/* Opens the file at `path`; "-" is standard input. */
gconv_status gconv_bank_file_open_path(const char *path, const char *syntax, gconv_bank_file **file);

/* Opens a file whose bytes are in memory and stay the caller's. `name` is for error texts. External data cannot be read. */
gconv_status gconv_bank_file_open_bytes(const char *name, uint8_t *bytes, size_t size, const char *syntax,
                                        gconv_bank_file **file);

/* Adds an empty entry. *entry is valid until the next call. */
gconv_status gconv_bank_file_add(gconv_bank_file *file, gconv_bank_entry **entry);

/* Returns why a tensor of this shape is no bank, as the end of a sentence; NULL: it is a bank. */
const char *gconv_bank_shape_obstacle(int32_t dimensions, const uint64_t *shape);

/* For arrays of NumPy: fills kind, shape, type and obstacle of an entry. */
void gconv_bank_describe_npy(const gconv_npy_header *header, gconv_bank_entry *entry);
/* For arrays of NumPy: reads the elements after the header into an empty bank. */
gconv_status gconv_bank_load_npy(gconv_source *source, const gconv_npy_header *header, gconv_bank *bank);

/* Finds the syntax called `name`. GCONV_BAD_ARGUMENT lists the known names. */
gconv_status gconv_bank_syntax_by_name(const char *name, const gconv_bank_syntax **syntax);

/* Returns the syntax of a file with this name that begins with these bytes: the syntax that recognises them, else the syntax
 * of the extension, unless that is text. NULL: there is none. */
const gconv_bank_syntax *gconv_bank_syntax_find(const char *name, const uint8_t *bytes, size_t size);
/* Returns the syntax that the extension of `path` names, or NULL. */
const gconv_bank_syntax *gconv_bank_syntax_by_path(const char *path);
