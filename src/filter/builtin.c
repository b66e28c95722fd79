/* SPDX-License-Identifier: MIT */
/* The table of built-in filters, and the parsing of their parameters. */
#include "filter/builtin.h"
#include "base/suggest.h"
#include "filter/number.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const gconv_builtin *const builtins[] = {
#define BUILTIN(name) &gconv_builtin_##name,
#include "filter/builtins.def"
#undef BUILTIN
};
enum { BUILTINS = sizeof builtins / sizeof *builtins, TEXT_BYTES = 128 };

/* ---- The public list ---- */

static gconv_builtin_info infos[BUILTINS];
static char parameter_texts[BUILTINS][TEXT_BYTES];
static pthread_once_t infos_once = PTHREAD_ONCE_INIT;

static void make_infos(void) {
  for (size_t i = 0; i < BUILTINS; i++) {
    size_t used = 0;
    for (const gconv_parameter *p = builtins[i]->parameters; p->name && used < TEXT_BYTES; p++)
      used +=
          (size_t)snprintf(parameter_texts[i] + used, TEXT_BYTES - used, "%s%s=%s", used ? "," : "", p->name, p->standard);
    infos[i] = (gconv_builtin_info){builtins[i]->name, parameter_texts[i], builtins[i]->help, builtins[i]->also};
  }
}

const gconv_builtin_info *gconv_builtin_at(size_t index) {
  pthread_once(&infos_once, make_infos);
  return index < BUILTINS ? &infos[index] : NULL;
}

const gconv_builtin *gconv_builtin_find(const char *spec) {
  size_t length = strcspn(spec, ":");
  for (size_t i = 0; i < BUILTINS; i++)
    if (strlen(builtins[i]->name) == length && memcmp(builtins[i]->name, spec, length) == 0)
      return builtins[i];
  return NULL;
}

/* Returns the next letter in lower case, and moves *at past it. Skips '_' and '-'. Returns 0 at the end of a name. */
static int next_letter(const char **at) {
  while (**at == '_' || **at == '-')
    (*at)++;
  return **at == ':' || **at == ' ' || **at == '\0' ? 0 : tolower((unsigned char)*(*at)++);
}

static bool are_alike(const char *a, const char *b) {
  int letter;
  do
    if ((letter = next_letter(&a)) != next_letter(&b))
      return false;
  while (letter != 0);
  return *a != ' '; /* blanks separate the names in `also`, and are in no spec */
}

static bool is_like_any(const char *spec, const char *names) {
  for (; names && *names; names += strcspn(names, " "), names += strspn(names, " "))
    if (are_alike(spec, names))
      return true;
  return false;
}

const gconv_builtin *gconv_builtin_find_like(const char *spec) {
  for (size_t i = 0; i < BUILTINS; i++)
    if (is_like_any(spec, builtins[i]->name) || is_like_any(spec, builtins[i]->also))
      return builtins[i];
  return NULL;
}

const char *gconv_builtin_parameters(const char *name) {
  const gconv_builtin_info *info;
  for (size_t i = 0; (info = gconv_builtin_at(i)); i++)
    if (strcmp(info->name, name) == 0)
      return info->parameters;
  return "";
}

/* ---- Arguments: "size=9,sigma=2" ---- */

/* A part of a spec. */
typedef struct piece {
  const char *begin, *end;
} piece;

static int length_of(piece p) {
  return (int)(p.end - p.begin);
}

static piece trim(piece p) {
  while (p.begin < p.end && (*p.begin == ' ' || *p.begin == '\t'))
    p.begin++;
  while (p.end > p.begin && (p.end[-1] == ' ' || p.end[-1] == '\t'))
    p.end--;
  return p;
}

static bool is_word(piece p, const char *word, size_t length) {
  return (size_t)length_of(p) == length && memcmp(p.begin, word, length) == 0;
}

/* Returns the number of the piece, or 0 if it is not a number of up to 9 digits. */
static int32_t read_side(piece p) {
  int32_t value;
  return p.end - p.begin <= 9 && gconv_count_read(p.begin, p.end, &value) ? value : 0;
}

static gconv_status read_size(const gconv_builtin *builtin, const gconv_parameter *p, piece value, gconv_argument *to) {
  to->rows = to->columns = 0;
  if (p->min == 0 && is_word(value, "auto", 4))
    return GCONV_OK;
  const char *x = memchr(value.begin, 'x', (size_t)length_of(value));
  to->rows = read_side((piece){value.begin, x ? x : value.end});
  to->columns = x ? read_side((piece){x + 1, value.end}) : to->rows;
  if (to->rows < 1 || to->columns < 1 || to->rows > p->max || to->columns > p->max)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s:%s=%.*s: a size is a number from 1 to %.0f, or two, rows x columns, such as 3x5%s", builtin->name,
                      p->name, length_of(value), value.begin, p->max, p->min == 0 ? ", or auto" : "");
  return GCONV_OK;
}

