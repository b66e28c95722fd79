/* SPDX-License-Identifier: MIT */
#include "base/threads.h"
#include "base/control.h"
#include "base/memory.h"
#include "gconv_embed.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { ROOM_FOR_PARTS = 64 };

/* The turns of one call of gconv_threads_run(). It exists as long as the call. */
typedef struct round {
  gconv_turn *function;
  void *context;
  gconv_controlled *control; /* when it stops, no further turn begins; NULL: every turn is run */
  size_t turns;
  atomic_size_t next;                  /* how many turns have begun; without parts, the next turn to begin */
  atomic_int seated;                   /* threads that work on this round; changes under the lock */
  int parts;                           /* turns are divided into so many parts, one for each seat; 0: they begin in order */
  atomic_size_t begun[ROOM_FOR_PARTS]; /* turns of each part that were taken, plus attempts after its last turn */
  struct round *later;                 /* the next call */
} round;

/* The number of forks that led to this process. After fork(), a child has none of its parent's helpers, and sees this by the
 * number. */
static atomic_uint forks;
static pthread_once_t watching_forks = PTHREAD_ONCE_INIT;

static void count_fork(void) {
  atomic_fetch_add(&forks, 1);
}

static void watch_forks(void) {
  pthread_atfork(NULL, NULL, count_fork);
}

struct gconv_threads {
  unsigned born;                /* the number of forks when the pool was made */
  pthread_mutex_t lock;         /* protects all fields below that are not atomic */
  pthread_cond_t work, changed; /* work: for idle helpers; changed: for callers that wait for a seat or for the end */
  round *first, *last;          /* calls, the oldest first */
  atomic_int unattended;        /* rounds that have turns left, but no thread that works on them */
  int idle;                     /* helpers that wait for work */
  atomic_int awake;             /* callers that want helpers to stay awake */
  atomic_uint calls;            /* rounds so far */
  bool quit;
  cpu_set_t processors;   /* processors with a thread at work */
  int *seats, free_seats; /* seats[0 .. free_seats - 1] are the free seats */
  int helping;            /* how many helpers have begun */
  int count;              /* number of all seats */
  pthread_t helpers[];    /* [count - 1] */
};

/* ---- Seats. These functions are called with the lock held ---- */

static bool has_turns(const round *r) {
  return atomic_load_explicit(&r->next, memory_order_relaxed) < r->turns;
}

static bool is_unattended(const round *r) {
  return r->seated == 0 && has_turns(r);
}

/* Returns the round that needs a free thread most, or NULL if none does. */
static round *neediest(const gconv_threads *pool) {
  round *found = NULL;
  for (round *r = pool->first; r; r = r->later) {
    if (is_unattended(r))
      return r;
    if (!found && has_turns(r))
      found = r;
  }
  return found;
}

/* Takes the seat that the thread prefers, if it is free. So a thread mostly has the same seat in each round, and finds its
 * data in its caches. */
static int sit_down(gconv_threads *pool, round *r, int preferred) {
  int *seats = pool->seats, at = pool->free_seats - 1;
  if (r->seated++ == 0)
    atomic_fetch_sub(&pool->unattended, 1);
  for (int i = 0; i < at; i++)
    at = seats[i] == preferred ? i : at;
  const int seat = seats[at];
  seats[at] = seats[--pool->free_seats];
  return seat;
}

static void stand_up(gconv_threads *pool, round *r, int seat) {
  pool->seats[pool->free_seats++] = seat;
  if (--r->seated == 0 && has_turns(r))
    atomic_fetch_add(&pool->unattended, 1);
  bool needed = neediest(pool) != NULL;
  if (r->seated == 0 || needed)
    pthread_cond_broadcast(&pool->changed);
  if (pool->idle > 0 && needed)
    pthread_cond_signal(&pool->work);
}

/* ---- Processors ----
 *
 * Linux in a virtual machine may wake a helper on the processor where its caller works, though another processor is idle. It
 * leaves both threads there for tens of milliseconds. So a helper that finds another thread of its pool at work on its
 * processor moves to a processor that has none. Meanwhile it has no seat, so that nobody waits for it. */

/* Marks the processor of the calling thread as one with a thread at work, and returns its number, or -1 if it is marked
 * already. Called with the lock held. */
static int mark_processor(gconv_threads *pool) {
  int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || CPU_ISSET(here, &pool->processors))
    return -1;
  CPU_SET(here, &pool->processors);
  return here;
}

