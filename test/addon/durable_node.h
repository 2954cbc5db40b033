/* test/addon/durable_node.h: what a node of a test does: a process that sets, cancels, moves and delivers timers at random, and
 * says so in the history (durable_history.h).
 *
 * The parent (durable_nodes.h) starts it as
 *
 *     PROGRAM node URL HISTORY PROCESS SEED LEASE BASE MODE
 *
 *   any    works until it is killed; SIGTERM makes it close its stores
 *   busy   the same, without pauses
 *   first  makes the schedules
 *   last   ends all timers
 *
 * Names come and go: of each time there are some that all nodes work with, and later others.  So a name has a short story, and a
 * cancel whose outcome is unknown leaves the other names alone. */
#ifndef WEIR_TEST_DURABLE_NODE_H
#define WEIR_TEST_DURABLE_NODE_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir/clock.h>
#include <weir/durable.h>
#include <weir/runtime.h>
#include <weir/series.h>
#include <weir/timer.h>

#include "test/addon/durable_history.h"

#define LOOPS           8
#define PAUSE           WEIR_MSEC(24) /* of a loop, at most */
#define NAMES_A_SECOND  250
#define NAMES_AT_A_TIME 160
#define FAR_AWAY        WEIR_SEC(3600)
#define SCHEDULE_MOVES  200 /* one of so many operations */
#define ATTEMPTS        4
#define SCHEDULE_COUNT  5 /* three of the policy "all"; SCHEDULE_ONCE; SCHEDULE_SKIP */
#define SCHEDULE_ONCE   3
#define SCHEDULE_SKIP   4
#define CRON            "* * * * *"

static struct {
        int history, process;
        const char *url;
        weir_nsec lease;
        int64_t base;    /* when the names began */
        weir_nsec pause; /* of a loop, at most */
        bool is_last;
        weir_durable *store; /* of the timers */
        weir_durable *other; /* of the schedules: their firings are not given up */
        atomic_uint_fast64_t random;
        atomic_int operation;
        atomic_int running;   /* operations */
        pthread_rwlock_t use; /* held for reading by who uses the stores */
        bool is_closing;      /* guarded by `use` */
} node = {.use = PTHREAD_RWLOCK_INITIALIZER};

static inline uint64_t
random_below(uint64_t limit)
{
        struct weir_test_random one = {atomic_fetch_add(&node.random, UINT64_C(0x9e3779b97f4a7c15))};

        return weir_test_random_below(&one, limit);
}

static inline void
say(struct event event)
{
        event.process = node.process;
        history_say(node.history, event);
}

static inline int64_t
nanoseconds(struct timespec time)
{
        return WEIR_SEC(time.tv_sec) + time.tv_nsec;
}

/* How far the wall clock is from that of the kernel, which no library changes; 0 if it lies between two looks at that. */
static inline void
say_clock(void)
{
        struct timespec before, wall, behind;

        syscall(SYS_clock_gettime, CLOCK_REALTIME, &before);
        clock_gettime(CLOCK_REALTIME, &wall);
        syscall(SYS_clock_gettime, CLOCK_REALTIME, &behind);
        int64_t shift = nanoseconds(wall) - nanoseconds(before);
        bool is_right = shift >= 0 && nanoseconds(wall) <= nanoseconds(behind);
        say((struct event){.what = CLOCK_SEEN, .name = -1, .span = is_right ? 0 : shift});
}

/* This process stood still, or what it wanted from the engine took long. */
static inline void
say_slow(int64_t from, int64_t until)
{
        say((struct event){.at = from, .what = STOPPED, .name = -1, .operation = 1, .span = until});
}

static inline void *
watch_the_clock(void *context)
{
        int64_t before = weir_test_now(), now;

        (void)context;
        for (;; before = now) {
                weir_test_sleep(WEIR_MSEC(10));
                now = weir_test_now();
                if (now - before > node.lease / 8)
                        say_slow(before, now);
        }
        return NULL;
}

/* -- names -- */

static inline void
write_name(char text[24], int name)
{
        snprintf(text, 24, name < SCHEDULES ? "n%d" : "cron%d", name < SCHEDULES ? name : name - SCHEDULES);
}

