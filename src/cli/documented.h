/* SPDX-License-Identifier: MIT */
/* What gconv knows of its documentation: words that have a meaning there, headings, and the algorithms of GPUs. CMake makes
 * the tables of docs/ (CMakeLists.txt). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The words of row `index`, with commas between, such as "strip, band"; NULL past the end. */
const char *gconv_documented_words_at(size_t index);

/* Each prints what it knows of the word, and returns whether it knew anything. Case does not matter. */
bool gconv_documented_print_meaning(const char *word);
/* From tables of the documentation. */
bool gconv_documented_print_name(const char *word);
/* The places of the documentation with the word, or its plural, in their headings. */
bool gconv_documented_print_places(const char *word);
/* An algorithm of GPUs, if this build has none. */
bool gconv_documented_print_algorithm(const char *word);

/* Returns why an algorithm of the documentation is not in this build; NULL for all other words. */
const char *gconv_documented_lack(const char *algorithm);
