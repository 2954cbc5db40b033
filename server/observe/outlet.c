/* server/observe/outlet.c: an outlet of the access log: its file or its function.
 *
 *     a record in a ring of its poller --> the thread of the outlet: a line in the file, or a call of the function
 *
 * Threads: the owner of a poller adds records.  The thread of the outlet formats, writes and calls, which may block.  Any thread
 *          reopens.  The threads that start and stop the server start and stop the outlet.
 * Locks:   none.  A ring has one writer and one reader.
 *
 * `call` tells the thread when to empty the rings:
 *
 *     IDLE --a record--> SOON --64 KiB of records in one ring--> NOW --the thread--> IDLE, and then it empties the rings
 *
 * The thread is woken when IDLE is left, and when NOW is reached.  These are a few wake-ups in LATENCY_MSEC, however many
 * requests there are, and none in an idle server.  No record is forgotten: the thread writes IDLE, runs the heavy half of a
 * fence, and only then looks.  A record that comes later finds IDLE.
 *
 * A file that cannot be written is tried again after a second, or when it has become writable.  Meanwhile the rings fill, and
 * records that do not fit are lost and counted.  A stop goes on trying for FLUSH_LIMIT if nobody reads, and gives up at once if
 * the disk is full. */
#include "server/observe/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/fence.h"
#include "kernel/observe/log.h"
#include "kernel/socket/sockets.h"
#include "kernel/base/thread.h"

#define RING_SIZE    ((size_t)512 * 1024)
#define HURRY        ((size_t)64 * 1024) /* bytes in a ring: the thread is called at once */
#define LATENCY_MSEC 100                 /* milliseconds: how long a record waits for others */
#define RETRY_MSEC   1000                /* milliseconds */
#define FLUSH_LIMIT  WEIR_SEC(1)
#define OUT_SIZE     ((size_t)64 * 1024)
#define LINE_BOUND \
        (4 * (WEIR__METHOD_MAX + WEIR__TARGET_MAX + WEIR__REFERER_MAX + WEIR__AGENT_MAX) + 256) /* each byte may become four */
#define DOTS "..."

_Static_assert(2 * LINE_BOUND < OUT_SIZE, "a line has to fit");

enum call { IDLE, SOON, NOW };

/* -- the owner of a poller -- */

static void
lose(struct weir__outlet *outlet, size_t count)
{
        atomic_fetch_add_explicit(&outlet->lost, count, memory_order_relaxed);
}

static void
call_thread(struct weir__outlet *outlet, size_t waiting)
{
        unsigned call = atomic_load_explicit(&outlet->call, memory_order_relaxed), wanted = waiting < HURRY ? SOON : NOW;

        while (call < wanted)
                if (atomic_compare_exchange_weak(&outlet->call, &call, wanted)) {
                        eventfd_write(outlet->wake_fd, 1);
                        return;
                }
}

/* Makes room for a record.  Returns NULL when the ring is full. */
static struct weir__outlet_record *
reserve(struct weir__outlet_ring *ring, size_t size, size_t *end)
{
        size_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
        size_t used = written - atomic_load_explicit(&ring->taken, memory_order_acquire);
        size_t at = written % RING_SIZE, rest = RING_SIZE - at, skipped = size > rest ? rest : 0;

        if (skipped + size > RING_SIZE - used)
                return NULL;
        if (skipped) {
                ((struct weir__outlet_record *)(void *)(ring->bytes + at))->size = 0;
                at = 0;
        }
        *end = written + skipped + size;
        return (struct weir__outlet_record *)(void *)(ring->bytes + at);
}

static void
copy_texts(struct weir__outlet_record *record, const char *const texts[WEIR__TEXTS])
{
        char *out = (char *)(record + 1);

        for (unsigned i = 0; i < WEIR__TEXTS; i++) {
                size_t size = record->sizes[i];

                if (!size)
                        continue;
                memcpy(out, texts[i], size - 1);
                out += size;
                out[-1] = '\0';
                if (texts[i][size - 1]) /* the text is longer */
                        memcpy(out - sizeof DOTS, DOTS, sizeof DOTS);
        }
}

void
weir__outlet_add(struct weir__outlet *outlet, unsigned index, const struct weir__outlet_record *made,
                 const char *const texts[WEIR__TEXTS])
{
        struct weir__outlet_ring *ring = &outlet->rings[index];
        size_t end = 0;
        struct weir__outlet_record *record = reserve(ring, made->size, &end);

        if (!record) {
                lose(outlet, 1);
                call_thread(outlet, RING_SIZE);
                return;
        }
        *record = *made;
        copy_texts(record, texts);
        atomic_store_explicit(&ring->written, end, memory_order_release);
        weir__fence_light();
        call_thread(outlet, end - atomic_load_explicit(&ring->taken, memory_order_relaxed));
}

