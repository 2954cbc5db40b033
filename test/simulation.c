/* test/simulation.c: the lives of the runtime, the callbacks and their checks, and the report of a difference.
 *
 * Threads: the main thread starts the runtime and lets time pass; the worker runs callbacks, in which it acts; the other thread
 *          acts when a callback asks for it and waits.  So there is one at a time, and the same seed does the same.
 * Locks:   none; the two semaphores hand the turn over. */
#include "factory/task/task.h"
#include "kernel/memory/memory.h"
#include "test/simulation_driver.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PATIENCE 20 /* seconds until nothing more is expected to happen */

struct simulation simulation;

/* -- the key of the names, and blocks -- */

/* The key decides in which order names are gone through: it is the same in every run. */
ssize_t __wrap_getrandom(void *buffer, size_t size, unsigned flags);

ssize_t
__wrap_getrandom(void *buffer, size_t size, unsigned flags)
{
        (void)flags;
        memset(buffer, 0x5a, size);
        return (ssize_t)size;
}

static _Atomic int64_t blocks; /* allocated and not freed */

void *__real_weir__alloc(size_t size);
void __real_weir__free(void *block, size_t size);
void *__wrap_weir__alloc(size_t size);
void __wrap_weir__free(void *block, size_t size);

void *
__wrap_weir__alloc(size_t size)
{
        atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
        return __real_weir__alloc(size);
}

void
__wrap_weir__free(void *block, size_t size)
{
        atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
        __real_weir__free(block, size);
}

/* -- the log of events -- */

void
simulation_note(char where, const char *what, int64_t a, int64_t b, int64_t c)
{
        uint64_t hash = simulation.result.hash;

        simulation.trace[simulation.events++ % SIMULATION_TRACE] = (struct simulation_event){
                simulation.step, model.now, what, where, a, b, c};
        for (unsigned i = 0; i < 4; i++)
                hash = (hash ^ (uint64_t)(int64_t[]){model.now, a, b, c}[i]) * 0x100000001b3;
        simulation.result.hash = hash;
}

static void
print_trace(void)
{
        uint64_t count = simulation.setup.trace;

        if (count > SIMULATION_TRACE)
                count = SIMULATION_TRACE;
        if (count > simulation.events)
                count = simulation.events;
        for (uint64_t i = simulation.events - count; i < simulation.events; i++) {
                const struct simulation_event *event = &simulation.trace[i % SIMULATION_TRACE];

                fprintf(stderr, "%10" PRIu64 " %20" PRId64 " %c %-20s %" PRId64 " %" PRId64 " %" PRId64 "\n", event->step,
                        event->now, event->where, event->what, event->a, event->b, event->c);
        }
}

void
simulation_differs(const char *format, ...)
{
        va_list arguments;

        print_trace();
        fprintf(stderr, "simulation: seed %" PRIu64 ", step %" PRIu64 ", at %" PRId64 ": ", simulation.setup.seed,
                (uint64_t)simulation.step, model.now);
        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fputc('\n', stderr);
        fflush(stderr);
        if (simulation.setup.differs_at)
                *simulation.setup.differs_at = simulation.step;
        _exit(1);
}

/* -- callbacks -- */

/* Whether the deadline of a series has ended it: it may have, as soon as it has come, and those that come before it have.  (It
 * may also have been a later one of what the series is within; then that is seen next.) */
static void
see_deadline(struct flow *flow)
{
        if (!model_is_open(flow) || weir_series_cause(flow->handle) != WEIR_CAUSE_TIMED_OUT)
                return;
        const struct flow *earlier = model_earlier_deadline(flow->deadline);
        const struct task *task = model_earlier_than(flow);
        if (!model.stopping && flow->deadline_waits_for_jump <= model.jumps && (earlier || task))
                simulation_differs("series %" PRIu64 " (deadline %" PRId64 ") was ended before %s %" PRIu64, flow->serial,
                                   flow->deadline, earlier ? "series" : "task", earlier ? earlier->serial : task->serial);
        simulation_note(' ', "deadline", (int64_t)flow->serial, flow->deadline, 0);
        model_stop_flow(flow, -ETIMEDOUT);
}

