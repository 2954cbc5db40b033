/* kernel/worker/blocked.c: messages about functions of the program that block a poller.
 *
 *     it blocks --the watchdog takes its poller--> a notice, logged by another worker --it returns--> a message with the time
 *
 * The notice is for those that never return.  The first of each in a minute is a warning.
 *
 * Threads: any.  The watchdog calls nothing of the program and waits for no lock of the loader: it writes notices only.
 * Locks:   none.
 *
 * Of a notice:   EMPTY --the watchdog writes it--> WRITTEN --a worker reads it--> BEING_READ --> EMPTY
 *
 * The title of a notice has a name that belongs to the callback, and is freed after it.  watchdog.c says why it may be read. */
#include "kernel/worker/blocked.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/data/visible.h"
#include "kernel/observe/log.h"
#include "kernel/worker/user.h"
#include "kernel/worker/worker.h"

#define NAME_SHOWN    96 /* bytes of a name */
#define FUNCTION_ROOM 128

weir_nsec weir__blocked_limit;

/* -- texts -- */

void
weir__blocked_write_title(const struct weir__worker *worker, const struct weir__work *object, char *out, size_t room)
{
        const struct weir__callee *callee = atomic_load_explicit(&worker->callee, memory_order_relaxed);
        const struct weir__work_ops *ops = object ? object->ops : NULL;
        const char *kind = callee && (callee->kind || !ops) ? callee->kind : ops && ops->kind ? ops->kind : "a task";
        int size = 0;
        const char *name = ops && ops->name ? ops->name(object, &size) : NULL;
        size_t shown = name ? weir__utf8_cut(name, (size_t)size, NAME_SHOWN) : 0;

        snprintf(out, room, "%s%s%s%s%.*s%s", callee ? callee->what : "the callback of", kind ? " " : "", kind ? kind : "",
                 name ? " \"" : "", (int)shown, name ? name : "",
                 !name                  ? ""
                 : shown < (size_t)size ? "...\""
                                        : "\"");
}

/* The name of a function, if it is exported; else where it is, for addr2line.  dladdr may wait for a library that is being
 * loaded.  So another worker can have the poller of this thread, if it has one. */
static void
write_function(weir__function *function, char *out, size_t room)
{
        Dl_info where = {0};
        uintptr_t at = (uintptr_t)function;

        if (!at)
                snprintf(out, room, "a function that is not known");
        else if (!dladdr((void *)at, &where) || !where.dli_fname)
                snprintf(out, room, "0x%" PRIxPTR, at);
        else if (where.dli_sname && where.dli_saddr == (void *)at)
                snprintf(out, room, "%s", where.dli_sname);
        else
                snprintf(out, room, "%s+0x%" PRIxPTR,
                         strrchr(where.dli_fname, '/') ? strrchr(where.dli_fname, '/') + 1 : where.dli_fname,
                         at - (uintptr_t)where.dli_fbase);
}

/* The messages of one sort. */
struct sort {
        _Atomic weir_nsec next_warning;
        struct weir__log_limit warned, informed;
};

/* The first message of a minute is a warning. */
static enum weir_log_level
level_of(struct sort *sort)
{
        weir_nsec due = atomic_load_explicit(&sort->next_warning, memory_order_relaxed), now = weir__clock_monotonic();
        bool is_first = now >= due && atomic_compare_exchange_strong_explicit(&sort->next_warning, &due, now + WEIR_SEC(60),
                                                                              memory_order_relaxed, memory_order_relaxed);

        return is_first ? WEIR_LOG_WARNING : WEIR_LOG_INFO;
}

static struct weir__log_limit *
limit_of(struct sort *sort, enum weir_log_level level)
{
        return level == WEIR_LOG_WARNING ? &sort->warned : &sort->informed;
}

/* -- after it has returned -- */

/* About how long the function has run.  0: it has given the poller away; or it was short, and lost a degraded poller. */
static weir_nsec
blocked_for(struct weir__worker *worker)
{
        weir_nsec since = worker->has_given ? 0 : atomic_exchange_explicit(&worker->blocks_since, 0, memory_order_relaxed);
        weir_nsec blocked = since ? weir__clock_monotonic() - since : 0;

        return blocked >= weir__blocked_limit ? blocked : 0;
}

void
weir__blocked_report(struct weir__worker *worker, const struct weir__work *object)
{
        static struct sort sort;
        weir_nsec blocked = blocked_for(worker);
        char title[WEIR__BLOCKED_TITLE], function[FUNCTION_ROOM];

        if (!blocked)
                return;
        enum weir_log_level level = level_of(&sort);
        weir__blocked_write_title(worker, object, title, sizeof title);
        write_function(atomic_load_explicit(&worker->function, memory_order_relaxed), function, sizeof function);
        weir__log_limited(limit_of(&sort, level), level,
                          "%s (%s) ran for %lld ms: another worker has taken over what waited behind it", title, function,
                          (long long)(blocked / 1000000));
}

/* -- notices -- */

enum { EMPTY, WRITTEN, BEING_READ };

static struct notice {
        _Atomic unsigned state; /* acquire, release */

        /* The watchdog's while it is EMPTY, then the reader's. */
        unsigned poller;
        weir__function *function;
        char title[WEIR__BLOCKED_TITLE];
} notices[WEIR__NOTICES];

_Atomic bool weir__blocked_has_notice;

void
weir__blocked_leave_notice(enum weir__notice number, unsigned poller, const char *title, weir__function *function)
{
        struct notice *notice = &notices[number];

        if (atomic_load_explicit(&notice->state, memory_order_acquire) != EMPTY)
                return;
        notice->poller = poller;
        notice->function = function;
        snprintf(notice->title, sizeof notice->title, "%s", title);
        atomic_store_explicit(&notice->state, WRITTEN, memory_order_release);
        atomic_store_explicit(&weir__blocked_has_notice, true, memory_order_release);
}

static void
log_notice(enum weir__notice number, struct notice *notice)
{
        static const char *const texts[WEIR__NOTICES] = {
                [WEIR__NO_IDLE_WORKER] =
                        "%s (%s) blocks poller %u, and no spare worker is to be had: what else is ready there waits",
                [WEIR__TAKEN] = "%s (%s) blocks poller %u, which another worker has now"};
        static struct weir__log_limit starved;
        static struct sort taken;
        unsigned state = WRITTEN;
        char function[FUNCTION_ROOM];

        if (!atomic_compare_exchange_strong_explicit(&notice->state, &state, BEING_READ, memory_order_acquire,
                                                     memory_order_relaxed))
                return;
        enum weir_log_level level = number == WEIR__TAKEN ? level_of(&taken) : WEIR_LOG_WARNING;
        write_function(notice->function, function, sizeof function);
        weir__log_limited(number == WEIR__TAKEN ? limit_of(&taken, level) : &starved, level, texts[number], notice->title,
                          function, notice->poller);
        atomic_store_explicit(&notice->state, EMPTY, memory_order_release);
}

void
weir__blocked_log_notices(void)
{
        static const struct weir__callee callee = {"the log function", NULL, "a log function"};

        if (!atomic_exchange_explicit(&weir__blocked_has_notice, false, memory_order_acquire))
                return;
        struct weir__user_call call = weir__user_begin_as(&callee, NULL, NULL); /* it is the program's */
        for (unsigned i = 0; i < WEIR__NOTICES; i++)
                log_notice(i, &notices[i]);
        weir__user_end_as(call);
}