/* -- the thread: waiting -- */

static _Thread_local bool is_own_thread;

bool
weir__outlet_is_own_thread(void)
{
        return is_own_thread;
}

static bool
is_stopping(const struct weir__outlet *outlet)
{
        return atomic_load_explicit(&outlet->is_stopping, memory_order_acquire);
}

/* Waits for a call, or until `fd` (-1: none) is writable; at most `timeout` milliseconds (-1: no limit). */
static void
wait_for(struct weir__outlet *outlet, int fd, int timeout)
{
        struct pollfd fds[2] = {{.fd = outlet->wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLOUT}};
        eventfd_t calls;

        if (poll(fds, 2, timeout) > 0 && fds[0].revents)
                (void)eventfd_read(outlet->wake_fd, &calls);
}

static bool
has_order(const struct weir__outlet *outlet)
{
        return is_stopping(outlet) || atomic_load_explicit(&outlet->next_fd, memory_order_relaxed) >= 0;
}

static void
wait_for_records(struct weir__outlet *outlet)
{
        while (atomic_load_explicit(&outlet->call, memory_order_acquire) == IDLE && !has_order(outlet))
                wait_for(outlet, -1, -1);
        if (atomic_load_explicit(&outlet->call, memory_order_acquire) == SOON && !has_order(outlet))
                wait_for(outlet, -1, LATENCY_MSEC);
}

/* -- the thread: the file -- */

static void
say_what_was_lost(struct weir__outlet *outlet)
{
        static struct weir__log_limit limits[2];
        size_t lost = atomic_load_explicit(&outlet->lost, memory_order_relaxed);

        if (lost == outlet->lost_said)
                return;
        outlet->lost_said = lost;
        weir__log_limited(&limits[!outlet->path], WEIR_LOG_WARNING, "access log: requests come faster than %s: %zu were left out",
                          outlet->path ? "they can be logged" : "the function takes them", lost);
}

/* Changes to the file that was opened again, if there is one.  It begins with a whole line. */
static void
change_file(struct weir__outlet *outlet)
{
        int next = atomic_exchange_explicit(&outlet->next_fd, -1, memory_order_acq_rel);

        if (next < 0)
                return;
        close(outlet->fd);
        outlet->fd = next;
        if (outlet->out_done == 0 || outlet->out[outlet->out_done - 1] == '\n')
                return;
        const char *end = memchr(outlet->out + outlet->out_done, '\n', outlet->out_size - outlet->out_done);
        outlet->out_done = (size_t)(end + 1 - outlet->out);
        lose(outlet, 1);
}

/* Writes a part of the lines.  A writable pipe takes PIPE_BUF bytes without blocking. */
static ssize_t
write_some(struct weir__outlet *outlet)
{
        struct pollfd writable = {.fd = outlet->fd, .events = POLLOUT};
        size_t size = outlet->out_size - outlet->out_done;

        if (outlet->may_block) {
                size = size < PIPE_BUF ? size : PIPE_BUF;
                int ready = poll(&writable, 1, 0);
                if (ready != 1)
                        return ready < 0 && errno == EINTR ? -EINTR : -EAGAIN;
        }
        ssize_t count = write(outlet->fd, outlet->out + outlet->out_done, size);
        return count < 0 ? -errno : count;
}

/* Whether a stop must not wait for the file any longer. */
static bool
gives_up(struct weir__outlet *outlet, int error)
{
        if (!is_stopping(outlet))
                return false;
        weir_nsec now = weir__clock_monotonic();
        if (!outlet->stop_began)
                outlet->stop_began = now;
        outlet->was_given_up = (error && error != EAGAIN) || now - outlet->stop_began >= FLUSH_LIMIT;
        return outlet->was_given_up;
}

static void
wait_to_try_again(struct weir__outlet *outlet, int error)
{
        static struct weir__log_limit limit;

        if (error != EAGAIN)
                weir__log_limited(&limit, WEIR_LOG_WARNING, "access log: %s: %s", outlet->path, strerror(error));
        say_what_was_lost(outlet);
        wait_for(outlet, error == EAGAIN ? outlet->fd : -1, is_stopping(outlet) ? LATENCY_MSEC : RETRY_MSEC);
}