static void unmark_processor(gconv_threads *pool, int processor) {
  if (processor >= 0)
    CPU_CLR(processor, &pool->processors);
}

/* Returns the next processor after the caller's own that is allowed and has no mark, or -1 if there is none. */
static int find_free_processor(const gconv_threads *pool, const cpu_set_t *allowed) {
  int here = sched_getcpu();
  for (int i = 1; here >= 0 && i < CPU_SETSIZE; i++) {
    int processor = (here + i) % CPU_SETSIZE;
    if (CPU_ISSET(processor, allowed) && !CPU_ISSET(processor, &pool->processors))
      return processor;
  }
  return -1;
}

/* Marks a processor, moves the calling helper there, and returns the processor. If all are marked, the helper stays, and -1
 * is returned. Called with the lock held, which is released while the helper moves. */
static int settle(gconv_threads *pool) {
  cpu_set_t allowed, one;
  int processor = mark_processor(pool);
  if (processor >= 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return processor;
  processor = find_free_processor(pool, &allowed);
  if (processor < 0)
    return -1;
  CPU_SET(processor, &pool->processors);
  pthread_mutex_unlock(&pool->lock);
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0)
    sched_setaffinity(0, sizeof allowed, &allowed); /* from there, the system may move the helper again */
  pthread_mutex_lock(&pool->lock);
  return processor;
}

/* ---- Turns ---- */

/* Returns the first turn of a part. */
static size_t part_begin(const round *r, int part) {
  const size_t parts = (size_t)r->parts, each = r->turns / parts, more = r->turns % parts, before = (size_t)part;
  return before * each + (before < more ? before : more);
}

/* Takes a turn of the seat's part or, if none is left, of another part. One is left, because the caller has counted this
 * turn in r->next. */
static size_t find_turn(round *r, int seat) {
  for (int part = seat % r->parts;; part = (part + 1) % r->parts) {
    const size_t begin = part_begin(r, part), count = part_begin(r, part + 1) - begin;
    if (atomic_load_explicit(&r->begun[part], memory_order_relaxed) >= count)
      continue;
    const size_t turn = atomic_fetch_add(&r->begun[part], 1);
    if (turn < count)
      return begin + turn;
  }
}

/* Returns whether another turn may begin. In the thread that called the library, progress() is called from time to time. */
static bool goes_on(const round *r) {
  if (!r->control)
    gconv_control_poll();
  return !gconv_control_stops(r->control);
}

/* Takes turns until none is left, or until another round has no thread. */
static void take_turns(gconv_threads *pool, round *r, int seat) {
  do {
    if (!goes_on(r))
      atomic_store(&r->next, r->turns);
    const size_t turn = atomic_fetch_add(&r->next, 1);
    if (turn >= r->turns)
      return;
    r->function(r->context, r->parts > 0 ? find_turn(r, seat) : turn, seat);
  } while (atomic_load_explicit(&pool->unattended, memory_order_relaxed) == 0);
}

/* Takes a free seat, takes turns, and leaves the seat. */
static void attend(gconv_threads *pool, round *r, int preferred) {
  int seat = sit_down(pool, r, preferred);
  pthread_mutex_unlock(&pool->lock);
  take_turns(pool, r, seat);
  pthread_mutex_lock(&pool->lock);
  stand_up(pool, r, seat);
}

/* Returns the round on which a helper should work, or NULL. */
static round *find_work(const gconv_threads *pool) {
  return pool->free_seats > 0 ? neediest(pool) : NULL;
}

/* ---- Short rounds ----
 *
 * Waking a thread takes some 20 us, as long as a round of a small image. While a caller runs many short rounds, threads that
 * wait for the next round poll for it, up to 0.1 ms, before they sleep. So they are still awake if a caller runs one small
 * network after another. */

enum { LOOKS = 2500 };

static void pause_a_moment(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

void gconv_threads_stay_awake(gconv_threads *pool, bool awake) {
  if (pool)
    atomic_fetch_add(&pool->awake, awake ? 1 : -1);
}

/* Waits until a round begins after round number `calls`. Returns false if none begins. Called with the lock held, which is
 * released meanwhile. */
static bool await_round(gconv_threads *pool, unsigned calls) {
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < LOOKS && atomic_load(&pool->calls) == calls; i++)
    pause_a_moment();
  pthread_mutex_lock(&pool->lock);
  return atomic_load(&pool->calls) != calls;
}