void
simulation_see_deadlines(void)
{
        for (weir_nsec instant = INT64_MIN, next; instant != WEIR_FOREVER; instant = next) {
                next = WEIR_FOREVER;
                for (unsigned i = 0; i < model.flow_count; i++) {
                        struct flow *flow = model.kept[i];

                        if (!model_is_open(flow) || flow->deadline < instant)
                                continue;
                        if (flow->deadline == instant)
                                see_deadline(flow);
                        else if (flow->deadline < next)
                                next = flow->deadline;
                }
        }
}

/* Something is called back: nothing that should have come before is missing, and time has gone on only to what is due. */
void
simulation_arrive(const struct task *task)
{
        weir_nsec now = weir_now();
        weir_nsec next = now != model.now ? model_next_instant() : 0;

        simulation.step++;
        simulation.result.callbacks++;
        if (simulation.unfreed)
                simulation_differs("task %" PRIu64 " was not freed right after its callback", simulation.unfreed->serial);
        if (now == model.now) {
                simulation_see_deadlines();
                return;
        }
        if (now < model.now || model.soon || model.stopping)
                simulation_differs("time went on to %" PRId64 " while %u were to end before", now, model.soon);
        if (next == WEIR_FOREVER || now > next)
                simulation_differs("time went on to %" PRId64 ", and not to %" PRId64, now, next);
        model.now = now;
        model.jumps++;
        simulation_see_deadlines();
        if (!task || (task->place != PENDING && task->place != SOON))
                simulation_differs("time went on to %" PRId64 " for nothing", now);
}

void
simulation_act_some(const struct actor *actor, unsigned most)
{
        for (uint64_t i = below(most + 1); i > 0; i--)
                simulation_act(actor);
}

void
simulation_check_expired(const struct task *task)
{
        if (model.now < task->earliest)
                simulation_differs("task %" PRIu64 " ended before its deadline, %" PRId64, task->serial, task->earliest);
        const struct flow *flow = model_earlier_deadline(task->earliest);
        if (flow)
                simulation_differs("task %" PRIu64 " (due %" PRId64 ") came before the deadline of series %" PRIu64 ", %" PRId64,
                                   task->serial, task->earliest, flow->serial, flow->deadline);
        const struct task *earlier = model_earlier(task);
        if (earlier)
                simulation_differs("task %" PRIu64 " (due %" PRId64 ", set at %" PRId64 ") came before task %" PRIu64
                                   " (due %" PRId64 ", set at %" PRId64 ")",
                                   task->serial, task->latest, task->set_at, earlier->serial, earlier->latest, earlier->set_at);
}

#define CHECK_TICK(what, expected)                                                                                   \
        do {                                                                                                         \
                int64_t is_ = (int64_t)weir_ticker_##what(handle), should_ = (int64_t)(expected);                    \
                if (is_ != should_)                                                                                  \
                        simulation_differs("tick of task %" PRIu64 ": " #what " is %" PRId64 ", should be %" PRId64, \
                                           task->serial, is_, should_);                                              \
        } while (0)

static bool
is_lying(const struct task *task)
{
        return simulation.setup.lie_at && simulation.step >= simulation.setup.lie_at && task->policy == WEIR_TICK_SKIP;
}

static void
tick(struct task *task, weir_task *handle)
{
        simulation_arrive(task);
        simulation_note('w', "tick", (int64_t)task->serial, (int64_t)task->count, task->due);
        if (task->kind != TICKER || task->place != PENDING)
                simulation_differs("task %" PRIu64 " ticks, and is in place %d", task->serial, task->place);
        if (!model.stopping)
                simulation_check_expired(task);
        task->count++;
        simulation.result.ticks++;
        if (!task->touched) {
                CHECK_TICK(scheduled, task->due);
                CHECK_TICK(missed, task->next_missed + is_lying(task));
        }
        CHECK_TICK(actual, model.now);
        CHECK_TICK(count, task->count);
        model_began(task);
        task->next_missed = 0;
        task->place = RUNNING;
        task->ticking = true;
        simulation_act_some(&(struct actor){.self = task, .handle = handle, .where = 'w'}, 2);
        model_tick_over(task);
}