static gconv_status read_number(const gconv_builtin *builtin, const gconv_parameter *p, piece value, double *number) {
  const char *wrong = gconv_number_read(value.begin, value.end, number);
  if (wrong)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s:%s=%.*s: '%.*s' %s", builtin->name, p->name, length_of(value), value.begin,
                      length_of(value), value.begin, wrong);
  if (!(*number >= p->min && *number <= p->max))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s:%s=%.*s: %s goes from %g to %g", builtin->name, p->name, length_of(value),
                      value.begin, p->name, p->min, p->max);
  return GCONV_OK;
}

/* Reads one number, or two with an x between them. */
static gconv_status read_pair(const gconv_builtin *builtin, const gconv_parameter *p, piece value, gconv_argument *to) {
  const char *begin = value.begin + (length_of(value) > 2 && strncmp(value.begin, "0x", 2) == 0 ? 2 : 0); /* hexadecimal */
  const char *x = memchr(begin, 'x', (size_t)(value.end - begin));
  if (x && memchr(x + 1, 'x', (size_t)(value.end - x - 1)))
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s:%s=%.*s: three numbers are for volumes, along z, y and x: gconv volume INPUT -f ... -o OUTPUT",
                      builtin->name, p->name, length_of(value), value.begin);
  GCONV_TRY(read_number(builtin, p, (piece){value.begin, x ? x : value.end}, &to->number));
  to->across = to->number;
  return x ? read_number(builtin, p, (piece){x + 1, value.end}, &to->across) : GCONV_OK;
}

static gconv_status read_choice(const gconv_builtin *builtin, const gconv_parameter *p, piece value, gconv_argument *to) {
  const char *word = p->choices;
  for (to->choice = 0; *word; to->choice++) {
    size_t length = strcspn(word, " ");
    if (is_word(value, word, length))
      return GCONV_OK;
    word += length + strspn(word + length, " ");
  }
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s:%s=%.*s: %s is one of: %s", builtin->name, p->name, length_of(value),
                    value.begin, p->name, p->choices);
}

static gconv_status read_value(const gconv_builtin *builtin, const gconv_parameter *p, piece value, gconv_argument *to) {
  return p->kind == GCONV_PARAMETER_SIZE     ? read_size(builtin, p, value, to)
         : p->kind == GCONV_PARAMETER_PAIR   ? read_pair(builtin, p, value, to)
         : p->kind == GCONV_PARAMETER_NUMBER ? read_number(builtin, p, value, &to->number)
                                             : read_choice(builtin, p, value, to);
}

static gconv_status fail_unknown_parameter(const gconv_builtin *builtin, piece name) {
  char word[64];
  snprintf(word, sizeof word, "%.*s", length_of(name), name.begin);
  if (gconv_find_word("usm unsharp sharpen", ' ', builtin->name, strlen(builtin->name)) && strcmp(word, "threshold") == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s has no threshold: with one it is no convolution. ImageMagick's `-unsharp 0x2+1.5+0.02` and `vips "
                      "sharpen` have it; usm:sigma=2,amount=1.5 is the mask without",
                      builtin->name);
  if (strcmp(builtin->name, "unsharp") == 0)
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "unsharp has no parameter '%s': it is fspecial's, with alpha=0.2; the unsharp mask of photo editors is "
        "usm:sigma=2,amount=1.5",
        word);
  gconv_suggestion best = {0};
  for (const gconv_parameter *p = builtin->parameters; p->name; p++)
    gconv_suggest(&best, word, p->name);
  const char *parameters = gconv_builtin_parameters(builtin->name);
  if (!*parameters)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has no parameter '%s', nor any other", builtin->name, word);
  if (best.name[0])
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s has no parameter '%s'; did you mean '%s'? Its parameters and their defaults: %s", builtin->name,
                      word, best.name, parameters);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s has no parameter '%s'; its parameters and their defaults: %s", builtin->name,
                    word, parameters);
}

