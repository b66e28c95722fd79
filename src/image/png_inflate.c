/* SPDX-License-Identifier: MIT */
/*
 * Decoding Huffman's codewords is one long chain: where one begins is known when the one before is decoded. What makes the
 * lines is bound by that, so that a second processor would be idle.
 *
 * So the compressed bytes are cut into stretches of one size. Whoever has nothing else to do takes the next stretch, finds
 * the first block that begins in it, and inflates from there to the first block that begins in the next one, with markers
 * for what it cannot know, as rapidgzip and pugz do. The thread that makes the lines, here called the front, walks through
 * all stretches in order. Where it comes to the bit at which somebody began, it takes over their bytes, their place and
 * their state, after it has replaced the markers: from there on it is as if it had inflated them itself. Where it does not,
 * their work was in vain, or is still of use at a later block; nothing depends on it.
 */
#include "image/png_inflate.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "image/png_chunks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
#ifndef GCONV_SMALL_PIECES
  STRETCH = 256 * 1024,     /* compressed bytes */
  OVERLAP = 64 * 1024,      /* of the next stretch, that a stretch has too: for a block that it has begun */
  SEARCHED = 96 * 1024,     /* bytes in which a block is looked for */
  MOST_AHEAD = 1024 * 1024, /* symbols of a stretch, inflated ahead: where there are more, other things take the time */
  MOST_IN_VAIN = 4,         /* stretches, more than were of use: then nobody helps any more */
#else                       /* tests, which small files lead through all of this */
  STRETCH = 1024,
  OVERLAP = 1024,
  SEARCHED = 1024,
  MOST_AHEAD = 4096,
  MOST_IN_VAIN = INT32_MAX,
#endif
  KNOWN = 256, /* symbols below are bytes, those from here on are places in the window */
  WINDOW = GCONV_INFLATE_WINDOW,
  NARROWED = 16, /* symbols at a time */
};

typedef struct stretch {
  uint8_t *input;
  size_t size; /* with the overlap */
  bool last;   /* no more bytes follow */

  /* What a helper found: its own until `done`. */
  gconv_inflater inflater;
  uint16_t *memory; /* markers, then symbols */
  uint16_t *symbols;

  /* Guarded by the lock. */
  bool done, found, unwanted; /* nobody is at it; a block was found; the front does not wait for it */
  bool helped, of_use;        /* by a helper; its bytes were taken over */
  size_t begin, count;        /* bits before that block; symbols */
} stretch;

struct gconv_png_inflate {
  gconv_png_chunks chunks;
  gconv_inflater front;
  const uint8_t *limit; /* of the lines made last */
  stretch *now;         /* where the front is */
  bool begun;

  /* Taken over from a helper, not yet among the lines. */
  const uint16_t *symbols;
  size_t left;
  uint8_t bytes_of[KNOWN + WINDOW]; /* each symbol's byte */

  stretch *stretches; /* by turns */
  size_t count;
  bool alone;
  pthread_mutex_t lock; /* guards all below, and `chunks` until `ended` */
  pthread_cond_t changed;
  size_t current, taken; /* stretches: the front's, and those that anybody has */
  bool ended;            /* all bytes were taken, or could not be read */
  bool quit;
  size_t in_vain, of_use; /* stretches of helpers */
};

/* ---- Stretches ---- */

static bool can_take(const gconv_png_inflate *inflate) {
  bool room = inflate->taken < inflate->current + inflate->count;
  return !inflate->ended && room && inflate->stretches[inflate->taken % inflate->count].done;
}

/* Whether helping is out of place: there is too little, or it helps nobody. */
static bool is_vain(const gconv_png_inflate *inflate) {
  return inflate->alone || inflate->ended || inflate->quit || inflate->in_vain > inflate->of_use + MOST_IN_VAIN;
}