/* Whether the callback may see that, and which it should see. */
static bool
status_fits(const struct task *task, int status, int *expected)
{
        int cause = task->called_off ? -ECANCELED : model_cause(task->flow);

        if (cause == -ESHUTDOWN)
                cause = 0;
        *expected = cause ? cause : task->kind >= PARALLEL ? model_combinator_status(task) : 0;
        if (cause || !model.stopping || task->place != PENDING)
                return status == *expected;
        *expected = -ESHUTDOWN;
        return status == -ESHUTDOWN || (status == 0 && task->kind == TIMER && task->earliest <= model.now);
}

void
simulation_task_called(weir_task *handle, void *context)
{
        struct task *task = context;
        int status = weir_task_status(handle), expected;

        if (status == -EINPROGRESS) {
                tick(task, handle);
                return;
        }
        if (task->kind == FIBER && task->place == WAITING && !task->begun) {
                simulation_arrive(task->own);
                model_fiber_never_begins(task);
        } else {
                simulation_arrive(task);
        }
        simulation_note('w', "callback", (int64_t)task->serial, status, task->kind);
        if ((task->place != PENDING && task->place != SOON) || task->handle != handle)
                simulation_differs("task %" PRIu64 " is called back in place %d", task->serial, task->place);
        if (!status_fits(task, status, &expected))
                simulation_differs("task %" PRIu64 " ended with %d, should have with %d", task->serial, status, expected);
        if (task->place == PENDING && task->kind == TICKER && !model.stopping)
                simulation_differs("ticker %" PRIu64 " ended by itself", task->serial);
        if (task->place == PENDING && !model.stopping)
                simulation_check_expired(task);
        if (task->kind == RACE && weir_race_winner(handle) != (task->winner < 0 ? -ENOENT : task->winner))
                simulation_differs("race %" PRIu64 " was won by %d, should by %d", task->serial, weir_race_winner(handle),
                                   task->winner);
        model_began(task);
        model.soon -= task->place == SOON;
        task->place = RUNNING;
        task->status = status;
        struct actor actor = {.self = task, .handle = handle, .where = 'w'};
        simulation_act_some(&actor, task->pulse ? 6 : 2);
        if (task->pulse)
                simulation_start_pulse(&actor);
        model_callback_over(task);
        simulation.unfreed = task;
}

void
simulation_flow_called(weir_series *series, void *context)
{
        struct flow *flow = context;
        int status = weir_series_status(series);

        simulation_arrive(NULL);
        simulation_note('w', "series ends", (int64_t)flow->serial, status, 0);
        if ((flow->place != FLOW_ENDING && !flow->stepping) || flow->handle != series)
                simulation_differs("series %" PRIu64 " is called back in place %d", flow->serial, flow->place);
        int should = model_flow_callback(flow, status);
        if (status != should)
                simulation_differs("series %" PRIu64 " ended with %d, should have with %d", flow->serial, status, should);
        if (!model_has_dropped_all(flow))
                simulation_differs("series %" PRIu64 " ended before its tasks were freed", flow->serial);
        simulation_act_some(&(struct actor){.flow = flow, .where = 'w'}, 2);
        model_flow_callback_over(flow);
}

void
simulation_task_freed(void *context)
{
        struct task *task = context;

        simulation_note(' ', "freed", (int64_t)task->serial, task->place, 0);
        if (task->place != DROPPED && task->place != ENDED)
                simulation_see_deadlines();
        if (task->unsure && (task->place == SOON || task->place == WAITING)) {
                model_was_not_started(task);
                return;
        }
        if (task->place == QUEUED && task->flow->fed && task->flow->parallel->may_leave)
                model_fiber_drops(task->flow->parallel);
        if (task->place != DROPPED && (task->place != ENDED || task != simulation.unfreed))
                simulation_differs("task %" PRIu64 " is freed in place %d", task->serial, task->place);
        if (task == simulation.unfreed) /* a fiber that goes on in its callback may give another one back before */
                simulation.unfreed = NULL;
        model_freed(task);
}

/* -- the other thread -- */

static void
wait_to_be_asked(void)
{
        for (uint64_t before = UINT64_MAX;;) {
                struct timespec until;

                clock_gettime(CLOCK_REALTIME, &until); /* sem_clockwait is unknown to ThreadSanitizer */
                until.tv_sec += PATIENCE;
                if (sem_timedwait(&simulation.ask, &until) == 0)
                        return;
                if (errno == ETIMEDOUT && before == simulation.step)
                        simulation_differs("nothing happens any more");
                before = simulation.step;
        }
}