static inline int
read_name(const char *text)
{
        return *text == 'n' ? atoi(text + 1) : SCHEDULES + atoi(text + 4);
}

static inline int
some_name(void)
{
        int64_t newest = (weir_test_now() - node.base) / (INT64_C(1000000000) / NAMES_A_SECOND) + NAMES_AT_A_TIME;

        return (int)(newest - (int64_t)random_below(NAMES_AT_A_TIME));
}

/* No handler of it succeeds. */
static inline bool
is_cursed(int name)
{
        return name % 16 == 3;
}

/* -- operations -- */

struct act {
        enum what what; /* that has begun */
        int name, operation;
        int64_t began;
        bool is_aside; /* of a handler: no other one follows */
};

static void act(weir_task *timer, void *context);

static inline void
act_again(void)
{
        if (!node.is_last)
                weir_task_start(weir_timer_new((weir_nsec)random_below((uint64_t)node.pause), act, NULL));
}

static inline uint64_t
generation_of(weir_task *task)
{
        const struct weir_durable_info *info = weir_durable_info(task, 0);

        return info ? info->generation : weir_durable_generation(task);
}

static inline void
on_told(weir_task *task, void *context)
{
        const struct act *done = context;
        const struct weir_durable_info *info = weir_durable_info(task, 0);
        int64_t now = weir_test_now();

        say((struct event){.at = now,
                           .what = (enum what)(done->what - 'a' + 'A'),
                           .name = done->name,
                           .operation = done->operation,
                           .status = weir_task_status(task),
                           .generation = generation_of(task),
                           .span = done->what == MOVE_BEGUN && info ? info->due : 0});
        if (now - done->began > node.lease / 4)
                say_slow(done->began, now);
        atomic_fetch_sub(&node.running, 1);
        if (!done->is_aside)
                act_again();
}

/* Says that an operation begins. */
static inline struct act *
begin_act(enum what what, int name, weir_nsec span, int attempt)
{
        struct act *next = malloc(sizeof *next);

        if (!next)
                abort();
        *next = (struct act){what, name, atomic_fetch_add(&node.operation, 1) + 1, weir_test_now(), false};
        atomic_fetch_add(&node.running, 1);
        say((struct event){
                .at = next->began, .what = what, .name = name, .operation = next->operation, .span = span, .attempt = attempt});
        return next;
}

/* Starts an operation; some have a deadline that they may miss. */
static inline void
start_act(weir_task *task, struct act *next)
{
        weir_task_set_context(task, next, free);
        if (node.is_last || random_below(100) >= 3) {
                weir_task_start(task);
                return;
        }
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, task);
        weir_series_set_deadline(series, (weir_nsec)random_below((uint64_t)WEIR_MSEC(8)));
        weir_series_start(series);
}

static inline void
set_one(int name, bool is_aside)
{
        uint64_t dice = is_aside ? 0 : random_below(10);
        weir_nsec after = dice < 4 ? 0 : dice < 8 ? (weir_nsec)random_below((uint64_t)WEIR_MSEC(300)) : FAR_AWAY;
        struct act *next = begin_act(SET_BEGUN, name, after, 0);
        char text[24];

        next->is_aside = is_aside;
        write_name(text, name);
        start_act(weir_durable_set_after_new(node.store, text, after, "t", text, strlen(text), on_told, next), next);
}

static inline void
move_one(int name, bool is_relative, weir_nsec span)
{
        struct act *next = begin_act(MOVE_BEGUN, name, span, is_relative);
        char text[24];

        write_name(text, name);
        start_act(is_relative ? weir_durable_reset_new(node.store, text, span, on_told, next)
                              : weir_durable_extend_new(node.store, text, span, on_told, next),
                  next);
}

static inline void
do_one(enum what what, int name, bool is_aside)
{
        struct act *next = begin_act(what, name, 0, 0);
        char text[24];

        next->is_aside = is_aside;
        write_name(text, name);
        start_act(what == CANCEL_BEGUN   ? weir_durable_cancel_new(node.store, text, on_told, next)
                  : what == GET_BEGUN    ? weir_durable_get_new(node.store, text, on_told, next)
                  : what == FORGET_BEGUN ? weir_durable_forget_new(node.store, text, on_told, next)
                                         : weir_durable_put_back_new(node.store, text, on_told, next),
                  next);
}

