/* server/access.c: the access log.
 *
 *     a reply is over --> record in the ring of its poller --> the log's thread: a line in the file, a call of the function
 *
 * Threads: the owner of a poller records; one thread of the log's own does all that may block: it formats, writes and calls.  Reopening
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
#include "server/access.h"

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

#include "kernel/clock.h"
#include "kernel/crew.h"
#include "kernel/fence.h"
#include "kernel/log.h"
#include "kernel/runtime.h"
#include "server/server.h"

#define RING_SIZE   ((size_t)512 * 1024)
#define HURRY       ((size_t)64 * 1024) /* of a ring: then the thread is to come at once */
#define LATENCY     100                 /* milliseconds: how long a record waits for others */
#define RETRY       1000                /* milliseconds */
#define FLUSH_LIMIT WEIR_SEC(1)
#define OUT_SIZE    ((size_t)64 * 1024)
#define LINE_BOUND  (4 * (METHOD_MAX + TARGET_MAX + REFERER_MAX + AGENT_MAX) + 256) /* each byte may become four */
#define DOTS        "..."

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
struct weir__access_ring {
        struct weir__access *access;
        char *bytes;

        _Alignas(64) _Atomic size_t written; /* by the owner of the poller, with release */
        _Alignas(64) _Atomic size_t taken;   /* by the log's thread, with release: the room may be used again */
};

enum call { IDLE, SOON, NOW };

struct weir__access {
        /* Constant. */
        char *path; /* NULL: no file */
        weir_http_access_fn *function;
        void *context;
        int wake_fd; /* eventfd */

