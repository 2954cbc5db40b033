/* net/connect/attempts.c: attempts to connect to the addresses of a name, side by side.
 *
 *     the first address --250 ms, or it fails--> the next one beside it --> ...
 *         the first that connects wins: the others are closed
 *         none is left: the last failure
 *
 * Threads: the owner of the poller.
 * Locks:   none.
 *
 * A Unix socket without room is tried again, by the same timer. */
#include "net/connect/attempts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/loop/deadlines.h"
#include "kernel/loop/pollers.h"
#include "kernel/socket/connect.h"
#include "net/stream/stream.h"

#define AGAIN_FIRST WEIR_MSEC(1) /* while a Unix socket has no room for a connection; then twice as long each time */
#define AGAIN_LAST  WEIR_MSEC(64)

/* Its work may be on its way when the attempts are over. */
struct weir__attempt_timer {
        struct weir__alarm alarm;
        struct weir__attempts *attempts; /* NULL: they are over.  Owner of the poller */
};

/* -- the timer -- */

static void timer_run(struct weir__work *work);

static const struct weir__work_ops timer_ops = {.run = timer_run};

/* Result: -EINPROGRESS, or why it cannot be set. */
static int
set_timer(struct weir__attempts *attempts, weir_nsec after)
{
        struct weir__attempt_timer *timer = calloc(1, sizeof *timer);

        if (!timer)
                return -ENOMEM;
        timer->alarm.work.ops = &timer_ops;
        timer->attempts = attempts;
        if (!weir__alarm_set(weir__poller_at(attempts->poller), &timer->alarm, weir__clock_after(weir__clock_now(), after))) {
                free(timer);
                return -ESHUTDOWN;
        }
        attempts->timer = timer;
        return -EINPROGRESS;
}

static void
forget_timer(struct weir__attempts *attempts)
{
        struct weir__attempt_timer *timer = attempts->timer;

        attempts->timer = NULL;
        if (timer)
                timer->attempts = NULL;
        if (timer && weir__alarm_clear(weir__poller_at(attempts->poller), &timer->alarm))
                free(timer); /* else its work is on its way */
}

/* -- an attempt -- */

static void go_on(struct weir__holder *holder);

static const struct weir__holder_ops holder_ops = {.go_on = go_on};

static void
drop(struct weir__attempt *attempt)
{
        struct weir_stream *stream = attempt->stream;

        attempt->stream = NULL;
        if (weir__link_is_used(&attempt->link))
                weir__link_remove(&attempt->link);
        if (stream) {
                weir__stream_give_back(stream);
                weir__stream_fail(stream, -ECONNABORTED);
                weir_stream_unref(stream);
        }
        if (attempt != &attempt->attempts->first)
                free(attempt);
}

static void
drop_all(struct weir__attempts *attempts)
{
        struct weir__link *link;

        while ((link = weir__list_first(&attempts->running)))
                drop(weir__container_of(link, struct weir__attempt, link));
}

/* It is connected. */
static void
win(struct weir__attempt *attempt)
{
        struct weir__attempts *attempts = attempt->attempts;
        struct weir_stream *stream = attempt->stream;
        bool is_ready = stream->transport.is_ready;

        attempts->stream = stream;
        attempts->last = attempt->name;
        attempt->stream = NULL;
        weir__stream_give_back(stream);
        stream->transport.is_ready = is_ready;
        drop(attempt);
        drop_all(attempts);
        forget_timer(attempts);
}

/* Result: 0: it is connected; -EINPROGRESS; what has failed. */
static int
open_stream(struct weir__attempt *attempt, const struct weir__socket_address *name)
{
        bool is_under_way;
        int fd = weir__connect(name, &is_under_way);

        if (fd < 0)
                return fd;
        attempt->stream = weir__stream_new(fd, attempt->attempts->poller);
        if (!attempt->stream) {
                struct weir__stream stream = {.source.fd = fd};

                weir__stream_close(&stream);
                return -ENOMEM;
        }
        weir__stream_hold(attempt->stream, &holder_ops, &attempt->holder);
        int failed = weir__stream_open(attempt->stream);
        if (is_under_way)
                attempt->stream->transport.is_ready = false; /* the event that tells of the connection tells of input as well */
        return failed ? failed : is_under_way ? -EINPROGRESS : 0;
}

/* Begins an attempt.  Result: as open_stream; -EAGAIN: later. */
static int
begin(struct weir__attempts *attempts, unsigned name)
{
        bool is_first = !weir__link_is_used(&attempts->first.link);
        struct weir__attempt *attempt = is_first ? &attempts->first : calloc(1, sizeof *attempt);

        if (!attempt)
                return -ENOMEM;
        *attempt = (struct weir__attempt){.attempts = attempts, .name = name};
        weir__list_append(&attempts->running, &attempt->link);
        int result = open_stream(attempt, &attempts->names[name]);
        if (result == 0)
                win(attempt);
        else if (result != -EINPROGRESS)
                drop(attempt);
        return result;
}