/* One of the dead ones is put back, or forgotten. */
static inline void
on_dead(weir_task *task, void *context)
{
        const struct weir_durable_info *info;
        size_t count = 0;

        (void)context;
        pthread_rwlock_rdlock(&node.use);
        while ((info = weir_durable_info(task, count)) != NULL) {
                say((struct event){.what = DEAD_SEEN,
                                   .name = read_name(info->name),
                                   .generation = info->generation,
                                   .attempt = (int)info->attempt});
                count++;
        }
        if (count == 0)
                act_again();
        else if (!node.is_closing)
                do_one(random_below(4) ? BACK_BEGUN : FORGET_BEGUN,
                       read_name(weir_durable_info(task, random_below(count))->name), false);
        pthread_rwlock_unlock(&node.use);
}

/* Soon, lately, or long ago. */
static inline void
move_schedule(void)
{
        uint64_t dice = random_below(10);
        weir_nsec after = dice < 5   ? (weir_nsec)random_below((uint64_t)WEIR_MSEC(200))
                          : dice < 7 ? -(weir_nsec)random_below((uint64_t)WEIR_SEC(5))
                                     : -(weir_nsec)random_below((uint64_t)WEIR_SEC(3600));

        move_one(SCHEDULES + (random_below(2) ? SCHEDULE_ONCE : SCHEDULE_SKIP), true, after);
}

static inline void
do_something(void)
{
        uint64_t dice = random_below(100);

        if (random_below(SCHEDULE_MOVES) == 0)
                move_schedule();
        else if (dice < 50)
                set_one(some_name(), false);
        else if (dice < 74)
                do_one(CANCEL_BEGUN, some_name(), false);
        else if (dice < 82)
                move_one(some_name(), false, (weir_nsec)random_below((uint64_t)WEIR_MSEC(80)) - WEIR_MSEC(40));
        else if (dice < 90)
                move_one(some_name(), true, (weir_nsec)random_below((uint64_t)WEIR_MSEC(60)));
        else if (dice < 97)
                do_one(GET_BEGUN, some_name(), false);
        else
                weir_task_start(weir_durable_dead_new(node.store, "n", NULL, 5, on_dead, NULL));
}

static void
act(weir_task *timer, void *context)
{
        (void)context;
        pthread_rwlock_rdlock(&node.use);
        if (weir_task_status(timer) == 0 && !node.is_closing)
                do_something();
        pthread_rwlock_unlock(&node.use);
}

/* -- handlers -- */

static inline void
say_end(const struct event *begun, int status)
{
        struct event event = *begun;

        event.at = 0;
        event.what = RUN_ENDED;
        event.status = status;
        say(event);
}

/* Whether the engine has got the success: a look a little later. */
static void
look_behind(weir_task *timer, void *context)
{
        const int *name = context;

        pthread_rwlock_rdlock(&node.use);
        if (weir_task_status(timer) == 0 && !node.is_closing)
                do_one(GET_BEGUN, *name, true);
        pthread_rwlock_unlock(&node.use);
}

static inline void
look_later(int name)
{
        int *copy = malloc(sizeof *copy);
        weir_task *timer = weir_timer_new((weir_nsec)random_below((uint64_t)WEIR_MSEC(30)), look_behind, copy);

        if (!copy)
                abort();
        *copy = name;
        weir_task_set_context(timer, copy, free);
        weir_task_start(timer);
}

static inline void
on_pause(weir_task *timer, void *context)
{
        const struct event *run = context;
        int status = weir_task_status(timer);

        if (!status && !node.is_last && run->name < SCHEDULES && (is_cursed(run->name) || random_below(4) == 0)) {
                status = -EIO;
                weir_series_fail(weir_series_of(timer), status);
        }
        say_end(run, status);
        if (!status && !node.is_last && run->name < SCHEDULES && random_below(2))
                look_later(run->name);
}

