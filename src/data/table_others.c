/* SPDX-License-Identifier: MIT */
/* Files of other programs that gconv does not read. Their first bytes show what they are, so that errors can name them. */
#include "data/table.h"

#include <string.h>
#include <strings.h>

static const struct {
  const char *magic;
  size_t size;
  bool text; /* upper and lower case are the same */
  const char *what, *advice;
} others[] = {
#define UTF8 "save it as \"CSV UTF-8\", or convert it by iconv -f utf-16 -t utf-8"
#define FRAME "write it by DataFrame.to_csv()"
    {"\xFF\xFE\0\0", 4, false, "UTF-32", "convert it by iconv -f utf-32 -t utf-8"},
    {"\xFF\xFE", 2, false, "UTF-16, as \"Unicode Text\" of Excel is", UTF8},
    {"\xFE\xFF", 2, false, "UTF-16", UTF8},
    {"PAR1", 4, false, "a table of Parquet", FRAME},
    {"ARROW1", 6, false, "a table of Arrow or Feather", FRAME},
    {"FEA1", 4, false, "a table of Feather", FRAME},
    {"\x89HDF\r\n\x1A\n", 8, false, "a file of HDF5", "write its arrays by numpy.savez()"},
    {"MATLAB 5.0", 10, false, "a file of MATLAB", "write the matrix by writematrix(), or numpy.savez()"},
    {"SQLite format 3", 15, false, "a database of SQLite", "write the table as CSV: sqlite3 -header -csv"},
    {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", 8, false, "a workbook of Excel", "save the sheet as CSV"},
    {"\x80\x02", 2, false, "a pickle of Python, which has to be run to be read", FRAME},
    {"\x80\x03", 2, false, "a pickle of Python, which has to be run to be read", FRAME},
    {"\x80\x04", 2, false, "a pickle of Python, which has to be run to be read", FRAME},
    {"\x80\x05", 2, false, "a pickle of Python, which has to be run to be read", FRAME},
    {"RDX", 3, false, "data of R", "write them by write.csv()"},
    {"BZh", 3, false, "compressed by bzip2", "decompress it: bunzip2"},
    {"\xFD"
     "7zXZ",
     5, false, "compressed by xz", "decompress it: unxz"},
    {"\x28\xB5\x2F\xFD", 4, false, "compressed by zstd", "decompress it: unzstd"},
    {"%PDF", 4, false, "a PDF", "a table is CSV"},
    {"@relation", 9, true, "ARFF", "leave out all lines up to @data: the rest is CSV without a header"},
    {"<?xml", 5, true, "XML", "a table is CSV"},
    {"<!doctype", 9, true, "a page of HTML", "a table is CSV"},
    {"<html", 5, true, "a page of HTML", "a table is CSV"},
    {"{", 1, true, "JSON", "write it as CSV"},
    {"[{", 2, true, "JSON", "write it as CSV"},
};

gconv_status gconv_table_refuse_others(const gconv_source *source, const uint8_t *bytes, size_t size) {
  const char *text = (const char *)bytes;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (size >= others[i].size && (others[i].text ? strncasecmp(text, others[i].magic, others[i].size) == 0
                                                  : memcmp(text, others[i].magic, others[i].size) == 0))
      return gconv_fail(GCONV_UNSUPPORTED, "%s: is %s: %s", source->name, others[i].what, others[i].advice);
  return GCONV_OK;
}