/* Takes the next stretch, with the lock. NULL if there is none, or no room, or no memory, or its bytes are wrong. */
static stretch *take(gconv_png_inflate *inflate) {
  if (!can_take(inflate))
    return NULL;
  stretch *s = &inflate->stretches[inflate->taken % inflate->count];
  const stretch *before = &inflate->stretches[(inflate->taken + inflate->count - 1) % inflate->count];
  size_t had = inflate->taken > 0 ? OVERLAP : 0, got = 0, room = STRETCH + OVERLAP;
  void *memory = s->input;
  inflate->ended = true;
  if (!memory && gconv_allocate(room + GCONV_INFLATE_MARGIN, "bytes of a PNG", &memory) != GCONV_OK)
    return NULL;
  s->input = memory;
  if (had > 0)
    memcpy(s->input, before->input + STRETCH, had);
  if (!gconv_png_chunks_read(&inflate->chunks, s->input + had, room - had, &got))
    return NULL;
  s->size = had + got;
  s->last = inflate->ended = s->size < room;
  memset(s->input + s->size, 0, GCONV_INFLATE_MARGIN);
  s->done = s->found = s->unwanted = s->helped = s->of_use = false;
  inflate->taken++;
  return s;
}

/* ---- Helpers ---- */

static bool allocate_symbols(stretch *s) {
  void *memory = s->memory;
  if (!memory) {
    if (gconv_allocate((WINDOW + MOST_AHEAD + GCONV_INFLATE_BEYOND) * sizeof *s->memory, "symbols of a PNG", &memory) !=
        GCONV_OK)
      return false;
    s->memory = memory;
    for (int i = 0; i < WINDOW; i++)
      s->memory[i] = (uint16_t)(KNOWN + i);
    s->symbols = s->memory + WINDOW;
  }
  return true;
}

/* Finds the block to begin at. */
static bool find(gconv_png_inflate *inflate, stretch *s) {
  size_t searched = s->size < SEARCHED ? s->size : SEARCHED, begin = 0;
  s->inflater = (gconv_inflater){.next = s->input, .end = s->input + s->size, .last = s->last, .pauses = true, .wide = true};
  bool found = allocate_symbols(s) && gconv_inflate_find(&s->inflater, s->input + searched, &begin);
  pthread_mutex_lock(&inflate->lock);
  found = found && !s->unwanted;
  s->begin = begin;
  s->found = found;
  pthread_mutex_unlock(&inflate->lock);
  return found;
}

/* Inflates to the first block that begins behind the stretch, or as far as it goes. */
static bool inflate_symbols(stretch *s) {
  gconv_inflater *inflater = &s->inflater;
  inflater->begin = (const uint8_t *)s->memory;
  inflater->out = (uint8_t *)s->symbols;
  gconv_inflated how;
  do
    how = gconv_inflate(inflater, (const uint8_t *)(s->symbols + MOST_AHEAD));
  while (how == GCONV_INFLATED_BLOCK && gconv_inflate_position(inflater, s->input) < (size_t)STRETCH * 8);
  return how != GCONV_INFLATED_WRONG;
}

bool gconv_png_inflate_help(gconv_png_inflate *inflate) {
  pthread_mutex_lock(&inflate->lock);
  stretch *s = is_vain(inflate) || inflate->taken == 0 ? NULL : take(inflate);
  if (s && inflate->taken == inflate->current + 2) { /* which the front comes to next: that is faster by itself */
    s->done = true;
    s = take(inflate);
  }
  if (s)
    s->helped = true;
  pthread_mutex_unlock(&inflate->lock);
  if (!s)
    return false;
  bool found = find(inflate, s) && inflate_symbols(s);
  pthread_mutex_lock(&inflate->lock);
  s->found = found;
  s->count = found ? (size_t)((const uint16_t *)s->inflater.out - s->symbols) : 0;
  s->done = true;
  pthread_cond_broadcast(&inflate->changed);
  pthread_mutex_unlock(&inflate->lock);
  return true;
}

bool gconv_png_inflate_wait(gconv_png_inflate *inflate) {
  pthread_mutex_lock(&inflate->lock);
  while (!is_vain(inflate) && (inflate->taken == 0 || !can_take(inflate)))
    pthread_cond_wait(&inflate->changed, &inflate->lock);
  bool more = !is_vain(inflate);
  pthread_mutex_unlock(&inflate->lock);
  return more;
}

void gconv_png_inflate_quit(gconv_png_inflate *inflate) {
  pthread_mutex_lock(&inflate->lock);
  inflate->quit = true;
  pthread_cond_broadcast(&inflate->changed);
  pthread_mutex_unlock(&inflate->lock);
}

