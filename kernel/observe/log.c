/* kernel/observe/log.c: messages, and the log function that takes them.
 *
 * Threads: any.
 * Locks:   logger.lock, a leaf.  It is not held while the log function runs, because that is user code: it may log, set and
 *          block.
 *
 * Each call of the log function is on a list, with the number of the log function at that time.  Its record is on the stack of
 * its thread.  A thread that sets another log function waits until no call with a lower number is left.  Inside a log function it
 * does not wait, because two such calls would wait for each other. */
#include "kernel/observe/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/futex.h"
#include "kernel/base/list.h"
#include "kernel/base/lock.h"
#include "kernel/base/phase.h"
#include "kernel/data/visible.h"

#define DOTS "..."

static weir_log_fn to_stderr;

/* A call of the log function: on the stack of its thread. */
struct call {
        struct weir__link link;
        uint64_t number;
        weir_log_fn *fn;
        void *context;
};

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        weir_log_fn *fn;
        void *context;
        uint64_t number; /* counts the functions that were set */
        struct weir__list calls;
        unsigned waiting; /* threads, for calls to end */

        _Atomic unsigned ended; /* changes when a call has ended while somebody waits: a futex; written under the lock */
} logger = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF), .fn = to_stderr};

void (*weir__log_around)(void (*call)(void *argument), void *argument);

static _Thread_local struct call *own; /* the call that this thread is in */

/* -- forks -- */

/* Another thread may have held the lock or been in a call.  The child does not have it. */
static void
become_child(void)
{
        weir__lock_init(&logger.lock, WEIR__RANK_LEAF);
        logger.calls = (struct weir__list){0};
        logger.waiting = 0;
        if (own)
                weir__list_append(&logger.calls, &own->link);
}

WEIR__STEPS_OF(WEIR__MODULE_LOG, [WEIR__STEP_IN_CHILD] = become_child);

/* -- calls -- */

/* Returns false when there is no log function. */
static bool
begin_call(struct call *call)
{
        weir__lock(&logger.lock);
        *call = (struct call){.number = logger.number, .fn = logger.fn, .context = logger.context};
        if (call->fn) {
                weir__list_append(&logger.calls, &call->link);
                own = call;
        }
        weir__unlock(&logger.lock);
        return call->fn;
}

static void
end_call(struct call *call)
{
        weir__lock(&logger.lock);
        weir__link_remove(&call->link);
        own = NULL;
        bool wake = logger.waiting > 0;
        if (wake)
                atomic_fetch_add_explicit(&logger.ended, 1, memory_order_relaxed);
        weir__unlock(&logger.lock);
        if (wake)
                weir__futex_wake(&logger.ended, WEIR__FUTEX_ALL);
}

static bool
has_call_before(uint64_t number)
{
        const struct weir__link *oldest = weir__list_first(&logger.calls);

        return oldest && weir__container_of(oldest, struct call, link)->number < number;
}

/* The lock is held before and after. */
static void
wait_for_calls_before(uint64_t number)
{
        logger.waiting++;
        while (has_call_before(number)) {
                unsigned seen = atomic_load_explicit(&logger.ended, memory_order_relaxed);

                weir__unlock(&logger.lock);
                weir__futex_wait(&logger.ended, seen);
                weir__lock(&logger.lock);
        }
        logger.waiting--;
}

int
weir_log_set(weir_log_fn *fn, void *context)
{
        int before = errno;

        if (weir__phase_is_forked())
                return -ECHILD;
        weir__lock(&logger.lock);
        logger.fn = fn;
        logger.context = context;
        uint64_t number = ++logger.number;
        if (!own)
                wait_for_calls_before(number);
        weir__unlock(&logger.lock);
        errno = before;
        return 0;
}

/* The log function until another one is set.  It writes a line at once, so that lines of several threads do not mix. */
static void
to_stderr(enum weir_log_level level, const char *message, void *context)
{
        char line[WEIR__LOG_SIZE + 8];

        (void)context;
        if (level > WEIR_LOG_WARNING)
                return;
        int size = snprintf(line, sizeof line, "weir: %s\n", message);
        while (write(STDERR_FILENO, line, (size_t)size) < 0 && errno == EINTR)
                continue;
}

/* -- messages -- */

/* Copies a text into that much room, visibly.  A text that was cut before, or is cut here, ends in dots. */
static void
copy_visibly(char *to, size_t room, const char *from, bool is_cut)
{
        char *end = to + room - sizeof DOTS, piece[WEIR__VISIBLE_PIECE];
        size_t size = strlen(from), at = 0;

        while (at < size) {
                unsigned length = weir__visible_piece(from, size, &at, piece);

                if (to + length > end) {
                        is_cut = true;
                        break;
                }
                memcpy(to, piece, length);
                to += length;
        }
        strcpy(to, is_cut ? DOTS : "");
}

static void
compose(char message[WEIR__LOG_SIZE], unsigned left_out, const char *format, va_list arguments)
{
        char text[WEIR__LOG_SIZE], note[48] = "";
        int size = vsnprintf(text, sizeof text, format, arguments);

        if (left_out)
                snprintf(note, sizeof note, " (%u like this were left out)", left_out);
        copy_visibly(message, WEIR__LOG_SIZE - strlen(note), size < 0 ? format : text, size >= (int)sizeof text);
        strcat(message, note);
}

struct message {
        const struct call *call;
        enum weir_log_level level;
        const char *text;
};

static void
hand_over(void *argument)
{
        const struct message *message = argument;

        message->call->fn(message->level, message->text, message->call->context);
}

static void
say(enum weir_log_level level, unsigned left_out, const char *format, va_list arguments)
{
        char text[WEIR__LOG_SIZE];
        struct call call;
        struct message message = {&call, level, text};

        if (own || weir__phase_is_forked() || !begin_call(&call))
                return;
        compose(text, left_out, format, arguments);
        if (weir__log_around)
                weir__log_around(hand_over, &message);
        else
                hand_over(&message);
        end_call(&call);
}

bool
weir__log_may(struct weir__log_limit *limit, weir_nsec now, unsigned *left_out)
{
        weir_nsec next = atomic_load_explicit(&limit->next, memory_order_relaxed);

        if (now < next ||
            !atomic_compare_exchange_strong_explicit(&limit->next, &next, weir__clock_after(now, WEIR__LOG_INTERVAL),
                                                     memory_order_relaxed, memory_order_relaxed)) {
                atomic_fetch_add_explicit(&limit->left_out, 1, memory_order_relaxed);
                return false;
        }
        *left_out = atomic_exchange_explicit(&limit->left_out, 0, memory_order_relaxed);
        return true;
}

void
weir__log_limited(struct weir__log_limit *limit, enum weir_log_level level, const char *format, ...)
{
        int before = errno;
        unsigned left_out = 0;
        va_list arguments;

        weir__lock_expect_none("weir__log");
        if (limit && !weir__log_may(limit, weir__clock_monotonic(), &left_out))
                return;
        va_start(arguments, format);
        say(level, left_out, format, arguments);
        va_end(arguments);
        errno = before;
}

void
weir_log_write(enum weir_log_level level, const char *format, ...)
{
        int before = errno;
        va_list arguments;

        va_start(arguments, format);
        say(level, 0, format, arguments);
        va_end(arguments);
        errno = before;
}
