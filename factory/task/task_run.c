/* factory/task/task_run.c: tasks on their way through a worker, and what the program asks of one task.
 *
 * Threads: start, run and dismiss on any thread; the rest on the worker that runs the task. */
#include "factory/task/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "factory/task/live.h"
#include "factory/task/series_extra.h"
#include "kernel/observe/log.h"
#include "kernel/memory/memory.h"
#include "kernel/memory/sanitized.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/user.h"

void
weir__task_call(struct weir_task *task)
{
        atomic_store_explicit(&task->word, WEIR__RUNNING, memory_order_release);
        int verdict = weir__series_verdict(task->series);
        if (verdict)
                task->status = verdict;
        weir__task_call_back(task);
}

static inline void
call(struct weir_task *task, struct weir__worker *worker)
{
        worker->task = &task->work;
        unsigned before = weir__user_begin((weir__function *)task->done);
        task->done(task, task->context);
        weir__user_end(before); /* where a child of fork() that has returned ends */
        worker->task = NULL;
}

static __attribute__((cold, noinline)) void
call_traced(struct weir_task *task, struct weir__worker *worker)
{
        const struct weir__task_ops *ops = weir__task_ops(task);
        weir_nsec lateness = ops->lateness ? ops->lateness(task) : -1;
        struct weir__trace_facts facts = {.kind = ops->work.kind,
                                          .has_status = true,
                                          .status = task->status,
                                          .has_lateness = lateness >= 0,
                                          .lateness = lateness};
        struct weir__trace_slice slice;

        struct weir_series *series = task->series;
        bool is_fed = series && weir__series_is_fed(series); /* arrows lead from one stretch of the fiber to the next */

        weir__series_trace(series, &slice);
        if (is_fed)
                slice.from = (struct weir__trace_point){0};
        call(task, worker);
        facts.name = ops->name ? ops->name(task, &facts.name_size) : NULL;
        weir__trace_end(&slice, &facts, is_fed ? NULL : weir__series_trace_flow(task->series));
}

void
weir__task_call_back(struct weir_task *task)
{
        struct weir__worker *worker = weir__worker_self();
        const struct weir__poller *poller = worker->poller;

        if (!task->done)
                return;
        if (weir__trace_is_on())
                call_traced(task, worker);
        else
                call(task, worker);
        if (__builtin_expect(worker->poller != poller, 0))
                weir__blocked_report(worker, &task->work);
}

void
weir__task_go_on(struct weir_series *series)
{
        if (series)
                weir__series_go_on(series);
        else
                weir__runtime_leave();
}

void
weir__task_finish(struct weir_task *task)
{
        weir__task_leave(task);
        struct weir_series *series = task->series;
        /* Not before the series has left it: a cancel of the series may look at what the kind holds, such as a lock. */
        weir__task_release(task, false);
        weir__task_free(task);
        weir__task_go_on(series);
}

void
weir__task_complete(struct weir__work *work)
{
        struct weir_task *task = (struct weir_task *)work;

        weir__task_call(task);
        weir__task_finish(task);
}

/* -- the public face -- */

static int
enter_and_prepare(struct weir_task *task)
{
        int failed = weir__runtime_enter();

        if (failed || !weir__task_ops(task)->prepare)
                return failed;
        failed = weir__task_ops(task)->prepare(task);
        if (failed)
                weir__runtime_leave();
        return failed;
}

int
weir_task_start(weir_task *task)
{
        if (!task)
                return -ENOMEM;
        weir__task_consume(task, WEIR__ACT_START);
        int failed = task->flags & WEIR__TASK_POISONED ? task->status : enter_and_prepare(task);
        if (failed)
                weir__task_discard(task);
        else
                weir__task_ops(task)->start(task);
        return failed;
}

int
weir_task_run(weir_task *task)
{
        if (!task)
                return -ENOMEM;
        weir__task_consume(task, WEIR__ACT_RUN);
        int failed = task->flags & WEIR__TASK_POISONED ? task->status : weir__runtime_may_wait();
        if (failed) {
                weir__task_discard(task);
                return failed;
        }
        return weir_series_run(weir__series_wrap(task));
}

void
weir_task_dismiss(weir_task *task)
{
        if (!task)
                return;
        weir__task_mark_consumed(task, WEIR__ACT_DISMISS);
        weir__task_discard(task);
}

/* -- the series of a lone task -- */

struct weir_series *
weir__task_make_series(struct weir_task *task)
{
        const struct weir__task_ops *ops = weir__task_ops(task);
        struct weir_series *series = weir_series_new(NULL, NULL);

        if (!series) {
                if (ops->series_failed)
                        ops->series_failed(task);
                return NULL;
        }
        if (ops->series_ops)
                series->work.ops = &ops->series_ops->work;
        series->owner = task;
        series->current = task;
        series->state = WEIR__SERIES_RUNNING;
        task->series = series;
        weir__live_add(series);
        if (ops->series_made)
                ops->series_made(series);
        return series;
}

int
weir__task_prepare_series(struct weir_task *task)
{
        return weir__task_make_series(task) ? 0 : -ENOMEM;
}

weir_series *
weir_series_of(const weir_task *task)
{
        weir__memory_expect(task);
        if (!task)
                return NULL;
        if (task->series || (atomic_load_explicit(&task->word, memory_order_relaxed) & WEIR__STATE) != WEIR__RUNNING)
                return task->series;
        return weir__task_make_series((struct weir_task *)task); /* the task is the callback's: const guards its caller only */
}

/* -- the empty task -- */