/* Writes all lines, however long that takes; a stop gives up. */
static void
write_out(struct weir__outlet *outlet)
{
        while (outlet->out_done < outlet->out_size && !outlet->was_given_up) {
                change_file(outlet);
                if (outlet->out_done == outlet->out_size)
                        break;
                ssize_t count = write_some(outlet);
                if (count > 0)
                        outlet->out_done += (size_t)count;
                else if (count != -EINTR && !gives_up(outlet, (int)-count))
                        wait_to_try_again(outlet, count ? (int)-count : ENOSPC);
        }
        for (; outlet->out_done < outlet->out_size; outlet->out_done++)
                if (outlet->out[outlet->out_done] == '\n')
                        lose(outlet, 1);
        outlet->out_done = outlet->out_size = 0;
}

/* -- the thread: lines -- */

static const char *
date_of(struct weir__outlet *outlet, weir_nsec wall)
{
        static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        time_t second = wall / 1000000000;
        struct tm parts = {0};

        if (second != outlet->date_second) {
                gmtime_r(&second, &parts);
                snprintf(outlet->date, sizeof outlet->date, "%02d/%.3s/%04d:%02d:%02d:%02d +0000", parts.tm_mday,
                         months + (size_t)(3 * parts.tm_mon), (parts.tm_year + 1900) % 10000, parts.tm_hour, parts.tm_min,
                         parts.tm_sec);
                outlet->date_second = second;
        }
        return outlet->date;
}

/* Escapes all bytes that could forge a line or a field, or control a terminal. */
static char *
put_escaped(char *out, const char *text)
{
        for (; *text; text++)
                if (*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\')
                        *out++ = *text;
                else
                        out += sprintf(out, "\\x%02x", (unsigned char)*text);
        return out;
}

static char *
put_quoted(char *out, const char *text)
{
        *out++ = '"';
        out = put_escaped(out, text ? text : "-");
        *out++ = '"';
        return out;
}

/* The Combined Log Format. */
static void
add_line(struct weir__outlet *outlet, const struct weir_http_access *entry)
{
        if (OUT_SIZE - outlet->out_size < LINE_BOUND)
                write_out(outlet);
        char *out = outlet->out + outlet->out_size;
        out += sprintf(out, "%s - - [%s] \"", entry->client, date_of(outlet, entry->ended));
        if (entry->method) {
                out = put_escaped(out, entry->method);
                *out++ = ' ';
                out = put_escaped(out, entry->target);
                out += sprintf(out, " HTTP/1.%d", entry->minor);
        } else {
                *out++ = '-';
        }
        out += sprintf(out, "\" %d %llu ", entry->status, (unsigned long long)entry->body_sent);
        out = put_quoted(out, entry->referer);
        *out++ = ' ';
        out = put_quoted(out, entry->user_agent);
        *out++ = '\n';
        outlet->out_size = (size_t)(out - outlet->out);
}

/* -- the thread: records -- */

static void
notify(struct weir__outlet *outlet, const struct weir__outlet_record *record)
{
        const char *texts[WEIR__TEXTS] = {NULL}, *text = (const char *)(record + 1);
        char client[WEIR__PEER_ROOM];

        for (unsigned i = 0; i < WEIR__TEXTS; i++)
                if (record->sizes[i]) {
                        texts[i] = text;
                        text += record->sizes[i];
                }
        weir__peer_write(&record->client, false, client);
        struct weir_http_access entry = {
                .size = sizeof entry,
                .client = client,
                .method = texts[WEIR__TEXT_METHOD],
                .target = texts[WEIR__TEXT_TARGET],
                .host = texts[WEIR__TEXT_HOST],
                .referer = texts[WEIR__TEXT_REFERER],
                .user_agent = texts[WEIR__TEXT_AGENT],
                .minor = record->minor,
                .status = record->status,
                .is_complete = record->is_complete,
                .body_sent = record->body_sent,
                .ended = record->ended,
                .duration = record->duration,
        };
        if (outlet->path)
                add_line(outlet, &entry);
        else
                outlet->function(&entry, outlet->context);
}

static void
empty_ring(struct weir__outlet *outlet, struct weir__outlet_ring *ring)
{
        size_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
        size_t written = atomic_load_explicit(&ring->written, memory_order_acquire);

        while (taken != written) {
                const void *at = ring->bytes + taken % RING_SIZE;
                const struct weir__outlet_record *record = at;

                if (record->size)
                        notify(outlet, record);
                taken += record->size ? record->size : RING_SIZE - taken % RING_SIZE;
                atomic_store_explicit(&ring->taken, taken, memory_order_release);
        }
}

static void
empty_rings(struct weir__outlet *outlet)
{
        atomic_store(&outlet->call, IDLE);
        weir__fence_heavy();
        for (unsigned i = 0; i < outlet->ring_count; i++)
                empty_ring(outlet, &outlet->rings[i]);
        if (outlet->out_size)
                write_out(outlet);
        say_what_was_lost(outlet);
}

static void *
run(void *argument)
{
        struct weir__outlet *outlet = argument;

        is_own_thread = true;
        pthread_setname_np(pthread_self(), "weir/access");
        while (!is_stopping(outlet)) {
                wait_for_records(outlet);
                change_file(outlet);
                empty_rings(outlet);
        }
        empty_rings(outlet); /* no record was added after the stop of the outlet began */
        return NULL;
}

/* -- start and stop -- */

/* Opens without blocking: a pipe must not hold the thread for ever.  For a file that makes no difference. */
static int
open_file(const char *path)
{
        int fd = strcmp(path, "-") == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                        : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);

        return fd < 0 ? -errno : fd;
}