        /* Of who starts and stops it; constant while the thread runs. */
        bool runs;
        pthread_t thread;
        unsigned ring_count;
        int open_fault; /* of the last start */
        struct weir__access_ring *rings;

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

/* -- the owner of a poller -- */

static void
call_thread(struct weir__access *access, size_t waiting)
{
        unsigned call = atomic_load_explicit(&access->call, memory_order_relaxed), wanted = waiting < HURRY ? SOON : NOW;

        while (call < wanted)
                if (atomic_compare_exchange_weak(&access->call, &call, wanted)) {
                        eventfd_write(access->wake_fd, 1);
                        return;
                }
}

/* Room for a record.  NULL when there is none. */
static struct record *
reserve(struct weir__access_ring *ring, size_t size, size_t *end)
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
fill(struct record *record, const struct weir__access_entry *entry, const char *const texts[TEXTS])
{
        char *out = (char *)(record + 1);

        record->status = (uint16_t)entry->status;
        record->minor = entry->request ? entry->request->minor : 1;
        record->is_complete = entry->is_complete;
        record->body_sent = entry->body_sent;
        record->ended = weir__clock_wall_coarse();
        record->duration = entry->began ? weir__clock_now() - entry->began : 0;
        record->client = *entry->client;
        for (unsigned i = 0; i < TEXTS; i++)
                if (record->sizes[i]) {
                        copy(out, texts[i], record->sizes[i], texts[i][record->sizes[i] - 1] != '\0');
                        out += record->sizes[i];
                }
}

void
weir__access_record(struct weir__access_ring *ring, const struct weir__access_entry *entry)
{
        const struct weir__request *request = entry->request;
        const char *texts[TEXTS] = {NULL};
        uint16_t sizes[TEXTS];
        size_t size = sizeof(struct record), end = 0;

        if (request) {
                texts[METHOD] = request->method;
                texts[TARGET] = request->target;
                texts[HOST] = request->host;
                texts[REFERER] = weir__request_header(request, "Referer");
                texts[AGENT] = weir__request_header(request, "User-Agent");
        }
        for (unsigned i = 0; i < TEXTS; i++)
                size += sizes[i] = size_of(texts[i], i);
        size = (size + 7) / 8 * 8;
        struct record *record = reserve(ring, size, &end);
        if (!record) {
                atomic_fetch_add_explicit(&ring->access->lost, 1, memory_order_relaxed);
                call_thread(ring->access, RING_SIZE);
                return;
        }
        record->size = (uint32_t)size;
        memcpy(record->sizes, sizes, sizeof sizes);
        fill(record, entry, texts);
        atomic_store_explicit(&ring->written, end, memory_order_release);
        weir__fence_light();
        call_thread(ring->access, end - atomic_load_explicit(&ring->taken, memory_order_relaxed));
}

/* -- the thread: waiting -- */

static _Thread_local bool is_own_thread;

bool
weir__access_is_own_thread(void)
{
        return is_own_thread;
}

static bool
is_stopping(const struct weir__access *access)
{
        return atomic_load_explicit(&access->stops, memory_order_acquire);
}

/* For a call, or, if `fd` is not -1, until that is writable; at most so many milliseconds (-1: no limit). */
static void
wait_for(struct weir__access *access, int fd, int timeout)
{
        struct pollfd fds[2] = {{.fd = access->wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLOUT}};
        eventfd_t calls;

        if (poll(fds, 2, timeout) > 0 && fds[0].revents)
                (void)eventfd_read(access->wake_fd, &calls);
}

static bool
has_order(const struct weir__access *access)
{
        return is_stopping(access) || atomic_load_explicit(&access->next_fd, memory_order_relaxed) >= 0;
}

static void
wait_for_records(struct weir__access *access)
{
        while (atomic_load_explicit(&access->call, memory_order_acquire) == IDLE && !has_order(access))
                wait_for(access, -1, -1);
        if (atomic_load_explicit(&access->call, memory_order_acquire) == SOON && !has_order(access))
                wait_for(access, -1, LATENCY);
}

/* -- the thread: the file -- */

static void
lose(struct weir__access *access, size_t count)
{
        atomic_fetch_add_explicit(&access->lost, count, memory_order_relaxed);
}

static void
say_what_was_lost(struct weir__access *access)
{
        static struct weir__log_limit limit;
        size_t lost = atomic_load_explicit(&access->lost, memory_order_relaxed);

        if (lost == access->lost_said)
                return;
        access->lost_said = lost;
        weir__log_limited(&limit, WEIR_LOG_WARNING, "access log: requests come faster than they can be logged: %zu were left out",
                          lost);
}

/* The other file, if there is one, begins with a whole line. */
static void
change_file(struct weir__access *access)
{
        int next = atomic_exchange_explicit(&access->next_fd, -1, memory_order_acq_rel);

        if (next < 0)
                return;
        close(access->fd);
        access->fd = next;
        if (access->out_done == 0 || access->out[access->out_done - 1] == '\n')
                return;
        const char *end = memchr(access->out + access->out_done, '\n', access->out_size - access->out_done);
        access->out_done = (size_t)(end + 1 - access->out);
        lose(access, 1);
}

/* Writes a part.  A pipe that is found writable takes PIPE_BUF bytes without waiting. */
static ssize_t
write_some(struct weir__access *access)
{
        struct pollfd writable = {.fd = access->fd, .events = POLLOUT};
        size_t size = access->out_size - access->out_done;

        if (access->may_block) {
                size = size < PIPE_BUF ? size : PIPE_BUF;
                int ready = poll(&writable, 1, 0);
                if (ready != 1)
                        return ready < 0 && errno == EINTR ? -EINTR : -EAGAIN;
        }
        ssize_t count = write(access->fd, access->out + access->out_done, size);
        return count < 0 ? -errno : count;
}

/* Whether there is no sense in trying on. */
static bool
gives_up(struct weir__access *access, int error)
{
        if (!is_stopping(access))
                return false;
        weir_nsec now = weir__clock_monotonic();
        if (!access->stop_began)
                access->stop_began = now;
        access->was_given_up = (error && error != EAGAIN) || now - access->stop_began >= FLUSH_LIMIT;
        return access->was_given_up;
}

static void
wait_to_try_again(struct weir__access *access, int error)
{
        static struct weir__log_limit limit;

        if (error != EAGAIN)
                weir__log_limited(&limit, WEIR_LOG_WARNING, "access log: %s: %s", access->path, strerror(error));
        say_what_was_lost(access);
        wait_for(access, error == EAGAIN ? access->fd : -1, is_stopping(access) ? LATENCY : RETRY);
}

/* Writes all lines, however long that takes, unless the log stops. */
static void
write_out(struct weir__access *access)
{
        while (access->out_done < access->out_size && !access->was_given_up) {
                change_file(access);
                if (access->out_done == access->out_size)
                        break;
                ssize_t count = write_some(access);
                if (count > 0)
                        access->out_done += (size_t)count;
                else if (count != -EINTR && !gives_up(access, (int)-count))
                        wait_to_try_again(access, count ? (int)-count : ENOSPC);
        }
        for (; access->out_done < access->out_size; access->out_done++)
                if (access->out[access->out_done] == '\n')
                        lose(access, 1);
        access->out_done = access->out_size = 0;
}

/* -- the thread: lines -- */

static const char *
date_of(struct weir__access *access, weir_nsec wall)
{
        static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        time_t second = wall / 1000000000;
        struct tm parts = {0};

        if (second != access->date_second) {
                gmtime_r(&second, &parts);
                snprintf(access->date, sizeof access->date, "%02d/%.3s/%04d:%02d:%02d:%02d +0000", parts.tm_mday,
                         months + (size_t)(3 * parts.tm_mon), (parts.tm_year + 1900) % 10000, parts.tm_hour, parts.tm_min,
                         parts.tm_sec);
                access->date_second = second;
        }
        return access->date;
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
add_line(struct weir__access *access, const struct weir_http_access *entry)
{
        if (OUT_SIZE - access->out_size < LINE_BOUND)
                write_out(access);
        char *out = access->out + access->out_size;
        out += sprintf(out, "%s - - [%s] \"", entry->client, date_of(access, entry->ended));
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
        access->out_size = (size_t)(out - access->out);
}

/* -- the thread: records -- */

static void
tell(struct weir__access *access, const struct record *record)
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
        if (access->path)
                add_line(access, &entry);
        if (access->function)
                access->function(&entry, access->context);
}

static void
empty_ring(struct weir__access *access, struct weir__access_ring *ring)
{
        size_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
        size_t written = atomic_load_explicit(&ring->written, memory_order_acquire);

        while (taken != written) {
                const struct record *record = (const struct record *)(const void *)(ring->bytes + taken % RING_SIZE);

                if (record->size)
                        tell(access, record);
                taken += record->size ? record->size : RING_SIZE - taken % RING_SIZE;
                atomic_store_explicit(&ring->taken, taken, memory_order_release);
        }
}

static void
empty_rings(struct weir__access *access)
{
        atomic_store(&access->call, IDLE);
        weir__fence_heavy();
        for (unsigned i = 0; i < access->ring_count; i++)
                empty_ring(access, &access->rings[i]);
        if (access->out_size)
                write_out(access);
        say_what_was_lost(access);
}

static void *
run(void *argument)
{
        struct weir__access *access = argument;

        is_own_thread = true;
        pthread_setname_np(pthread_self(), "weir/access");
        while (!is_stopping(access)) {
                wait_for_records(access);
                change_file(access);
                empty_rings(access);
        }
        empty_rings(access); /* whoever said stop has seen the last record */
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

int
weir__access_new(const struct weir_http_server_config *config, struct weir__access **ret_access)
{
        *ret_access = NULL;
        if (!config->access_log && !config->on_access)
                return 0;
        struct weir__access *access = calloc(1, sizeof *access);
        char *path = access && config->access_log ? strdup(config->access_log) : NULL;
        int wake_fd = access ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1, failed = access && wake_fd < 0 ? -errno : 0;

        if (!access || failed || (config->access_log && !path)) {
                if (wake_fd >= 0)
                        close(wake_fd);
                free(path);
                free(access);
                return failed ? failed : -ENOMEM;
        }
        *access = (struct weir__access){
                .path = path,
                .function = config->on_access,
                .context = config->access_context,
                .wake_fd = wake_fd,
                .fd = -1,
                .may_block = path && strcmp(path, "-") == 0,
                .date_second = INT64_MIN,
                .next_fd = -1,
        };
        *ret_access = access;
        return 0;
}

static void
drop_next(struct weir__access *access)
{
        int next = atomic_exchange(&access->next_fd, -1);

        if (next >= 0)
                close(next);
}

void
weir__access_free(struct weir__access *access)
{
        if (!access)
                return;
        drop_next(access);
        close(access->wake_fd);
        free(access->path);
        free(access);
}

static int
make_rings(struct weir__access *access, unsigned count)
{
        access->rings = aligned_alloc(_Alignof(struct weir__access_ring), count * sizeof *access->rings);
        if (!access->rings)
                return -ENOMEM;
        memset(access->rings, 0, count * sizeof *access->rings);
        access->ring_count = count;
        for (unsigned i = 0; i < count; i++) {
                access->rings[i].access = access;
                access->rings[i].bytes = malloc(RING_SIZE);
                if (!access->rings[i].bytes)
                        return -ENOMEM;
        }
        access->out = access->path ? malloc(OUT_SIZE) : NULL;
        return access->path && !access->out ? -ENOMEM : 0;
}

static void
clear(struct weir__access *access)
{
        atomic_store(&access->serves, false);
        drop_next(access);
        for (unsigned i = 0; i < access->ring_count; i++)
                free(access->rings[i].bytes);
        free(access->rings);
        free(access->out);
        access->rings = NULL;
        access->out = NULL;
        access->ring_count = 0;
        if (access->fd >= 0)
                close(access->fd);
        access->fd = -1;
}

int
weir__access_start(struct weir__access *access, unsigned count)
{
        if (!access)
                return 0;
        atomic_store(&access->call, IDLE);
        atomic_store(&access->stops, false);
        access->stop_began = 0;
        access->was_given_up = false;
        int failed = make_rings(access, count);
        if (!failed && access->path) {
                access->fd = open_file(access->path);
                failed = access->open_fault = access->fd < 0 ? access->fd : 0;
        }
        if (!failed)
                failed = weir__crew_make_thread(&access->thread, run, access);
        if (failed) {
                clear(access);
                return failed;
        }
        access->runs = true;
        atomic_store(&access->serves, access->path && !access->may_block);
        return 0;
}

void
weir__access_complain(struct weir__access *access)
{
        if (access && access->open_fault)
                weir__log(WEIR_LOG_ERROR, "access log: %s: %s", access->path, strerror(-access->open_fault));
}

void
weir__access_stop(struct weir__access *access)
{
        if (!access || !access->runs)
                return;
        atomic_store_explicit(&access->stops, true, memory_order_release);
        eventfd_write(access->wake_fd, 1);
        pthread_join(access->thread, NULL);
        access->runs = false;
        clear(access);
}

struct weir__access_ring *
weir__access_ring(struct weir__access *access, unsigned index)
{
        return access ? &access->rings[index] : NULL;
}

/* -- any thread -- */

int
weir_http_server_reopen_log(weir_http_server *server)
{
        struct weir__access *access = server ? server->access : NULL;

        if (weir__runtime_forked())
                return -ECHILD;
        if (!access || !atomic_load(&access->serves))
                return server ? -EDOM : -EINVAL;
        int fd = open_file(access->path);
        if (fd < 0)
                return fd;
        int before = atomic_exchange(&access->next_fd, fd);
        if (before >= 0)
                close(before);
        eventfd_write(access->wake_fd, 1);
        return 0;
}

size_t
weir_http_server_access_lost(const weir_http_server *server)
{
        return server && server->access ? atomic_load_explicit(&server->access->lost, memory_order_relaxed) : 0;
}