static const struct weir__task_ops empty_ops = {
        .work = {.run = weir__task_complete,
                 .kind = "an empty task",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .start = weir__task_make_ready,
};

weir_task *
weir_empty_new(weir_task_fn *done, void *context)
{
        struct weir_task *task = weir__alloc(sizeof *task);

        if (task)
                weir__task_init(task, &empty_ops, sizeof *task, done, context);
        return task;
}

/* -- what was never started --
 *
 * It costs nothing before the shutdown, or a dump, which looks at each block of memory that is in use.  A task or a series that
 * was started, pushed, added or dismissed once shows that for ever, also in memory that was freed.  So what is counted was made,
 * and is still there.  Tasks that are larger than the blocks of the caches are found by others.  Other threads may go on making
 * tasks: those of this instant are counted. */

#define KINDS 8 /* that are counted each; all others together */

struct count {
        const char *kind;
        size_t count;
};

#define FINDERS 1

static void (*finders[FINDERS])(struct weir__census *census); /* constant after the load; NULL behind the last one */

struct weir__census {
        struct weir__constants constants;
        struct count kinds[KINDS + 1]; /* in the order in which they were found */
        size_t count;
        bool is_total_only;               /* nothing but `count` is wanted, and tasks may be written to */
        char first[WEIR__TASK_TITLE];     /* the title of the first task with a name; "": there is none */
        const struct weir_series *series; /* the first one; NULL: there is none */
};

static void
count(struct weir__census *census, const char *kind)
{
        struct count *at = census->kinds;

        while (at < census->kinds + KINDS && at->count && at->kind != kind && strcmp(at->kind, kind) != 0)
                at++;
        at->kind = at < census->kinds + KINDS ? kind : "task of another kind";
        at->count++;
        census->count++;
}

static void
count_block(struct weir__census *census, const struct weir_task *task, const struct weir__work_ops *ops)
{
        char title[WEIR__TASK_TITLE];

        count(census, weir__kind_without_article(ops->kind));
        if (!*census->first && !census->is_total_only && weir__task_write_title(&census->constants, task, title))
                memcpy(census->first, title, sizeof title);
}

void
weir__census_count(struct weir__census *census, const struct weir_task *task)
{
        char title[WEIR__TASK_TITLE];

        count(census, weir__kind_without_article(task->work.ops->kind));
        if (!*census->first && !census->is_total_only && weir__task_write_title_of_live(task, title))
                memcpy(census->first, title, sizeof title);
}

void
weir__census_add_finder(void (*find)(struct weir__census *census))
{
        size_t at = 0;

        while (at < FINDERS && finders[at])
                at++;
        if (at == FINDERS)
                weir__panic("census: expected at most %d finders", FINDERS);
        finders[at] = find;
}

/* Under a lock of the memory. */
static void
look(const void *block, size_t size, void *context)
{
        struct weir__census *census = context;
        const struct weir__work_ops *ops;

        if (weir__series_is_unstarted(block, size)) {
                count(census, "series");
                census->series = census->series ? census->series : block;
        } else if ((ops = weir__task_unstarted(&census->constants, block, size))) {
                count_block(census, block, ops);
        }
}

/* If no task has a name the first series may have one. */
static void
find_series_name(struct weir__census *census)
{
        char name[96];

        if (*census->first || !census->series)
                return;
        weir__series_find_name(census->series, name, sizeof name);
        if (*name)
                snprintf(census->first, sizeof census->first, "series \"%s\"", name);
}

/* "timers", "retries", "mailboxes", "series", "tasks of another kind" */
static void
write_count(char *out, size_t room, const struct count *counted)
{
        const char *kind = counted->kind, *rest = strstr(kind, " of ");
        size_t size = rest ? (size_t)(rest - kind) : strlen(kind);
        char last = kind[size - 1];

        if (counted->count == 1 || last == 's')
                snprintf(out, room, "%zu %s", counted->count, kind);
        else if (last == 'y')
                snprintf(out, room, "%zu %.*sies%s", counted->count, (int)size - 1, kind, kind + size);
        else
                snprintf(out, room, "%zu %.*s%s%s", counted->count, (int)size, kind, last == 'x' || last == 'h' ? "es" : "s",
                         kind + size);
}

static void
say(const struct weir__census *census)
{
        char counts[WEIR__LOG_SIZE / 2] = "", one[64];
        size_t kinds = 0;

        while (kinds <= KINDS && census->kinds[kinds].count)
                kinds++;
        for (size_t i = 0; i < kinds; i++) {
                write_count(one, sizeof one, &census->kinds[i]);
                snprintf(counts + strlen(counts), sizeof counts - strlen(counts), "%s%s",
                         i == 0           ? ""
                         : i == kinds - 1 ? " and "
                                          : ", ",
                         one);
        }
        weir__log(WEIR_LOG_WARNING, "%s %s made and never started%s%s", counts, census->count == 1 ? "was" : "were",
                  *census->first ? "; first: " : "", census->first);
}

static void
take_census(struct weir__census *census)
{
        census->constants = weir__task_constants();
        weir__memory_for_each(look, census);
        for (size_t i = 0; i < FINDERS && finders[i] && !WEIR__SANITIZED_THREAD; i++) /* it would call the reads of flags races */
                finders[i](census);
}

size_t
weir__census_total(void)
{
        struct weir__census census = {.is_total_only = true};

        take_census(&census);
        return census.count;
}

static void
report_unstarted(void)
{
        struct weir__census census = {.is_total_only = false};

        take_census(&census);
        find_series_name(&census);
        if (census.count)
                say(&census);
}

WEIR__STEPS_OF(WEIR__MODULE_TASKS, [WEIR__STEP_ENDED] = report_unstarted);