static void *
foreign_main(void *unused)
{
        const struct actor actor = {.where = 'f'};

        (void)unused;
        for (;;) {
                wait_to_be_asked();
                if (simulation.foreign == FOREIGN_END)
                        return NULL;
                if (simulation.foreign == FOREIGN_ACT)
                        simulation_act_some(&actor, 5);
                else if (weir_shutdown() != 0)
                        simulation_differs("weir_shutdown failed");
                sem_post(&simulation.done);
        }
}

/* -- lives -- */

static weir_nsec
begin_life(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        config.timer_slack = one_in(4) ? (weir_nsec)below(WEIR_MSEC(10)) : 0;
        if (weir_init(&config) != 0)
                simulation_differs("weir_init failed");
        simulation.slack = config.timer_slack;
        simulation.limit = simulation.setup.objects ? simulation.setup.objects : one_in(32) ? 1500 : 4u << below(7);
        simulation.life_ends_at = simulation.step + (16u << below(11));
        return weir_now();
}

/* All tasks that were started have ended, and the others are as they were. */
static void
check_end_of_life(void)
{
        if (model.soon || model.starting || simulation.unfreed)
                simulation_differs("after shutdown, %u were to end still", model.soon);
        for (unsigned i = 0; i < model.alive_count; i++) {
                struct task *task = model.alive[i];

                if (task->place != HELD && task->place != QUEUED && task->place != IDLE)
                        simulation_differs("after shutdown, task %" PRIu64 " was in place %d", task->serial, task->place);
                task->id_unsure = true;
        }
        for (unsigned i = 0; i < model.flow_count; i++)
                if (model.kept[i]->place == FLOW_RUNNING || model.kept[i]->place == FLOW_ENDING)
                        simulation_differs("after shutdown, series %" PRIu64 " was in place %d", model.kept[i]->serial,
                                           model.kept[i]->place);
}

/* Time passes until the runtime ends: by itself, or in steps. */
static int
let_time_pass(void)
{
        int status = 0;

        if (one_in(2))
                return weir_task_run(weir_timer_new(WEIR_FOREVER, NULL, NULL));
        while (status == 0) {
                weir_nsec until = weir_now() + (weir_nsec)(UINT64_C(1) << 42);

                status = weir_clock_run_until(until);
                if (status == 0 && (weir_now() != until || model.soon || !model_next() || model_next_instant() <= until))
                        simulation_differs("a step to %" PRId64 " ended at %" PRId64 ", with %u to end", until, weir_now(),
                                           model.soon);
        }
        return status;
}

static void
live(void)
{
        const struct actor actor = {.where = 'm'};
        int status;

        model.now = begin_life();
        model.stopping = false;
        simulation.up = true;
        simulation.result.lives++;
        simulation_note('m', "init", simulation.limit, simulation.slack, 0);
        simulation_start_pulse(&actor);
        status = let_time_pass();
        sem_wait(&simulation.done);
        simulation_note('m', "end", status, 0, 0);
        if (status != -ESHUTDOWN)
                simulation_differs("time passed until %d", status);
        check_end_of_life();
        simulation.up = false;
        simulation_act_some(&actor, 6);
}

static void
check_blocks(void)
{
        simulation_put_away();
        weir__task_free_kept();
        weir__series_unref_kept();
        if (model.alive_count || model.flow_count || blocks)
                simulation_differs("%u tasks, %u series and %" PRId64 " blocks are left", model.alive_count, model.flow_count,
                                   (int64_t)blocks);
}

void
simulation_run(const struct simulation_setup *setup, struct simulation_result *result)
{
        pthread_t foreign;

        memset(&simulation, 0, sizeof simulation);
        simulation.setup = *setup;
        simulation.random.state = setup->seed;
        model_begin();
        sem_init(&simulation.ask, 0, 0);
        sem_init(&simulation.done, 0, 0);
        if (pthread_create(&foreign, NULL, foreign_main, NULL) != 0)
                simulation_differs("no thread can be had");
        while (simulation.step < setup->steps) {
                live();
                if (one_in(8))
                        check_blocks();
        }
        check_blocks();
        simulation.foreign = FOREIGN_END;
        sem_post(&simulation.ask);
        pthread_join(foreign, NULL);
        simulation.result.steps = simulation.step;
        *result = simulation.result;
}
