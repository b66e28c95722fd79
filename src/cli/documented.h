/* SPDX-License-Identifier: MIT */
/* Tables that CMake makes of docs/ (CMakeLists.txt): words with their meanings, headings, and the algorithms of GPUs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The words of row `index`, with commas between, such as "strip, band"; NULL past the end. */
const char *gconv_documented_words_at(size_t index);

/* These functions print what a table has on the word, and return whether there was anything. Case does not matter. */
/* Prints the meaning of a word of the glossary. */
bool gconv_documented_print_meaning(const char *word);
/* Prints the description of a name in a table of the documentation. */
bool gconv_documented_print_name(const char *word);
/* Prints the headings of the documentation with the word, or its plural. */
bool gconv_documented_print_places(const char *word);
/* Prints an algorithm of GPUs, if this build has no algorithms of GPUs. */
bool gconv_documented_print_algorithm(const char *word);

/* Returns why an algorithm of the documentation is not in this build; NULL for all other words. */
const char *gconv_documented_lack(const char *algorithm);