static inline void
deliver(weir_task *delivery, void *context)
{
        struct event *begun = malloc(sizeof *begun);
        bool is_timer = context != NULL;
        uint64_t dice = random_below(100);

        if (!begun)
                abort();
        *begun = (struct event){.what = RUN_BEGUN,
                                .name = read_name(weir_durable_name(delivery)),
                                .operation = -atomic_fetch_add(&node.operation, 1) - 1,
                                .generation = weir_durable_generation(delivery),
                                .token = weir_durable_token(delivery),
                                .attempt = (int)weir_durable_attempt(delivery),
                                .status = (int)weir_durable_missed(delivery),
                                .span = weir_durable_due(delivery)};
        say(*begun);
        bool is_failing = is_timer && !node.is_last && (dice < 8 || (dice < 70 && is_cursed(begun->name)));
        if (is_failing || dice < 66 || node.is_last) {
                say_end(begun, is_failing ? -EIO : 0);
                if (is_failing)
                        weir_series_fail(weir_series_of(delivery), -EIO);
                else if (is_timer && !node.is_last && dice % 2)
                        look_later(begun->name);
                free(begun);
                return;
        }
        if (is_timer && dice < 76) { /* the timer is set anew, and its next handler may begin before this one ends */
                pthread_rwlock_rdlock(&node.use);
                if (!node.is_closing)
                        set_one(begun->name, true);
                pthread_rwlock_unlock(&node.use);
        }
        weir_nsec takes = dice < 92 ? WEIR_MSEC(40) : is_timer ? 2 * node.lease : WEIR_MSEC(60);
        weir_task *timer = weir_timer_new((weir_nsec)random_below((uint64_t)takes), on_pause, begun);
        weir_task_set_context(timer, begun, free);
        weir_series_push(weir_series_of(delivery), timer);
}

/* -- the first and the last one -- */

static struct {
        uint64_t left;
        int status;
        char behind[24];
        struct weir_durable_info info;
} seen;

static inline void
on_look(weir_task *task, void *context)
{
        const struct weir_durable_info *info = weir_durable_info(task, 0);

        (void)context;
        seen.status = weir_task_status(task);
        seen.info = info ? *info : (struct weir_durable_info){.generation = 0};
}

static inline enum weir_durable_missed_policy
policy_of(int which)
{
        return which == SCHEDULE_ONCE ? WEIR_DURABLE_ONCE : which == SCHEDULE_SKIP ? WEIR_DURABLE_SKIP : WEIR_DURABLE_ALL;
}

/* All nodes may set the same schedule. */
static inline weir_task *
schedule_new(int which, weir_task_fn *done)
{
        char text[24];

        write_name(text, SCHEDULES + which);
        return weir_durable_schedule_new(node.other, text, CRON, "UTC", policy_of(which), "cron", text, strlen(text), done, NULL);
}

/* The schedules begin some hundred minutes ago, so that there is much to fire. */
static inline int
make_schedules(int64_t minutes)
{
        char text[24];

        for (int i = 0; i < SCHEDULE_COUNT; i++) {
                enum weir_durable_missed_policy policy = policy_of(i);
                int64_t before = policy == WEIR_DURABLE_ALL ? minutes : 100; /* a delivery counts up to 256 */

                write_name(text, SCHEDULES + i);
                if (weir_task_run(schedule_new(i, NULL)) ||
                    weir_task_run(weir_durable_extend_new(node.other, text, -before * WEIR_SEC(60), on_look, NULL)))
                        return 1;
                say((struct event){
                        .what = SCHEDULED, .name = SCHEDULES + i, .span = seen.info.due, .attempt = (int)policy});
        }
        return 0;
}

/* What is far away is due at once, and what is dead is put back. */
static inline void
on_left(weir_task *task, void *context)
{
        const struct weir_durable_info *info;

        (void)context;
        seen.left = weir_task_status(task) ? 1 : 0;
        seen.behind[0] = '\0';
        for (size_t i = 0; (info = weir_durable_info(task, i)) != NULL; i++) {
                seen.left++;
                snprintf(seen.behind, sizeof seen.behind, "%.23s", info->name);
                if (info->state == WEIR_DURABLE_DEAD)
                        do_one(BACK_BEGUN, read_name(info->name), false);
                else if (info->state == WEIR_DURABLE_PENDING && info->attempt == 0 && info->ready > weir_wall_now() + WEIR_SEC(1))
                        move_one(read_name(info->name), true, 0);
        }
}

