/* server/access/access.c: the access log.
 *
 *     a reply is over --> record in a ring of its poller --> the outlet's thread: a line in the file, or a call of the function
 *
 * File and function are an outlet each, with rings and a thread of its own: either may block for as long as it likes, and lose what
 * does not fit into its rings, without the other's noticing.  A log has the one, the other, or both.
 *
 * Threads: the owner of a poller records; the thread of an outlet does all that may block: it formats, writes and calls.  Reopening
 *          comes from any thread, start and stop from those of the server.
 * Locks:   none.  A ring has one writer and one reader.
 *
 * What the thread is to do is in `call`:
 *
 *     IDLE --a record--> SOON --64 KiB of them in one ring--> NOW --the thread--> IDLE, and then it looks at the rings
 *
 * Who leaves IDLE or comes to NOW wakes the thread; that happens a few times in each LATENCY however many requests there are, and
 * an idle server has no wake-ups.  A record that comes after the thread has looked finds IDLE, for the thread writes that, runs the heavy half
 * of a fence, and then looks.
 *
 * A file that cannot be written is tried again: after a second, or when it has become writable.  Meanwhile the rings fill, and what does
 * not fit is lost and counted.  A stop tries for FLUSH_LIMIT only where nobody reads, and not at all where the disk is full. */
#include "server/access/access.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/sched/thread.h"
#include "kernel/base/fence.h"
#include "kernel/observe/log.h"
#include "kernel/base/phase.h"
#include "server/base/eventfd.h"
#include "server/base/server.h"

#define RING_SIZE   ((size_t)512 * 1024)
#define HURRY       ((size_t)64 * 1024) /* of a ring: then the thread is to come at once */
#define LATENCY     100                 /* milliseconds: how long a record waits for others */
#define RETRY       1000                /* milliseconds */
#define FLUSH_LIMIT WEIR_SEC(1)
#define OUT_SIZE    ((size_t)64 * 1024)
#define LINE_BOUND  (4 * (METHOD_MAX + TARGET_MAX + REFERER_MAX + AGENT_MAX) + 256) /* each byte may become four */
#define DOTS        "..."
#define OUTLETS     2

enum { METHOD_MAX = 32, TARGET_MAX = 4096, HOST_MAX = 256, REFERER_MAX = 2048, AGENT_MAX = 1024 }; /* with a NUL */

_Static_assert(2 * LINE_BOUND < OUT_SIZE, "a line has to fit");

enum text { METHOD, TARGET, HOST, REFERER, AGENT, TEXTS };

static const uint16_t text_max[TEXTS] = {METHOD_MAX, TARGET_MAX, HOST_MAX, REFERER_MAX, AGENT_MAX};

/* In a ring, followed by its texts, each with a NUL.  It does not go around the ring's end. */
struct record {
        uint32_t size; /* with texts, a multiple of 8; 0: the rest of the ring, up to its end, is empty */
        uint16_t status;
        uint8_t minor;
        bool is_complete;
        uint64_t body_sent;
        weir_nsec ended, duration;
        struct weir__peer client;
        uint16_t sizes[TEXTS]; /* 0: not there */
};

/* Positions count bytes since the start. */
struct ring {
        char *bytes;

        _Alignas(64) _Atomic size_t written; /* by the owner of the poller, with release */
        _Alignas(64) _Atomic size_t taken;   /* by the log's thread, with release: the room may be used again */
};

enum call { IDLE, SOON, NOW };

struct outlet {
        /* Constant. */
        char *path;                    /* the file's; or NULL, and then there is ... */
        weir_http_access_fn *function; /* ... this */
        void *context;
        int wake_fd; /* eventfd */

        /* Of who starts and stops it; constant while the thread runs. */
        bool runs;
        pthread_t thread;
        unsigned ring_count;
        int open_fault; /* of the last start */
        struct ring *rings;