/* Reads one "name=value"; or "value", if the filter has only one parameter. */
static gconv_status read_argument(const gconv_builtin *builtin, piece text, gconv_argument *arguments) {
  const char *equals = memchr(text.begin, '=', (size_t)length_of(text));
  if (!equals && builtin->parameters[0].name && !builtin->parameters[1].name && !arguments[0].given) {
    arguments[0].given = true;
    return read_value(builtin, &builtin->parameters[0], text, &arguments[0]);
  }
  if (!equals) {
    const char *parameters = gconv_builtin_parameters(builtin->name);
    if (!*parameters)
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s has no parameters: '%.*s' is too much", builtin->name, length_of(text),
                        text.begin);
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "%s: '%.*s' is not of the form name=value, such as %s=%s; parameters and their defaults: %s",
                      builtin->name, length_of(text), text.begin, builtin->parameters[0].name,
                      builtin->parameters[0].standard, parameters);
  }
  piece name = trim((piece){text.begin, equals}), value = trim((piece){equals + 1, text.end});
  const bool wide = is_word(name, "fwhm", 4); /* of astronomers: the width of a Gaussian at half of its height */
  const bool radius = is_word(name, "radius", 6) && strcmp(builtin->name, "usm") == 0; /* of photo editors */
  for (size_t i = 0; builtin->parameters[i].name; i++) {
    const gconv_parameter *p = &builtin->parameters[i];
    const bool of_sigma = strcmp(p->name, "sigma") == 0, fwhm = wide && of_sigma;
    if (!is_word(name, p->name, strlen(p->name)) && !fwhm && !(radius && of_sigma))
      continue;
    if (arguments[i].given)
      return gconv_fail(GCONV_BAD_ARGUMENT, "%s: %s is given twice", builtin->name, p->name);
    arguments[i].given = true;
    GCONV_TRY(read_value(builtin, p, value, &arguments[i]));
    arguments[i].number /= fwhm ? 2 * sqrt(2 * log(2)) : 1;
    arguments[i].across /= fwhm ? 2 * sqrt(2 * log(2)) : 1;
    return GCONV_OK;
  }
  return fail_unknown_parameter(builtin, name);
}

static gconv_status read_arguments(const gconv_builtin *builtin, const char *spec, gconv_argument *arguments) {
  for (size_t i = 0; builtin->parameters[i].name; i++) {
    const char *standard = builtin->parameters[i].standard;
    GCONV_TRY(read_value(builtin, &builtin->parameters[i], (piece){standard, standard + strlen(standard)}, &arguments[i]));
  }
  const char *at = spec + strcspn(spec, ":");
  if (*at == ':' && at[1] == '\0') /* "sobel:" names the filter even if there is a file "sobel" */
    return GCONV_OK;
  while (*at) {
    at++; /* the ':' or ',' */
    const char *end = at + strcspn(at, ",");
    GCONV_TRY(read_argument(builtin, trim((piece){at, end}), arguments));
    at = end;
  }
  return GCONV_OK;
}

/* Makes a name that can be part of a file name: "gaussian:size=9,sigma=1/2" becomes "gaussian_size9_sigma1-2". */
static void make_name(const char *spec, char *name) {
  for (; *spec; spec++)
    if (!strchr(" \t=", *spec))
      *name++ = strchr(":,", *spec) ? '_' : *spec == '/' ? '-' : *spec;
  *name = '\0';
}

static const gconv_argument *argument_of(const gconv_builtin *builtin, const gconv_argument *arguments, const char *name,
                                         const gconv_parameter **parameter) {
  for (size_t i = 0; builtin->parameters[i].name; i++)
    if (strcmp(builtin->parameters[i].name, name) == 0) {
      *parameter = &builtin->parameters[i];
      return &arguments[i];
    }
  return NULL;
}

/* Warns if a large size is given without a sigma: sigma then is the default of fspecial, which is small. */
static void warn_of_sigma(const gconv_builtin *builtin, const gconv_argument *arguments) {
  const gconv_parameter *p = NULL, *of_size = NULL;
  const gconv_argument *size = argument_of(builtin, arguments, "size", &of_size);
  const gconv_argument *sigma = argument_of(builtin, arguments, "sigma", &p);
  if (!size || !sigma || !size->given || sigma->given || size->rows == 0)
    return;
  int32_t side = size->rows > size->columns ? size->rows : size->columns;
  if (side > gconv_side_of_sigma(sigma->number))
    gconv_warn_once("sigma",
                    "%s: sigma is %s, the default whatever the size, so that most of the %d x %d taps are about 0: "
                    "sigma=%.2g fills them",
                    builtin->name, p->standard, size->rows, size->columns, (side - 1) / 6.0);
}

gconv_status gconv_builtin_make(const gconv_builtin *builtin, const char *spec, gconv_filters *list) {
  gconv_argument arguments[GCONV_PARAMETERS] = {{0}};
  size_t first = list->count;
  char name[256 + 32], full[256 + 32]; /* `full`: the spec with the built-in filter's own name */
  snprintf(full, sizeof full, "%s%s", builtin->name, spec + strcspn(spec, ":"));
  if (strlen(spec) >= 256)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: has more than %zu characters of parameters", builtin->name, (size_t)255);
  gconv_status status = read_arguments(builtin, spec, arguments);
  GCONV_THEN(status, builtin->make(builtin, arguments, list));
  if (status == GCONV_OK)
    warn_of_sigma(builtin, arguments);
  if (full[strlen(full) - 1] == ':')
    full[strlen(full) - 1] = '\0';
  make_name(full, name);
  GCONV_THEN(status, gconv_filters_name(list, first, name));
  list->gradient = builtin->gradient && first == 0;
  if (status != GCONV_OK)
    gconv_filters_truncate(list, first);
  return status;
}
