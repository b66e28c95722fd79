/* SPDX-License-Identifier: MIT */
#include "cli/window_timings.h"
#include "base/clock.h"
#include "cli/telling.h"

#include <math.h>

static const double SHORTEST_MS = 1e-3, STEP = 1.05;

void gconv_window_timings_note(gconv_window_timings *timings, double ms, size_t windows) {
  const double step = ms > SHORTEST_MS ? ceil(log(ms / SHORTEST_MS) / log(STEP)) : 0;
  timings->counts[step < GCONV_LATENCY_STEPS ? (int)step : GCONV_LATENCY_STEPS - 1] += windows;
  timings->windows += windows;
}

/* Returns the milliseconds that this share of the windows took at most: 0.5 for the median. They are up to 5% too large. */
static double quantile(const gconv_window_timings *timings, double share) {
  uint64_t seen = 0;
  int step = 0;
  while (step < GCONV_LATENCY_STEPS - 1 && (double)(seen + timings->counts[step]) < share * (double)timings->windows)
    seen += timings->counts[step++];
  return SHORTEST_MS * pow(STEP, step);
}

void gconv_window_timings_tell(const gconv_window_timings *timings, const char *name, double samples, bool json,
                               bool to_stdout) {
  const double ms = gconv_now_ms() - timings->begin_ms;
  const gconv_telling t = {to_stdout ? stdout : stderr, json ? json_object() : NULL};
  gconv_tell(&t, "signal", "%s: ", name);
  gconv_tell(&t, "windows", "%llu windows", (unsigned long long)timings->windows);
  gconv_tell_number(&t, "ms", " in %.3f ms, ", ms);
  gconv_tell_number(&t, "samples_per_s", "%.4g samples/s", samples / ms * 1e3);
  gconv_tell_number(&t, "p50_ms", "; from the last sample of a window to its row: %.3g ms (median)", quantile(timings, 0.5));
  gconv_tell_number(&t, "p99_ms", ", %.3g ms (99%%)", quantile(timings, 0.99));
  if (!json)
    fputc('\n', t.out);
  gconv_tell_end(t.out, t.json, JSON_COMPACT);
}