/* ---- The front ---- */

/* Goes on in the next stretch, of which the front has been in the overlap. */
static bool go_on(gconv_png_inflate *inflate) {
  gconv_inflater *front = &inflate->front;
  const uint8_t *old = inflate->now ? inflate->now->input + STRETCH : NULL;
  pthread_mutex_lock(&inflate->lock);
  if (inflate->now) {
    inflate->current++;
    inflate->in_vain += inflate->now->helped && !inflate->now->of_use;
  }
  stretch *s = &inflate->stretches[inflate->current % inflate->count];
  if (inflate->current == inflate->taken) {
    while (!s->done) /* somebody is still at what was in this place before */
      pthread_cond_wait(&inflate->changed, &inflate->lock);
    s = take(inflate);
    if (s)
      s->done = true;
  }
  pthread_cond_broadcast(&inflate->changed);
  pthread_mutex_unlock(&inflate->lock);
  if (!s)
    return false;
  front->next = s->input + (old ? front->next - old : 0);
  front->end = s->input + s->size;
  front->last = s->last;
  inflate->now = s;
  return true;
}

/* Whether somebody began at the block before which the front is; waits until they are through. */
static bool is_done_from_here(gconv_png_inflate *inflate, size_t position) {
  stretch *s = inflate->now;
  bool use;
  pthread_mutex_lock(&inflate->lock);
  while ((use = s->found && s->begin == position) && !s->done) {
    pthread_mutex_unlock(&inflate->lock);
    bool helped = gconv_png_inflate_help(inflate);
    pthread_mutex_lock(&inflate->lock);
    while (!helped && !s->done)
      pthread_cond_wait(&inflate->changed, &inflate->lock);
  }
  if (!s->found)
    s->unwanted = true;
  pthread_mutex_unlock(&inflate->lock);
  return use;
}

/* The inflater stands before a block: goes on in the next stretch, or with what a helper made, if that begins here. */
static bool meet_block(gconv_png_inflate *inflate) {
  gconv_inflater *front = &inflate->front;
  size_t position = gconv_inflate_position(front, inflate->now->input);
  if (position >= (size_t)STRETCH * 8 && !inflate->now->last) {
    if (!go_on(inflate))
      return false;
    position -= (size_t)STRETCH * 8;
  }
  stretch *s = inflate->now;
  if (front->out - front->begin < WINDOW || !is_done_from_here(inflate, position))
    return true;
  memcpy(inflate->bytes_of + KNOWN, front->out - WINDOW, WINDOW);
  uint8_t *out = front->out;
  const uint8_t *begin = front->begin;
  *front = s->inflater;
  front->out = out;
  front->begin = begin;
  front->wide = false;
  front->paused = false;
  inflate->symbols = s->symbols;
  inflate->left = s->count;
  pthread_mutex_lock(&inflate->lock);
  s->found = false;
  s->of_use = true;
  inflate->of_use++;
  pthread_mutex_unlock(&inflate->lock);
  return true;
}

GCONV_INLINE void narrow_body(const uint16_t *symbols, size_t count, const uint8_t *bytes_of, uint8_t *out) {
  size_t i = 0;
  for (; i + NARROWED <= count; i += NARROWED) {
    uint16_t any = 0;
    for (size_t j = i; j < i + NARROWED; j++)
      any |= symbols[j];
    if (any < KNOWN)
      for (size_t j = i; j < i + NARROWED; j++)
        out[j] = (uint8_t)symbols[j];
    else
      for (size_t j = i; j < i + NARROWED; j++)
        out[j] = bytes_of[symbols[j]];
  }
  for (; i < count; i++)
    out[i] = bytes_of[symbols[i]];
}

GCONV_VECTORIZED(narrow, (const uint16_t *symbols, size_t count, const uint8_t *bytes_of, uint8_t *out),
                 (symbols, count, bytes_of, out))

/* Takes over what there is room for. */
static void take_over(gconv_png_inflate *inflate, const uint8_t *limit) {
  size_t room = (size_t)(limit - inflate->front.out), count = inflate->left < room ? inflate->left : room;
  narrow(inflate->symbols, count, inflate->bytes_of, inflate->front.out);
  inflate->front.out += count;
  inflate->symbols += count;
  inflate->left -= count;
}