        /* The thread's, while it runs. */
        int fd;
        bool may_block; /* it is the standard output, whose mode belongs to others, too */
        bool was_given_up;
        char *out; /* lines; OUT_SIZE bytes */
        size_t out_size, out_done;
        int64_t date_second; /* what `date` says */
        char date[32];
        size_t lost_said;
        weir_nsec stop_began; /* 0: not yet */

        _Atomic unsigned call; /* enum call */
        _Atomic bool stops;    /* release and acquire */
        _Atomic bool serves;   /* relaxed: there is a file that can be opened again */
        _Atomic int next_fd;   /* opened by who wants the file changed, -1: none.  Who exchanges it has it */
        _Atomic size_t lost;   /* relaxed */
};

struct weir__access {
        /* Constant. */
        unsigned count;
        struct outlet outlets[OUTLETS]; /* the file, if there is one, comes first */
};

/* -- the owner of a poller -- */

static void
lose(struct outlet *outlet, size_t count)
{
        atomic_fetch_add_explicit(&outlet->lost, count, memory_order_relaxed);
}

static void
call_thread(struct outlet *outlet, size_t waiting)
{
        unsigned call = atomic_load_explicit(&outlet->call, memory_order_relaxed), wanted = waiting < HURRY ? SOON : NOW;

        while (call < wanted)
                if (atomic_compare_exchange_weak(&outlet->call, &call, wanted)) {
                        eventfd_write(outlet->wake_fd, 1);
                        return;
                }
}

/* Room for a record.  NULL when there is none. */
static struct record *
reserve(struct ring *ring, size_t size, size_t *end)
{
        size_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
        size_t used = written - atomic_load_explicit(&ring->taken, memory_order_acquire);
        size_t at = written % RING_SIZE, rest = RING_SIZE - at, skipped = size > rest ? rest : 0;

        if (skipped + size > RING_SIZE - used)
                return NULL;
        if (skipped) {
                ((struct record *)(void *)(ring->bytes + at))->size = 0;
                at = 0;
        }
        *end = written + skipped + size;
        return (struct record *)(void *)(ring->bytes + at);
}

/* With its NUL. */
static uint16_t
size_of(const char *text, enum text which)
{
        size_t size = text ? strnlen(text, text_max[which]) + 1 : 0;

        return (uint16_t)(size > text_max[which] ? text_max[which] : size);
}

static void
copy(char *to, const char *from, uint16_t size, bool is_cut)
{
        memcpy(to, from, size - 1u);
        to[size - 1] = '\0';
        if (is_cut)
                memcpy(to + size - sizeof DOTS, DOTS, sizeof DOTS);
}

static void
copy_texts(struct record *record, const char *const texts[TEXTS])
{
        char *out = (char *)(record + 1);

        for (unsigned i = 0; i < TEXTS; i++)
                if (record->sizes[i]) {
                        copy(out, texts[i], record->sizes[i], texts[i][record->sizes[i] - 1] != '\0');
                        out += record->sizes[i];
                }
}