static void
drop_next(struct weir__outlet *outlet)
{
        int next = atomic_exchange(&outlet->next_fd, -1);

        if (next >= 0)
                close(next);
}

void
weir__outlet_done(struct weir__outlet *outlet)
{
        drop_next(outlet);
        if (outlet->wake_fd >= 0)
                close(outlet->wake_fd);
        free(outlet->path);
}

static int
make_rings(struct weir__outlet *outlet, unsigned count)
{
        outlet->rings = aligned_alloc(_Alignof(struct weir__outlet_ring), count * sizeof *outlet->rings);
        outlet->memory = malloc(count * RING_SIZE + (outlet->path ? OUT_SIZE : 0));
        if (!outlet->rings || !outlet->memory)
                return -ENOMEM;
        memset(outlet->rings, 0, count * sizeof *outlet->rings);
        outlet->ring_count = count;
        for (unsigned i = 0; i < count; i++)
                outlet->rings[i].bytes = outlet->memory + i * RING_SIZE;
        outlet->out = outlet->memory + count * RING_SIZE;
        return 0;
}

static void
clear(struct weir__outlet *outlet)
{
        atomic_store(&outlet->has_file, false);
        drop_next(outlet);
        free(outlet->rings);
        free(outlet->memory);
        outlet->rings = NULL;
        outlet->memory = NULL;
        if (outlet->fd >= 0)
                close(outlet->fd);
        outlet->fd = -1;
}

int
weir__outlet_start(struct weir__outlet *outlet, unsigned count)
{
        atomic_store(&outlet->call, IDLE);
        atomic_store(&outlet->is_stopping, false);
        outlet->stop_began = 0;
        outlet->was_given_up = false;
        int failed = weir__eventfd_renew(outlet->wake_fd);
        failed = failed ? failed : make_rings(outlet, count);
        if (!failed && outlet->path) {
                outlet->fd = open_file(outlet->path);
                failed = outlet->fd < 0 ? outlet->fd : 0;
                if (failed)
                        weir__log(WEIR_LOG_ERROR, "access log: %s: %s", outlet->path, strerror(-failed));
        }
        if (!failed)
                failed = weir__thread_make(&outlet->thread, run, outlet);
        if (failed) {
                clear(outlet);
                return failed;
        }
        atomic_store(&outlet->has_file, outlet->path && !outlet->may_block);
        return 0;
}

void
weir__outlet_stop(struct weir__outlet *outlet)
{
        if (!outlet->rings)
                return;
        atomic_store_explicit(&outlet->is_stopping, true, memory_order_release);
        eventfd_write(outlet->wake_fd, 1);
        pthread_join(outlet->thread, NULL);
        clear(outlet);
}

int
weir__outlet_init(struct weir__outlet *outlet, const char *path, weir_http_access_fn *function, void *context)
{
        *outlet = (struct weir__outlet){
                .path = path ? strdup(path) : NULL,
                .function = path ? NULL : function,
                .context = context,
                .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                .fd = -1,
                .may_block = path && strcmp(path, "-") == 0,
                .date_second = INT64_MIN,
                .next_fd = -1,
        };
        return outlet->wake_fd < 0 ? -errno : path && !outlet->path ? -ENOMEM : 0;
}

int
weir__outlet_reopen(struct weir__outlet *outlet)
{
        if (!atomic_load(&outlet->has_file))
                return -EDOM;
        int fd = open_file(outlet->path);
        if (fd < 0)
                return fd;
        int before = atomic_exchange(&outlet->next_fd, fd);
        if (before >= 0)
                close(before);
        eventfd_write(outlet->wake_fd, 1);
        return 0;
}
