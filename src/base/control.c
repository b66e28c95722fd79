/* SPDX-License-Identifier: MIT */
#include "base/control.h"
#include "base/clock.h"
#include "base/status.h"

#include <stdatomic.h>
#include <string.h>

struct gconv_controlled {
  const gconv_control *given; /* NULL: none */
  bool watched;               /* a control has a progress() */
  atomic_bool ended;          /* a progress() has said that it is enough */
  _Atomic(const char *) what; /* what the next poll reports; NULL: nothing was noted yet, so it reports "working" */
  _Atomic double done;
  double reported_ms; /* when progress() was called last; only the thread itself uses it */
};

static _Thread_local gconv_controlled own;   /* what gconv_control_use() has given this thread */
static _Thread_local gconv_controlled *lent; /* the control of the thread that this one works for; NULL: none */

const gconv_control *gconv_control_use(const gconv_control *control) {
  const gconv_control *before = own.given;
  own.given = control;
  own.watched = false;
  for (const gconv_control *c = control; c; c = c->outer)
    own.watched |= c->progress != NULL;
  atomic_store(&own.ended, false);
  atomic_store(&own.what, (const char *)NULL);
  return before;
}

gconv_controlled *gconv_control_here(void) {
  return lent ? lent : own.given ? &own : NULL;
}

void gconv_control_lend(gconv_controlled *control) {
  lent = control;
}

static bool is_flagged(const gconv_controlled *control) {
  for (const gconv_control *c = control->given; c; c = c->outer)
    if (c->stop && __atomic_load_n(c->stop, __ATOMIC_RELAXED))
      return true;
  return false;
}

static bool is_late(const gconv_controlled *control) {
  for (const gconv_control *c = control->given; c; c = c->outer)
    if (c->deadline != 0 && !(gconv_now_ms() < 1e3 * c->deadline)) /* NaN is no time to wait for */
      return true;
  return false;
}

/* Calls progress() of each control. */
static void report(const char *what, double done) {
  for (const gconv_control *c = own.given; c; c = c->outer)
    if (c->progress && !c->progress(what, done, c->user))
      atomic_store(&own.ended, true);
  own.reported_ms = gconv_now_ms(); /* after the functions, which may have taken long */
}

void gconv_control_note(gconv_controlled *control, const char *what, double done) {
  if (!control)
    return;
  atomic_store(&control->done, done);
  atomic_store(&control->what, what);
}

bool gconv_control_is_watched(void) {
  return own.watched && !lent;
}

void gconv_control_poll(void) {
  if (!gconv_control_is_watched() || atomic_load_explicit(&own.ended, memory_order_relaxed))
    return;
  const char *what = atomic_load(&own.what);
  if (gconv_now_ms() - own.reported_ms >= GCONV_CONTROL_MS)
    report(what ? what : "working", what ? atomic_load(&own.done) : 0);
}

bool gconv_control_stops(gconv_controlled *control) {
  if (!control)
    return false;
  if (control == &own)
    gconv_control_poll();
  return atomic_load_explicit(&control->ended, memory_order_relaxed) || is_flagged(control) || is_late(control);
}

gconv_status gconv_control_fail(gconv_controlled *control) {
  const bool flagged = atomic_load(&control->ended) || is_flagged(control);
  return gconv_fail(GCONV_STOPPED, "stopped: %s", flagged ? "the caller wants no more" : "the deadline has passed");
}

gconv_status gconv_control_check(void) {
  gconv_controlled *control = gconv_control_here();
  return gconv_control_stops(control) ? gconv_control_fail(control) : GCONV_OK;
}

gconv_status gconv_control_step(const char *what, double done) {
  gconv_controlled *control = gconv_control_here();
  if (!control)
    return GCONV_OK;
  gconv_control_note(control, what, done);
  if (control == &own && own.watched)
    report(what, done);
  return gconv_control_check();
}

gconv_status gconv_control_zeros(void *memory, size_t bytes) {
  const size_t piece = (size_t)1 << 25;
  for (size_t at = 0; at < bytes; at += piece) {
    GCONV_TRY(at > 0 ? gconv_control_check() : GCONV_OK);
    memset((char *)memory + at, 0, bytes - at < piece ? bytes - at : piece);
  }
  return GCONV_OK;
}