/* Tries addresses until one waits.  Result: as weir__attempts_begin. */
static int
try_next(struct weir__attempts *attempts)
{
        while (attempts->next < attempts->count) {
                int result = weir__phase_is_stopping() ? -ESHUTDOWN : begin(attempts, attempts->next);

                if (result == 0)
                        return 0;
                if (result == -EAGAIN && attempts->names[attempts->next].any.sa_family == AF_UNIX) {
                        weir_nsec after = attempts->again_after ? attempts->again_after : AGAIN_FIRST;

                        attempts->again_after = after < AGAIN_LAST ? 2 * after : after;
                        return set_timer(attempts, after);
                }
                attempts->next++;
                if (result == -EINPROGRESS) {
                        if (attempts->next < attempts->count)
                                (void)set_timer(attempts, WEIR__ATTEMPT_DELAY); /* without it the next one waits for a failure */
                        return result;
                }
                attempts->failed = result;
                attempts->last = attempts->next - 1;
        }
        return weir__list_is_empty(&attempts->running) ? attempts->failed : -EINPROGRESS;
}

/* An event without an end or an error tells that the socket is writable, since nothing comes to one that is not connected.
 * Result: as weir__connect_result. */
static int
result_of(const struct weir__attempt *attempt)
{
        const struct weir__transport *transport = &attempt->stream->transport;

        if (attempt->stream->failure)
                return attempt->stream->failure;
        return transport->has_ended
                       ? weir__connect_result(transport->stream.source.fd)
                       : weir__connect_confirm(transport->stream.source.fd, &attempt->attempts->names[attempt->name]);
}

/* The socket of an attempt has had an event. */
static void
go_on(struct weir__holder *holder)
{
        struct weir__attempt *attempt = weir__container_of(holder, struct weir__attempt, holder);
        struct weir__attempts *attempts = attempt->attempts;
        int result = result_of(attempt);

        if (result == -EINPROGRESS)
                return;
        if (result == 0) {
                win(attempt);
        } else {
                attempts->failed = result;
                attempts->last = attempt->name;
                drop(attempt);
                forget_timer(attempts);
                result = try_next(attempts);
        }
        if (result != -EINPROGRESS)
                attempts->ended(attempts, result);
}

static void
timer_run(struct weir__work *work)
{
        struct weir__attempt_timer *timer = weir__container_of(work, struct weir__attempt_timer, alarm.work);
        struct weir__attempts *attempts = timer->attempts;

        free(timer);
        if (!attempts)
                return;
        attempts->timer = NULL;
        int result = try_next(attempts);
        if (result != -EINPROGRESS)
                attempts->ended(attempts, result);
}

/* -- all of them -- */

/* The next address from `from` on that is of that family, or not; `count`: there is none. */
static unsigned
find(const struct weir__socket_address *names, unsigned count, unsigned from, int family, bool is_of)
{
        while (from < count && (names[from].any.sa_family == family) != is_of)
                from++;
        return from;
}

int
weir__attempts_set(struct weir__attempts *attempts, const struct weir__socket_address *names, unsigned count, in_port_t port)
{
        int family = names->any.sa_family;
        unsigned one = 0, other = find(names, count, 0, family, false);

        struct weir__socket_address *own = malloc(count * sizeof *own);
        if (!own)
                return -ENOMEM;
        for (unsigned i = 0; i < count; i++) {
                bool is_one = one < count && (i % 2 == 0 || other >= count);
                unsigned *from = is_one || other >= count ? &one : &other;

                own[i] = names[*from];
                *from = find(names, count, *from + 1, family, from == &one);
                in_port_t *its_port = weir__socket_port(&own[i]);
                if (its_port && port)
                        *its_port = htons(port);
        }
        attempts->names = attempts->own_names = own;
        attempts->count = count;
        return 0;
}

void
weir__attempts_lend(struct weir__attempts *attempts, const struct weir__socket_address *name)
{
        attempts->names = name;
        attempts->count = 1;
}

int
weir__attempts_begin(struct weir__attempts *attempts)
{
        return try_next(attempts);
}

void
weir__attempts_end(struct weir__attempts *attempts)
{
        struct weir_stream *stream = attempts->stream;

        attempts->stream = NULL;
        forget_timer(attempts);
        drop_all(attempts);
        free(attempts->own_names);
        attempts->names = attempts->own_names = NULL;
        attempts->next = attempts->count = 0;
        if (!stream)
                return;
        weir__stream_fail(stream, -ECONNABORTED);
        weir_stream_unref(stream);
}

const struct weir__socket_address *
weir__attempts_last(const struct weir__attempts *attempts)
{
        return attempts->names && attempts->next ? &attempts->names[attempts->last] : NULL;
}