static void
record_for(struct outlet *outlet, unsigned index, const struct record *made, const char *const texts[TEXTS])
{
        struct ring *ring = &outlet->rings[index];
        size_t end = 0;
        struct record *record = reserve(ring, made->size, &end);

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

void
weir__access_record(struct weir__access *access, unsigned index, const struct weir__access_entry *entry)
{
        const struct weir__request *request = entry->request;
        const char *texts[TEXTS] = {NULL};
        size_t size = sizeof(struct record);
        struct record made = {
                .status = (uint16_t)entry->status,
                .minor = request ? request->minor : 1,
                .is_complete = entry->is_complete,
                .body_sent = entry->body_sent,
                .ended = weir__clock_wall_coarse(),
                .duration = entry->began ? weir__clock_now() - entry->began : 0,
                .client = *entry->client,
        };

        if (request) {
                texts[METHOD] = request->method;
                texts[TARGET] = request->target;
                texts[HOST] = request->host;
                texts[REFERER] = weir__request_header(request, "Referer");
                texts[AGENT] = weir__request_header(request, "User-Agent");
        }
        for (unsigned i = 0; i < TEXTS; i++)
                size += made.sizes[i] = size_of(texts[i], i);
        made.size = (uint32_t)((size + 7) / 8 * 8);
        for (unsigned i = 0; i < access->count; i++)
                record_for(&access->outlets[i], index, &made, texts);
}

/* -- the thread: waiting -- */

static _Thread_local bool is_own_thread;

bool
weir__access_is_own_thread(void)
{
        return is_own_thread;
}

static bool
is_stopping(const struct outlet *outlet)
{
        return atomic_load_explicit(&outlet->stops, memory_order_acquire);
}

/* For a call, or, if `fd` is not -1, until that is writable; at most so many milliseconds (-1: no limit). */
static void
wait_for(struct outlet *outlet, int fd, int timeout)
{
        struct pollfd fds[2] = {{.fd = outlet->wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLOUT}};
        eventfd_t calls;

        if (poll(fds, 2, timeout) > 0 && fds[0].revents)
                (void)eventfd_read(outlet->wake_fd, &calls);
}

static bool
has_order(const struct outlet *outlet)
{
        return is_stopping(outlet) || atomic_load_explicit(&outlet->next_fd, memory_order_relaxed) >= 0;
}

static void
wait_for_records(struct outlet *outlet)
{
        while (atomic_load_explicit(&outlet->call, memory_order_acquire) == IDLE && !has_order(outlet))
                wait_for(outlet, -1, -1);
        if (atomic_load_explicit(&outlet->call, memory_order_acquire) == SOON && !has_order(outlet))
                wait_for(outlet, -1, LATENCY);
}

/* -- the thread: the file -- */

static void
say_what_was_lost(struct outlet *outlet)
{
        static struct weir__log_limit limits[OUTLETS];
        size_t lost = atomic_load_explicit(&outlet->lost, memory_order_relaxed);

        if (lost == outlet->lost_said)
                return;
        outlet->lost_said = lost;
        weir__log_limited(&limits[!outlet->path], WEIR_LOG_WARNING, "access log: requests come faster than %s: %zu were left out",
                          outlet->path ? "they can be logged" : "the function takes them", lost);
}

/* The other file, if there is one, begins with a whole line. */
static void
change_file(struct outlet *outlet)
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

/* Writes a part.  A pipe that is found writable takes PIPE_BUF bytes without waiting. */
static ssize_t
write_some(struct outlet *outlet)
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

/* Whether there is no sense in trying on. */
static bool
gives_up(struct outlet *outlet, int error)
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
wait_to_try_again(struct outlet *outlet, int error)
{
        static struct weir__log_limit limit;

        if (error != EAGAIN)
                weir__log_limited(&limit, WEIR_LOG_WARNING, "access log: %s: %s", outlet->path, strerror(error));
        say_what_was_lost(outlet);
        wait_for(outlet, error == EAGAIN ? outlet->fd : -1, is_stopping(outlet) ? LATENCY : RETRY);
}

/* Writes all lines, however long that takes, unless the log stops. */
static void
write_out(struct outlet *outlet)
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
date_of(struct outlet *outlet, weir_nsec wall)
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

/* So that nobody can forge a line, a field or what a terminal does. */
static char *
put_escaped(char *out, const char *text)
{
        static const char digits[] = "0123456789abcdef";

        for (; *text; text++) {
                unsigned char byte = (unsigned char)*text;

                if (byte >= ' ' && byte <= '~' && byte != '"' && byte != '\\') {
                        *out++ = (char)byte;
                } else {
                        memcpy(out, "\\x", 2);
                        out[2] = digits[byte >> 4];
                        out[3] = digits[byte & 15];
                        out += 4;
                }
        }
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
add_line(struct outlet *outlet, const struct weir_http_access *entry)
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
tell(struct outlet *outlet, const struct record *record)
{
        const char *texts[TEXTS] = {NULL}, *text = (const char *)(record + 1);
        char client[WEIR__PEER_ROOM];

        for (unsigned i = 0; i < TEXTS; i++)
                if (record->sizes[i]) {
                        texts[i] = text;
                        text += record->sizes[i];
                }
        weir__peer_write(&record->client, false, client);
        struct weir_http_access entry = {
                .size = sizeof entry,
                .client = client,
                .method = texts[METHOD],
                .target = texts[TARGET],
                .host = texts[HOST],
                .referer = texts[REFERER],
                .user_agent = texts[AGENT],
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
empty_ring(struct outlet *outlet, struct ring *ring)
{
        size_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
        size_t written = atomic_load_explicit(&ring->written, memory_order_acquire);

        while (taken != written) {
                const struct record *record = (const struct record *)(const void *)(ring->bytes + taken % RING_SIZE);

                if (record->size)
                        tell(outlet, record);
                taken += record->size ? record->size : RING_SIZE - taken % RING_SIZE;
                atomic_store_explicit(&ring->taken, taken, memory_order_release);
        }
}

static void
empty_rings(struct outlet *outlet)
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
        struct outlet *outlet = argument;

        is_own_thread = true;
        pthread_setname_np(pthread_self(), "weir/access");
        while (!is_stopping(outlet)) {
                wait_for_records(outlet);
                change_file(outlet);
                empty_rings(outlet);
        }
        empty_rings(outlet); /* whoever said stop has seen the last record */
        return NULL;
}

/* -- start and stop -- */

/* A pipe must not hold the thread for ever; a file does not know the difference. */
static int
open_file(const char *path)
{
        int fd = strcmp(path, "-") == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                        : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);

        return fd < 0 ? -errno : fd;
}

static void
drop_next(struct outlet *outlet)
{
        int next = atomic_exchange(&outlet->next_fd, -1);

        if (next >= 0)
                close(next);
}

static void
outlet_done(struct outlet *outlet)
{
        drop_next(outlet);
        if (outlet->wake_fd >= 0)
                close(outlet->wake_fd);
        free(outlet->path);
}

/* To the file, or, when `path` is NULL, to the function. */
static int
add_outlet(struct weir__access *access, const char *path, const struct weir_http_server_config *config)
{
        struct outlet *outlet = &access->outlets[access->count++];

        *outlet = (struct outlet){
                .path = path ? strdup(path) : NULL,
                .function = path ? NULL : config->on_access,
                .context = config->access_context,
                .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                .fd = -1,
                .may_block = path && strcmp(path, "-") == 0,
                .date_second = INT64_MIN,
                .next_fd = -1,
        };
        return outlet->wake_fd < 0 ? -errno : path && !outlet->path ? -ENOMEM : 0;
}

int
weir__access_new(const struct weir_http_server_config *config, struct weir__access **ret_access)
{
        *ret_access = NULL;
        if (!config->access_log && !config->on_access)
                return 0;
        struct weir__access *access = calloc(1, sizeof *access);
        int failed = access ? 0 : -ENOMEM;

        if (!failed && config->access_log)
                failed = add_outlet(access, config->access_log, config);
        if (!failed && config->on_access)
                failed = add_outlet(access, NULL, config);
        if (failed)
                weir__access_free(access);
        else
                *ret_access = access;
        return failed;
}

void
weir__access_free(struct weir__access *access)
{
        if (!access)
                return;
        for (unsigned i = 0; i < access->count; i++)
                outlet_done(&access->outlets[i]);
        free(access);
}

static int
make_rings(struct outlet *outlet, unsigned count)
{
        outlet->rings = aligned_alloc(_Alignof(struct ring), count * sizeof *outlet->rings);
        if (!outlet->rings)
                return -ENOMEM;
        memset(outlet->rings, 0, count * sizeof *outlet->rings);
        outlet->ring_count = count;
        for (unsigned i = 0; i < count; i++) {
                outlet->rings[i].bytes = malloc(RING_SIZE);
                if (!outlet->rings[i].bytes)
                        return -ENOMEM;
        }
        outlet->out = outlet->path ? malloc(OUT_SIZE) : NULL;
        return outlet->path && !outlet->out ? -ENOMEM : 0;
}

static void
clear(struct outlet *outlet)
{
        atomic_store(&outlet->serves, false);
        drop_next(outlet);
        for (unsigned i = 0; i < outlet->ring_count; i++)
                free(outlet->rings[i].bytes);
        free(outlet->rings);
        free(outlet->out);
        outlet->rings = NULL;
        outlet->out = NULL;
        outlet->ring_count = 0;
        if (outlet->fd >= 0)
                close(outlet->fd);
        outlet->fd = -1;
}

static int
outlet_start(struct outlet *outlet, unsigned count)
{
        atomic_store(&outlet->call, IDLE);
        atomic_store(&outlet->stops, false);
        outlet->stop_began = 0;
        outlet->was_given_up = false;
        int failed = weir__eventfd_renew(outlet->wake_fd);
        failed = failed ? failed : make_rings(outlet, count);
        if (!failed && outlet->path) {
                outlet->fd = open_file(outlet->path);
                failed = outlet->open_fault = outlet->fd < 0 ? outlet->fd : 0;
        }
        if (!failed)
                failed = weir__thread_make(&outlet->thread, run, outlet);
        if (failed) {
                clear(outlet);
                return failed;
        }
        outlet->runs = true;
        atomic_store(&outlet->serves, outlet->path && !outlet->may_block);
        return 0;
}

int
weir__access_start(struct weir__access *access, unsigned count)
{
        int failed = 0;

        for (unsigned i = 0; access && i < access->count && !failed; i++)
                failed = outlet_start(&access->outlets[i], count);
        if (failed)
                weir__access_stop(access);
        return failed;
}

void
weir__access_complain(struct weir__access *access)
{
        if (access && access->outlets->open_fault)
                weir__log(WEIR_LOG_ERROR, "access log: %s: %s", access->outlets->path, strerror(-access->outlets->open_fault));
}

static void
tell_to_stop(struct outlet *outlet)
{
        atomic_store_explicit(&outlet->stops, true, memory_order_release);
        eventfd_write(outlet->wake_fd, 1);
}

void
weir__access_stop(struct weir__access *access)
{
        for (unsigned i = 0; access && i < access->count; i++)
                if (access->outlets[i].runs)
                        tell_to_stop(&access->outlets[i]);
        for (unsigned i = 0; access && i < access->count; i++) {
                struct outlet *outlet = &access->outlets[i];

                if (!outlet->runs)
                        continue;
                pthread_join(outlet->thread, NULL);
                outlet->runs = false;
                clear(outlet);
        }
}

/* -- any thread -- */

int
weir_http_server_reopen_log(weir_http_server *server)
{
        struct outlet *outlet = server && server->access ? server->access->outlets : NULL;

        if (weir__phase_is_forked())
                return -ECHILD;
        if (!outlet || !atomic_load(&outlet->serves))
                return server ? -EDOM : -EINVAL;
        int fd = open_file(outlet->path);
        if (fd < 0)
                return fd;
        int before = atomic_exchange(&outlet->next_fd, fd);
        if (before >= 0)
                close(before);
        eventfd_write(outlet->wake_fd, 1);
        return 0;
}

size_t
weir_http_server_access_lost(const weir_http_server *server)
{
        const struct weir__access *access = server ? server->access : NULL;
        size_t lost = 0;

        for (unsigned i = 0; access && i < access->count; i++)
                lost += atomic_load_explicit(&access->outlets[i].lost, memory_order_relaxed);
        return lost;
}
