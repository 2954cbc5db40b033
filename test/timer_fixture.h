/* test/timer_fixture.h: the common part of the suites about timers: a callback that waits at a gate, functions that are run as
 * callbacks, threads, a shutdown in the background, and the list entry of a name. */
#ifndef WEIR_TEST_TIMER_FIXTURE_H
#define WEIR_TEST_TIMER_FIXTURE_H

#include <errno.h>

#include "factory/timer/timer.h"
#include "kernel/loop/pollers.h"
#include "test/fixture.h"

#define WEIR_TEST_FAR     WEIR_SEC(1000)
#define WEIR_TEST_CENTURY WEIR_SEC(INT64_C(86400) * 365 * 100)

/* -- a gate: a callback that says that it has begun, and goes on when it is let -- */

struct weir_test_gate {
        struct weir_test_record record; /* first */
        struct weir_test_latch begun, opened;
};

static inline void weir_test_gate_init(struct weir_test_gate *gate)
{
        *gate = (struct weir_test_gate){0};
        weir_test_latch_init(&gate->begun, 1);
        weir_test_latch_init(&gate->opened, 1);
}

static inline void weir_test_stop_at_gate(weir_task *task, void *context)
{
        struct weir_test_gate *gate = context;

        weir_test_latch_count_down(&gate->begun);
        weir_test_latch_wait(&gate->opened);
        weir_test_done(task, context);
}

/* Starts a timer, with that name or none, and returns when its callback is at the gate: a worker is held there. */
static inline void weir_test_gate_hold(struct weir_test_gate *gate, const char *name)
{
        weir_task *timer = name ? weir_timer_new_named(name, 0, weir_test_stop_at_gate, gate)
                                : weir_timer_new(0, weir_test_stop_at_gate, gate);

        weir_test_gate_init(gate);
        CU_ASSERT_EQUAL_FATAL(weir_task_start(weir_test_recorded(timer)), 0);
        weir_test_latch_wait(&gate->begun);
}

static inline void weir_test_gate_open(struct weir_test_gate *gate)
{
        weir_test_latch_count_down(&gate->opened);
}

/* Whether a thread sleeps in weir_timer_cancel_wait until a timer of that name has ended. */
static inline bool weir_test_somebody_waits(const char *name)
{
        struct weir__name_key key = weir__name_key(name, strlen(name));
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, key.hash);
        bool waits = false;

        for (const struct weir__names_walk *walk = shard->walks; walk; walk = walk->next)
                waits = waits || (walk->at && weir__name_has(walk->at, &key) && !atomic_load(&walk->moved.open));
        weir__names_unlock(shard);
        return waits;
}

/* -- actors: functions that run as callbacks -- */

struct weir_test_actor {
        void (*act)(void *argument);
        void *argument;
};

static inline void weir_test_call_actor(weir_task *task, void *context)
{
        const struct weir_test_actor *actor = context;

        (void)task;
        actor->act(actor->argument);
}

/* Has the function called on a worker, `after` from now.  What is started later for the same instant is READY meanwhile, if it
 * lies on the same worker. */
static inline void weir_test_act(weir_nsec after, void (*act)(void *argument), void *argument)
{
        struct weir_test_actor *actor = malloc(sizeof *actor);
        weir_task *timer = weir_timer_new(after, weir_test_call_actor, actor);

        *actor = (struct weir_test_actor){act, argument};
        weir_task_on_free(timer, free);
        CU_ASSERT_EQUAL(weir_task_start(timer), 0);
}

/* -- threads -- */

struct weir_test_thread {
        pthread_t thread;
        void (*run)(void *argument);
        void *argument;
};

static inline void *weir_test_thread_main(void *thread)
{
        ((struct weir_test_thread *)thread)->run(((struct weir_test_thread *)thread)->argument);
        return NULL;
}

static inline void weir_test_thread_start(struct weir_test_thread *thread, void (*run)(void *argument), void *argument)
{
        thread->run = run;
        thread->argument = argument;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread->thread, NULL, weir_test_thread_main, thread), 0);
}

static inline void weir_test_thread_join(struct weir_test_thread *thread)
{
        pthread_join(thread->thread, NULL);
}

static inline void weir_test_shut_down(void *unused)
{
        (void)unused;
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
}

/* Returns when starts are refused; the thread ends with the runtime. */
static inline void weir_test_shutdown_begin(struct weir_test_thread *thread)
{
        weir_test_thread_start(thread, weir_test_shut_down, NULL);
        WEIR_TEST_EVENTUALLY(weir_task_start(weir_empty_new(NULL, NULL)) == -ESHUTDOWN);
}

/* The same when the only worker is held at a gate: returns when the order to end is the last thing in its inbox. */
static inline void weir_test_shutdown_begin_behind_gate(struct weir_test_thread *thread)
{
        struct weir__poller *poller = weir__poller_at(0);
        struct weir__work *last = atomic_load(&poller->inbox.head);

        weir_test_thread_start(thread, weir_test_shut_down, NULL);
        WEIR_TEST_EVENTUALLY(atomic_load(&poller->inbox.head) != last);
        CU_ASSERT_EQUAL(weir_task_start(weir_empty_new(NULL, NULL)), -ESHUTDOWN);
}

/* Lets up to about that many nanoseconds go by without giving the CPU away. */
static inline void weir_test_spin(int64_t nanoseconds)
{
        for (int64_t until = weir_test_now() + nanoseconds; weir_test_now() < until;) {
                continue;
        }
}

/* -- ids -- */

/* Neither reset nor cancel finds anything by it. */
static inline bool weir_test_finds_nothing(weir_timer_id id)
{
        return weir_timer_reset_id(id, WEIR_TEST_FAR) + weir_timer_cancel_id(id) == 0;
}

/* -- the list -- */

static inline int weir_test_keep_info(const struct weir_timer_info *info, void *context)
{
        *(struct weir_timer_info *)context = *info;
        ((struct weir_timer_info *)context)->name = NULL; /* it is only borrowed */
        return 0;
}

/* Returns the list entry of the one timer whose name begins so. */
static inline struct weir_timer_info weir_test_info(const char *name)
{
        struct weir_timer_info info = {0};

        CU_ASSERT_EQUAL(weir_timer_list(name, weir_test_keep_info, &info), 1);
        return info;
}

/* Starts timers called "ready" that are due at one instant, a second from now, and has `act` run before them then.  Returns the
 * instant. */
static inline weir_nsec weir_test_make_ready(void (*act)(void *argument), void *argument, struct weir_test_record *records,
                                             unsigned count)
{
        weir_test_act(WEIR_SEC(1), act, argument);
        for (unsigned i = 0; i < count; i++) {
                CU_ASSERT_EQUAL(weir_task_start(weir_test_named("ready", WEIR_SEC(1), &records[i])), 0);
        }
        return weir_now() + WEIR_SEC(1);
}

#endif