static inline void
end_all_timers(void)
{
        uint64_t left;

        do {
                char behind[24] = "";

                left = 0;
                do {
                        weir_task_run(weir_durable_list_new(node.store, "n", behind, 2000, on_left, NULL));
                        while (atomic_load(&node.running))
                                weir_test_sleep(WEIR_MSEC(1));
                        left += seen.left;
                        memcpy(behind, seen.behind, sizeof behind);
                } while (*behind);
                weir_test_sleep(WEIR_MSEC(20));
        } while (left);
}

static inline void
see_schedules(bool is_over)
{
        char text[24];

        for (int i = 0; i < SCHEDULE_COUNT; i++) {
                write_name(text, SCHEDULES + i);
                do {
                        weir_test_sleep(WEIR_MSEC(10));
                        weir_task_run(weir_durable_get_new(node.store, text, on_look, NULL));
                } while ((seen.status && seen.status != -ENOENT) ||
                         (!is_over && !seen.status && seen.info.due < weir_wall_now()));
                if (is_over && !seen.status)
                        say((struct event){.what = NEXT_DUE,
                                           .name = SCHEDULES + i,
                                           .generation = seen.info.generation,
                                           .span = seen.info.due});
        }
}

/* -- all -- */

static inline weir_durable *
open_store(unsigned attempts)
{
        struct weir_durable_config config = WEIR_DURABLE_CONFIG_DEFAULT;

        config.lease = node.lease;
        config.delay = WEIR_MSEC(20);
        config.max_delay = WEIR_MSEC(200);
        config.attempts = attempts;
        config.look = WEIR_SEC(1);
        config.close_limit = WEIR_MSEC(100);
        config.missed = MISSED;
        return weir_durable_open_with(&config, node.url);
}

static inline int
work(void)
{
        pthread_t clock;
        sigset_t end;
        int signal_number;

        sigemptyset(&end);
        sigaddset(&end, SIGTERM);
        if (pthread_create(&clock, NULL, watch_the_clock, NULL))
                return 1;
        if (weir_durable_on(node.other, "cron", deliver, NULL) || weir_durable_on(node.store, "t", deliver, &node))
                return 1;
        for (int i = 0; i < SCHEDULE_COUNT; i++)
                weir_task_start(schedule_new(i, NULL));
        for (int i = 0; i < LOOPS; i++)
                act_again();
        sigwait(&end, &signal_number);
        pthread_rwlock_wrlock(&node.use);
        node.is_closing = true;
        pthread_rwlock_unlock(&node.use);
        weir_durable_close(node.store);
        weir_durable_close(node.other);
        return 0;
}

static inline int
end_all(void)
{
        node.is_last = true;
        if (weir_durable_on(node.store, "t", deliver, &node) || weir_durable_on(node.other, "cron", deliver, NULL))
                return 1;
        end_all_timers();
        see_schedules(false);
        weir_durable_close(node.other);
        see_schedules(true);
        weir_durable_close(node.store);
        return 0;
}

#define NODE_ARGUMENTS 9

/* Before anything has started a thread. */
static inline void
become_node(char **arguments, unsigned attempts)
{
        signal(SIGPIPE, SIG_IGN);
        node.url = arguments[2];
        node.history = history_open(arguments[3]);
        node.process = atoi(arguments[4]);
        node.random = strtoull(arguments[5], NULL, 10);
        node.lease = strtoll(arguments[6], NULL, 10);
        node.base = strtoll(arguments[7], NULL, 10);
        node.pause = strcmp(arguments[8], "busy") == 0 ? WEIR_MSEC(1) : PAUSE;
        say_clock();
        node.store = open_store(attempts);
        node.other = open_store(1000000);
        if (!node.store || !node.other)
                _exit(3);
}

/* Result: for main. */
static inline int
be_a_node(char **arguments)
{
        const char *mode = arguments[8];

        become_node(arguments, strcmp(mode, "last") == 0 ? 1000000 : ATTEMPTS);
        if (strncmp(mode, "first", 5) == 0) {
                int failed = make_schedules(atoi(mode + 5));

                weir_durable_close(node.store);
                weir_durable_close(node.other);
                return failed;
        }
        int failed = strcmp(mode, "last") == 0 ? end_all() : work();
        _exit(failed); /* as a program that just ends */
}

#endif