/* Waits until no thread works on the round. False if that takes long. Called with the lock held, which is released
 * meanwhile. */
static bool await_end(gconv_threads *pool, const round *r) {
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < LOOKS && atomic_load(&r->seated) > 0; i++)
    pause_a_moment();
  pthread_mutex_lock(&pool->lock);
  return atomic_load(&r->seated) == 0;
}

static void *help(void *argument) {
  gconv_threads *pool = argument;
  pthread_mutex_lock(&pool->lock);
  const int preferred = ++pool->helping; /* callers prefer 0 */
  while (!pool->quit) {
    if (find_work(pool)) {
      int processor = settle(pool);
      round *r = find_work(pool); /* rounds may have ended meanwhile */
      if (r)
        attend(pool, r, preferred);
      unmark_processor(pool, processor);
      continue;
    }
    const unsigned calls = atomic_load(&pool->calls);
    if (atomic_load(&pool->awake) > 0 && await_round(pool, calls))
      continue;
    if (pool->quit || find_work(pool))
      continue;
    pool->idle++;
    pthread_cond_wait(&pool->work, &pool->lock);
    pool->idle--;
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

/* ---- A limit for all pools ---- */

static atomic_int most_threads; /* gconv_limit_threads(); 0: no limit */
static atomic_int helpers;      /* helpers of all pools */

void gconv_limit_threads(int most) {
  atomic_store(&most_threads, most > 0 ? most : 0);
}

/* Returns how many helpers a new pool may start, at most `wanted`, and counts them. */
static int reserve_helpers(int wanted) {
  int now = atomic_load(&helpers), granted;
  do {
    const int most = atomic_load(&most_threads), left = most - 1 - now;
    granted = most == 0 || wanted <= left ? wanted : left > 0 ? left : 0;
  } while (!atomic_compare_exchange_weak(&helpers, &now, now + granted));
  return granted;
}

/* ---- The pool ---- */

bool gconv_thread_start(pthread_t *thread, void *(*function)(void *), void *argument) {
  static const int of_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  sigset_t most, before;
  sigfillset(&most);
  for (size_t i = 0; i < sizeof of_faults / sizeof of_faults[0]; i++)
    sigdelset(&most, of_faults[i]);
  pthread_sigmask(SIG_BLOCK, &most, &before);
  bool started = pthread_create(thread, NULL, function, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

bool gconv_threads_inherited(const gconv_threads *pool) {
  return pool->born != atomic_load_explicit(&forks, memory_order_relaxed);
}

/* Makes a lock on which a thread spins for a while before it sleeps: the lock is held only for moments, and waking a thread
 * takes longer than many rounds. */
static void init_lock(pthread_mutex_t *lock) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
  pthread_mutex_init(lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

static gconv_status make_pool(int count, gconv_threads **result) {
  GCONV_FREED gconv_threads *made = calloc(1, sizeof *made + (size_t)count * sizeof made->helpers[0]);
  int *seats = made ? calloc((size_t)count, sizeof *seats) : NULL;
  GCONV_NEED_MEMORY(seats, "no memory for %d threads", count);
  gconv_threads *pool = gconv_taken(&made);
  pthread_once(&watching_forks, watch_forks);
  pool->born = atomic_load(&forks);
  init_lock(&pool->lock);
  pthread_cond_init(&pool->work, NULL);
  pthread_cond_init(&pool->changed, NULL);
  pool->seats = seats;
  /* If the system refuses to start a thread, the pool has fewer threads. Helpers look at seats only under the lock. */
  pthread_mutex_lock(&pool->lock);
  pool->count = 1;
  while (pool->count < count && gconv_thread_start(&pool->helpers[pool->count - 1], help, pool))
    pool->count++;
  for (; pool->free_seats < pool->count; pool->free_seats++)
    seats[pool->free_seats] = pool->count - 1 - pool->free_seats;
  pthread_mutex_unlock(&pool->lock);
  *result = pool;
  return GCONV_OK;
}

gconv_status gconv_threads_create(int count, gconv_threads **result) {
  count = 1 + reserve_helpers(gconv_threads_allowed(count) - 1);
  const gconv_status status = make_pool(count, result);
  atomic_fetch_sub(&helpers, status == GCONV_OK ? count - (*result)->count : count - 1);
  return status;
}

void gconv_threads_free(gconv_threads *pool) {
  if (!pool || gconv_threads_inherited(pool)) /* the helpers are the parent's, and the lock may have been held at the fork */
    return;
  pthread_mutex_lock(&pool->lock);
  pool->quit = true;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->count - 1; i++)
    pthread_join(pool->helpers[i], NULL);
  pthread_cond_destroy(&pool->changed);
  pthread_cond_destroy(&pool->work);
  pthread_mutex_destroy(&pool->lock);
  atomic_fetch_sub(&helpers, pool->count - 1);
  free(pool->seats);
  free(pool);
}

int gconv_threads_count(const gconv_threads *pool) {
  return pool->count;
}

/* ---- A call ---- */

static void publish(gconv_threads *pool, round *r) {
  if (pool->last)
    pool->last->later = r;
  else
    pool->first = r;
  pool->last = r;
  atomic_fetch_add(&pool->unattended, 1);
  atomic_fetch_add(&pool->calls, 1);
  if (r->turns > 1 && pool->idle > 0)
    pthread_cond_broadcast(&pool->work);
}

static void withdraw(gconv_threads *pool, const round *r) {
  round *before = NULL;
  for (round *other = pool->first; other != r; other = other->later)
    before = other;
  if (before)
    before->later = r->later;
  else
    pool->first = r->later;
  if (pool->last == r)
    pool->last = before;
}

/* Waits until something changes in the pool; for GCONV_CONTROL_MS at most if this thread has to call progress(), which it
 * then does. Called with the lock held. */
static void await_change(gconv_threads *pool) {
  if (!gconv_control_is_watched()) {
    pthread_cond_wait(&pool->changed, &pool->lock);
    return;
  }
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += GCONV_CONTROL_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
  pthread_mutex_unlock(&pool->lock);
  gconv_control_poll();
  pthread_mutex_lock(&pool->lock);
}

static void run_round(gconv_threads *pool, round *r) {
  if (pool->count == 1 || gconv_threads_inherited(pool)) { /* one thread needs no sharing */
    for (size_t turn = 0; turn < r->turns && goes_on(r); turn++)
      r->function(r->context, turn, 0);
    return;
  }
  if (r->turns == 0)
    return;
  pthread_mutex_lock(&pool->lock);
  publish(pool, r);
  int processor = mark_processor(pool);
  while (has_turns(r) || r->seated > 0)
    if (has_turns(r) && pool->free_seats > 0)
      attend(pool, r, 0);
    else if (atomic_load(&pool->awake) == 0 || !await_end(pool, r))
      if (has_turns(r) || r->seated > 0)
        await_change(pool);
  unmark_processor(pool, processor);
  withdraw(pool, r);
  pthread_mutex_unlock(&pool->lock);
}

void gconv_threads_run(gconv_threads *pool, size_t turns, gconv_turn *function, void *context) {
  round r = {.function = function, .context = context, .turns = turns};
  run_round(pool, &r);
}

void gconv_threads_run_or_stop(gconv_threads *pool, size_t turns, gconv_turn *function, void *context) {
  round r = {.function = function, .context = context, .turns = turns, .control = gconv_control_here()};
  run_round(pool, &r);
}

static int parts_of(const gconv_threads *pool) {
  return pool->count < ROOM_FOR_PARTS ? pool->count : ROOM_FOR_PARTS;
}

void gconv_threads_run_in_parts(gconv_threads *pool, size_t turns, gconv_turn *function, void *context) {
  round r = {.function = function, .context = context, .turns = turns, .parts = parts_of(pool)};
  run_round(pool, &r);
}

void gconv_threads_run_in_parts_or_stop(gconv_threads *pool, size_t turns, gconv_turn *function, void *context) {
  round r = {.function = function, .context = context, .turns = turns, .parts = parts_of(pool)};
  r.control = gconv_control_here();
  run_round(pool, &r);
}

/* A function to be called in a turn, and its result. */
typedef struct run_errand {
  gconv_errand *errand;
  void *context;
  gconv_status status;
  char error[1024];
} run_errand;

static void run(void *context, size_t turn, int seat) {
  run_errand *r = context;
  r->status = r->errand(r->context);
  if (r->status != GCONV_OK)
    snprintf(r->error, sizeof r->error, "%s", gconv_last_error());
}

gconv_status gconv_threads_do(gconv_threads *pool, gconv_errand *errand, void *context) {
  run_errand r = {.errand = errand, .context = context};
  gconv_threads_run(pool, 1, run, &r);
  return r.status == GCONV_OK ? GCONV_OK : gconv_set_error(r.status, r.error);
}