static gconv_inflated inflate_to(gconv_png_inflate *inflate, const uint8_t *limit) {
  gconv_inflater *front = &inflate->front;
  for (;;) {
    if (inflate->left > 0 && front->out < limit)
      take_over(inflate, limit);
    if (front->out >= limit)
      return GCONV_INFLATED_FULL;
    gconv_inflated how = gconv_inflate(front, limit);
    bool right = how == GCONV_INFLATED_BLOCK ? meet_block(inflate) : how == GCONV_INFLATED_HUNGRY && go_on(inflate);
    if (!right)
      return how == GCONV_INFLATED_BLOCK || how == GCONV_INFLATED_HUNGRY ? GCONV_INFLATED_WRONG : how;
  }
}

/* zlib holds distances to the window that is announced, which gconv_inflate() does not: so only the full one is taken. */
static bool begin_zlib(gconv_png_inflate *inflate) {
  inflate->begun = true;
  if (!go_on(inflate) || inflate->now->size < 2)
    return false;
  const uint8_t *head = inflate->now->input;
  inflate->front.next = head + 2;
  inflate->front.pauses = !inflate->alone;
  return head[0] == 0x78 && (head[0] << 8 | head[1]) % 31 == 0 && !(head[1] & 0x20);
}

bool gconv_png_inflate_lines(gconv_png_inflate *inflate, uint8_t *lines, size_t bytes) {
  gconv_inflater *front = &inflate->front;
  if (!inflate->begun) {
    if (!begin_zlib(inflate))
      return false;
    front->begin = front->out = lines;
  } else {
    size_t past = (size_t)(inflate->limit - front->begin), beyond = (size_t)(front->out - inflate->limit);
    past = past < WINDOW ? past : WINDOW;
    memcpy(lines - past, inflate->limit - past, past + beyond);
    front->begin = lines - past;
    front->out = lines + beyond;
  }
  inflate->limit = lines + bytes;
  return inflate_to(inflate, inflate->limit) == GCONV_INFLATED_FULL;
}

bool gconv_png_inflate_end(gconv_png_inflate *inflate, uint32_t *adler) {
  gconv_inflater *front = &inflate->front;
  if (inflate_to(inflate, inflate->limit + 1) != GCONV_INFLATED_ENDED || front->out != inflate->limit)
    return false;
  if (!inflate->now->last && front->next - inflate->now->input >= STRETCH && !go_on(inflate))
    return false;
  const uint8_t *sum = front->next;
  if (!inflate->now->last || front->end - sum != 4)
    return false;
  *adler = (uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 | (uint32_t)sum[2] << 8 | sum[3];
  return gconv_png_chunks_skip_to_end(&inflate->chunks);
}

/* ---- Beginning and end ---- */

gconv_png_inflate *gconv_png_inflate_open(gconv_source *source, uint32_t first_bytes, int threads) {
  gconv_png_inflate *inflate = calloc(1, sizeof *inflate);
  if (!inflate)
    return NULL;
  inflate->alone = threads == 1;
  inflate->count = (size_t)threads + 2;
  inflate->stretches = calloc(inflate->count, sizeof *inflate->stretches);
  if (!inflate->stretches) {
    free(inflate);
    return NULL;
  }
  gconv_png_chunks_begin(&inflate->chunks, source, first_bytes);
  for (size_t i = 0; i < inflate->count; i++)
    inflate->stretches[i].done = true;
  for (int i = 0; i < KNOWN; i++)
    inflate->bytes_of[i] = (uint8_t)i;
  pthread_mutex_init(&inflate->lock, NULL);
  pthread_cond_init(&inflate->changed, NULL);
  return inflate;
}

void gconv_png_inflate_close(gconv_png_inflate *inflate) {
  if (!inflate)
    return;
  for (size_t i = 0; i < inflate->count; i++) {
    gconv_release(inflate->stretches[i].input);
    gconv_release(inflate->stretches[i].memory);
  }
  free(inflate->stretches);
  pthread_cond_destroy(&inflate->changed);
  pthread_mutex_destroy(&inflate->lock);
  free(inflate);
}
