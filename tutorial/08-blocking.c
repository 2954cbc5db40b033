/* 08-blocking.c: callbacks that wait for a slow database, beside a timer that has nothing to do with it.
 *
 *     08-blocking
 *
 * A callback should not block, because it runs in the thread that serves timers and connections.  If it blocks all the same, its
 * neighbours are late but not lost: a watchdog sees it after 10 ms, and another worker takes over.  A callback that announces
 * that it will block delays them hardly at all.  There is one poller here, so no other one can help. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <weir/weir.h>

#define QUERIES 8

static _Atomic int answers;
static weir_nsec latest; /* the tick that was late by the most */

/* Stands for the library of a database, which can only wait. */
static void ask_database(void)
{
        usleep(200000);
        answers++;
}

/* Blocks its worker, unannounced. */
static void query(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        ask_database();
}

/* Announces that it will block.  Another worker takes over the other work of this one at once.  The callback stays on its
 * thread, and so does its task. */
static void query_announced(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        if (weir_blocking_begin() == -EAGAIN)
                printf("no other worker is to be had\n"); /* it may block, but others wait for it */
        ask_database();
        weir_blocking_end();
}

/* Comes each millisecond.  Callbacks of one ticker never overlap, so nobody else writes this. */
static void tick(weir_task *ticker, void *context)
{
        weir_nsec late = weir_timer_lateness(ticker);

        (void)context;
        if (late > latest) /* the last callback is no tick: then it is -ENODATA */
                latest = late;
}

/* Prints the messages of the library.  By default warnings and errors go to standard error. */
static void on_message(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        printf("%s: %s\n", level == WEIR_LOG_INFO ? "information" : "warning", message);
}

static int run_round(const char *how, weir_task_fn *callback)
{
        struct weir_stats before = WEIR_STATS_DEFAULT, after = WEIR_STATS_DEFAULT;
        weir_task *all = weir_parallel_new(NULL, NULL);
        char name[16];

        for (int i = 1; i <= QUERIES; i++) {
                snprintf(name, sizeof name, "query %d", i); /* a name, for the messages */
                weir_parallel_add(all, weir_timer_new_named(name, WEIR_MSEC(50), callback, NULL));
        }
        answers = 0;
        latest = 0;
        weir_stats(&before);
        weir_nsec began = weir_now();
        weir_task_start(weir_ticker_new_named("tick", WEIR_MSEC(1), WEIR_TICK_SKIP, tick, NULL));
        int status = weir_task_run(all);
        weir_timer_cancel_wait("tick", WEIR_ALL); /* no tick comes any more: `latest` may be read */
        weir_stats(&after);

        /* Eight of them, 200 ms each, and one poller: they have blocked at the same time, each on a worker of its own. */
        printf("%s: %d answers in %lld ms, a tick was late by %.1f ms at most; %llu hand-overs by the watchdog, %llu announced\n",
               how, answers, (long long)((weir_now() - began) / WEIR_MSEC(1)), (double)latest / 1e6,
               (unsigned long long)(after.taken_over - before.taken_over),
               (unsigned long long)(after.given_away - before.given_away));
        return status;
}

int main(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        setvbuf(stdout, NULL, _IOLBF, 0);
        weir_log_set(on_message, NULL);
        config.pollers = 1;
        int failed = weir_init(&config);
        if (!failed)
                failed = run_round("plainly", query);
        if (!failed)
                failed = run_round("announced", query_announced);
        if (failed)
                fprintf(stderr, "08-blocking: %s\n", weir_strerror(failed));
        return weir_shutdown() != 0 || failed;
}
