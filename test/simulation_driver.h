/* test/simulation_driver.h: the common part of the files of the simulation: the state of a run, and reports of differences. */
#ifndef WEIR_TEST_SIMULATION_DRIVER_H
#define WEIR_TEST_SIMULATION_DRIVER_H

#include <semaphore.h>
#include <stdatomic.h>

#include "test/simulation.h"
#include "test/simulation_model.h"
#include "test/support.h"

#define SIMULATION_TRACE 4096

struct simulation_event {
        uint64_t step;
        weir_nsec now;
        const char *what;
        char where;
        int64_t a, b, c;
};

struct simulation {
        struct simulation_setup setup;
        struct simulation_result result;
        struct weir_test_random random;
        _Atomic uint64_t step;
        uint64_t life_ends_at;
        bool up;              /* the runtime is */
        weir_nsec slack;      /* of what is made now */
        unsigned limit;       /* of what is alive */
        struct task *unfreed; /* whose callback has returned just now */
        uint64_t events;
        struct simulation_event trace[SIMULATION_TRACE];

        /* The other thread, which acts while the worker waits for it in a callback. */
        sem_t ask, done;
        enum { FOREIGN_ACT, FOREIGN_SHUTDOWN, FOREIGN_END } foreign;
};

extern struct simulation simulation;

/* The actor of a step: a callback, the other thread, or the main thread while the runtime is down. */
struct actor {
        struct task *self;  /* whose callback it is */
        weir_task *handle;
        struct flow *flow;  /* or whose */
        char where;         /* for the trace: 'w'orker, 'f'oreign, 'm'ain */
};

/* Does not return. */
void simulation_differs(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

void simulation_note(char where, const char *what, int64_t a, int64_t b, int64_t c);

static inline uint64_t below(uint64_t limit)
{
        return weir_test_random_below(&simulation.random, limit);
}

static inline bool one_in(uint64_t count)
{
        return below(count) == 0;
}

/* Callbacks. */
void simulation_task_called(weir_task *task, void *context);
void simulation_flow_called(weir_series *series, void *context);
void simulation_task_freed(void *context);

int simulation_fiber(void *context);

/* What callbacks and fibers do (simulation.c). */
void simulation_arrive(const struct task *task);
void simulation_check_expired(const struct task *task);
void simulation_see_deadlines(void);
void simulation_act_some(const struct actor *actor, unsigned most);

/* Random choices; NULL if none was found soon.  Durations are often one of a few, so that some fall together. */
extern const char *const simulation_names[MODEL_NAMES];
weir_nsec simulation_draw_duration(void);
size_t simulation_draw_max(void);
struct flow *simulation_draw_flow(bool (*fits)(const struct flow *flow));

void simulation_expect(const char *what, int64_t is, int64_t least, int64_t most);

/* Operations. */
void simulation_act(const struct actor *actor);
void simulation_act_name_series(const struct actor *actor);
void simulation_act_cancel_named(const struct actor *actor);
void simulation_act_count_series(const struct actor *actor);
void simulation_act_limit_series(const struct actor *actor);
void simulation_act_ask_series(const struct actor *actor);
void simulation_start_pulse(const struct actor *actor);
bool simulation_has_room(unsigned count);
struct task *simulation_make_task(const struct actor *actor, unsigned depth);
void simulation_grain(struct task *task, weir_nsec slack);
void simulation_put_away(void); /* all that was not started */

#endif
