/* kernel/observe/trace_file.c: a trace from its start to its stop, and its file.
 *
 *     none --start--> the session has a number, a thread writes --stop, exit()--> no session; the thread writes the rest --> none
 *
 * Threads: any thread starts and stops, one at a time.  The writer is a thread of its own: it formats the records in the rings
 *          (trace.c) and closes the file, so no other thread waits for the disk.  It sleeps until a ring is half full,
 *          WRITER_PAUSE at most.  At exit() the file may be a FIFO or a terminal without a reader.  So exit() waits for the
 *          writer as long as for callbacks, and then leaves it.
 * Locks:   trace.lock (rank RUNTIME), held by start and stop while they wait for the file and the writer; rings.lock under it.
 *
 * Only whole events go out at once.  After a failed write the file is cut back to the end of the last event, and the array gets
 * its end there.  The bytes that were cut off leave room for that, however full the disk is. */
#include <weir/runtime.h>
#include <weir/trace.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/thread.h"
#include "kernel/base/fence.h"
#include "kernel/base/futex.h"
#include "kernel/base/latch.h"
#include "kernel/base/phase.h"
#include "kernel/observe/log.h"
#include "kernel/observe/sink.h"
#include "kernel/observe/trace_ring.h"
#include "kernel/data/visible.h"
#include "kernel/data/work.h"

#define WRITER_PAUSE WEIR_MSEC(100)
#define EVENT_MAX    1536 /* bytes of an event: its name is there up to three times, and a byte of it may take six */

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        unsigned sessions; /* started so far */
        pthread_t thread;
        bool is_running;
        pid_t process;

        /* The writer's, while it runs. */
        struct weir__fd_sink out;
        weir__sink_fn *write; /* that of a descriptor */
        off_t size;           /* of the whole events in the file */
        uint64_t arrows;
        bool has_begun; /* the file has an event */

        /* Its results, constant once `gone` is open. */
        uint64_t lost;
        int failed;
        struct weir__latch gone;

        _Atomic bool should_end;
} trace = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_RUNTIME), .out.fd = -1};

/* -- text -- */

static void
put(const char *text)
{
        weir__sink_text(&trace.out.sink, text);
}

/* Behind that text.  By snprintf the writer would need four times as long for an event. */
static void
put_number(const char *before, int64_t number)
{
        char digits[24], *at = digits + sizeof digits;
        uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

        do {
                *--at = (char)('0' + rest % 10);
                rest /= 10;
        } while (rest);
        if (number < 0)
                *--at = '-';
        put(before);
        weir__sink_write(&trace.out.sink, at, (size_t)(digits + sizeof digits - at));
}

/* In microseconds, behind that text. */
static void
put_time(const char *before, weir_nsec time)
{
        uint64_t length = time < 0 ? 0 - (uint64_t)time : (uint64_t)time;

        put(before);
        put_number(time < 0 ? "-" : "", (int64_t)(length / 1000));
        put_number("", (int64_t)(1000 + length % 1000));
        trace.out.sink.buffer[trace.out.sink.used - 4] = '.'; /* instead of the 1 */
}

/* The inside of a string.  A byte that is no character becomes U+FFFD.  `is_cut`: the text was longer. */
static void
put_text(const char *text, size_t size, bool is_cut)
{
        for (size_t at = 0; at < size;) {
                unsigned char byte = (unsigned char)text[at];
                unsigned length = weir__utf8_character(text + at, size - at);

                if (length > size - at && is_cut)
                        break;
                if (byte < ' ' || byte == '"' || byte == '\\' || byte == 0x7f)
                        weir__sink_printf(&trace.out.sink, "\\u%04x", byte);
                else if (length == 0 || length > size - at)
                        put("\\ufffd");
                else
                        weir__sink_write(&trace.out.sink, text + at, length);
                at += length == 0 || length > size - at ? 1 : length;
        }
        if (is_cut)
                put("...");
}

static void
put_name(const struct weir__trace_record *record)
{
        bool is_cut = record->name_size > WEIR__TRACE_NAME;

        put_text(record->name, is_cut ? WEIR__TRACE_NAME : record->name_size, is_cut);
}

/* -- events -- */

/* Each event begins so and ends with a brace.  put_record() has made room for it. */
static void
begin_event(char phase, uint32_t track)
{
        put(trace.has_begun ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
        weir__sink_write(&trace.out.sink, &phase, 1);
        put_number("\",\"pid\":", trace.process);
        put_number(",\"tid\":", track);
        trace.has_begun = true;
}

static void
put_track(const struct weir__trace_record *record)
{
        begin_event('M', record->track);
        put(",\"name\":\"thread_name\",\"args\":{\"name\":\"");
        put_name(record);
        put("\"}}");
}

/* Both ends of an arrow: within a series, or to a worker that gets a poller. */
static void
put_arrow(const struct weir__trace_record *record)
{
        const char *what = record->series ? ",\"cat\":\"flow\",\"name\":\"next\",\"id\":"
                                          : ",\"cat\":\"flow\",\"name\":\"hand-over\",\"id\":";

        begin_event('s', record->from_track);
        put_time(",\"ts\":", record->from_at);
        put_number(what, (int64_t)++trace.arrows);
        put("}");
        begin_event('f', record->track);
        put_time(",\"ts\":", record->at);
        put_number(what, (int64_t)trace.arrows);
        put(",\"bp\":\"e\"}");
}

/* Each argument begins with a comma, and a brace takes the place of the first one. */
static void
put_arguments(const struct weir__trace_record *record)
{
        struct weir__sink *sink = &trace.out.sink;

        put(",\"args\":");
        size_t first = sink->used;
        if (record->series)
                put_number(",\"series\":", record->series);
        if (record->has_status)
                put_number(",\"status\":", record->status);
        if (record->has_status && record->status)
                weir__sink_printf(sink, ",\"meaning\":\"%s\"", weir_strerror(record->status));
        if (record->has_lateness)
                put_time(",\"late_us\":", record->lateness);
        if (record->has_awaited)
                weir__sink_printf(sink, ",\"awaited\":\"%s\"", weir__kind_without_article(record->awaited));
        if (record->poller >= 0)
                put_number(",\"poller\":", record->poller);
        if (record->has_lost_poller)
                put(",\"lost_poller\":true");
        if (sink->used == first)
                put("{");
        sink->buffer[first] = '{';
        put("}}");
}

static void
put_slice(const struct weir__trace_record *record)
{
        const char *kind = weir__kind_without_article(record->kind);

        begin_event('X', record->track);
        put_time(",\"ts\":", record->at);
        put_time(",\"dur\":", record->until - record->at);
        put(kind == record->kind ? ",\"cat\":\"scheduler\",\"name\":\"" : ",\"cat\":\"callback\",\"name\":\"");
        put(kind);
        if (record->name_size) {
                put(" \\\"");
                put_name(record);
                put("\\\"");
        }
        put("\"");
        put_arguments(record);
        if (record->from_at)
                put_arrow(record);
}

static void
put_note(const struct weir__trace_record *record)
{
        begin_event('i', record->track);
        put_time(",\"ts\":", record->at);
        put(",\"s\":\"t\",\"cat\":\"scheduler\",\"name\":\"");
        put(record->kind);
        put("\",\"args\":{\"");
        put(record->unit);
        put_number("\":", record->number);
        put("}}");
}

/* Both ends of a stage.  Stages of one thing have its number, by which viewers put them into one row. */
static void
put_stage(const struct weir__trace_record *record)
{
        for (const char *phase = "be"; *phase; phase++) {
                begin_event(*phase, record->track);
                put_time(",\"ts\":", *phase == 'b' ? record->at : record->until);
                put_number(",\"cat\":\"stage\",\"id\":", record->number);
                put(",\"name\":\"");
                put(record->kind);
                put(" ");
                put_name(record);
                put("\"");
                put_arguments(record);
        }
}

static void
put_record(const struct weir__trace_record *record)
{
        if (sizeof trace.out.sink.buffer - trace.out.sink.used < EVENT_MAX)
                weir__sink_flush(&trace.out.sink);
        if (trace.out.sink.error)
                return;
        switch ((enum weir__trace_type)record->type) {
        case WEIR__TRACE_TRACK: put_track(record); break;
        case WEIR__TRACE_SLICE: put_slice(record); break;
        case WEIR__TRACE_NOTE: put_note(record); break;
        case WEIR__TRACE_STAGE: put_stage(record); break;
        }
}

/* -- the file -- */

static int
write_events(struct weir__sink *sink, const char *bytes, size_t size)
{
        int failed = trace.write(sink, bytes, size);

        if (!failed)
                trace.size += (off_t)size;
        return failed;
}

static void
begin_file(int fd)
{
        weir__fd_sink_init(&trace.out, fd);
        trace.write = trace.out.sink.write;
        trace.out.sink.write = write_events;
        trace.size = 0;
        trace.has_begun = false;
        trace.arrows = 0;
        put("[");
        begin_event('M', 0);
        put(",\"name\":\"process_name\",\"args\":{\"name\":\"");
        put_text(program_invocation_short_name, strnlen(program_invocation_short_name, WEIR__TRACE_NAME), false);
        put("\"}}");
}

/* Returns how many events were left out, and sets the counts to 0. */
static uint64_t
take_lost(void)
{
        struct weir__trace_ring *ring = atomic_load_explicit(&weir__trace_rings.first, memory_order_acquire);
        uint64_t lost = atomic_exchange_explicit(&weir__trace_rings.lost, 0, memory_order_relaxed);

        for (; ring; ring = ring->next)
                lost += atomic_exchange_explicit(&ring->lost, 0, memory_order_relaxed);
        return lost;
}

/* A write has failed. */
static void
mend_file(void)
{
        static const char end[] = "\n]\n";

        if (trace.size > 0 && ftruncate(trace.out.fd, trace.size) == 0 && lseek(trace.out.fd, trace.size, SEEK_SET) >= 0)
                (void)!write(trace.out.fd, end, sizeof end - 1);
}

/* Result: 0 or the first error. */
static int
end_file(uint64_t lost)
{
        int fd = trace.out.fd;

        if (lost > 0) {
                const struct weir__trace_record record = {.type = WEIR__TRACE_NOTE,
                                                          .at = weir__clock_now(),
                                                          .kind = "events were left out: a buffer was full",
                                                          .unit = "count",
                                                          .number = (int64_t)lost};
                put_record(&record);
        }
        put("\n]\n");
        int failed = weir__sink_flush(&trace.out.sink);
        if (failed)
                mend_file();
        trace.out.fd = -1; /* first: a child of fork() closes what it finds here */
        return close(fd) < 0 && !failed && errno != EINTR ? -errno : failed;
}

/* -- the writer -- */

static void
write_ring(struct weir__trace_ring *ring)
{
        uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);

        while (tail != head) {
                put_record(&ring->records[tail++ % WEIR__TRACE_RECORDS]);
                atomic_store_explicit(&ring->tail, tail, memory_order_release);
        }
}

static void
write_rings(void)
{
        struct weir__trace_ring *ring = atomic_load_explicit(&weir__trace_rings.first, memory_order_acquire);

        for (; ring; ring = ring->next)
                write_ring(ring);
}

static void *
writer_main(void *unused)
{
        bool should_end;

        (void)unused;
        pthread_setname_np(pthread_self(), "weir/trace");
        do {
                should_end = atomic_load_explicit(&trace.should_end, memory_order_acquire);
                if (!should_end && !atomic_exchange(&weir__trace_rings.wanted, 0))
                        weir__futex_wait_for(&weir__trace_rings.wanted, 0, WRITER_PAUSE);
                write_rings();
                if (!should_end)
                        weir__sink_flush(&trace.out.sink);
        } while (!should_end);
        trace.lost = take_lost();
        trace.failed = end_file(trace.lost);
        weir__latch_open(&trace.gone);
        return NULL;
}

/* -- start and stop -- */

/* With the lock held. */
static int
begin_trace(int fd)
{
        trace.process = getpid();
        begin_file(fd);
        atomic_store(&trace.should_end, false);
        atomic_store(&trace.gone.open, 0);
        atomic_store(&weir__trace_rings.wanted, 0);
        int failed = weir__thread_make(&trace.thread, writer_main, NULL);
        if (failed) {
                trace.out.fd = -1;
                close(fd);
                return failed;
        }
        trace.is_running = true;
        if (++trace.sessions == 0)
                trace.sessions = 1;
        atomic_store(&weir__trace_session, trace.sessions);
        return 0;
}

/* When it returns, no thread writes an event. */
static void
end_session(void)
{
        struct weir__trace_ring *ring;

        atomic_store(&weir__trace_session, 0);
        weir__fence_heavy();
        for (ring = atomic_load_explicit(&weir__trace_rings.first, memory_order_acquire); ring; ring = ring->next)
                while (atomic_load_explicit(&ring->is_busy, memory_order_acquire))
                        (void)sched_yield();
}

/* A thread that is about to take part sees that there is no trace. */
static void
free_records(void)
{
        weir__lock(&weir__trace_rings.lock);
        for (struct weir__trace_ring *ring = weir__trace_rings.first; ring; ring = ring->next) {
                free(ring->records);
                ring->records = NULL;
                atomic_store_explicit(&ring->head, 0, memory_order_relaxed);
                atomic_store_explicit(&ring->tail, 0, memory_order_relaxed);
        }
        weir__unlock(&weir__trace_rings.lock);
}

/* With the lock held. After -ETIMEDOUT the trace still runs, so no other trace can begin, which the writer would mix up with
 * it. */
static int
end_trace(weir_nsec until, uint64_t *lost)
{
        if (!trace.is_running)
                return -EALREADY;
        end_session();
        atomic_store_explicit(&trace.should_end, true, memory_order_release);
        weir__trace_call_writer();
        if (!weir__thread_join(trace.thread, &trace.gone, until))
                return -ETIMEDOUT;
        trace.is_running = false;
        *lost = trace.lost;
        free_records();
        return trace.failed;
}

static int
open_file(const char *path)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);

        return fd < 0 ? -errno : fd;
}

int
weir_trace_start(const char *path)
{
        int before = errno, failed = weir__phase_is_forked() ? -ECHILD : path ? weir__steps_start() : -EINVAL;

        if (failed == -EINVAL)
                weir__log_refusal("weir_trace_start: the path is NULL: expected that of a file");
        if (failed) {
                errno = before;
                return failed;
        }
        weir__lock(&trace.lock);
        int fd = trace.is_running ? -EBUSY : open_file(path);
        failed = fd < 0 ? fd : begin_trace(fd);
        weir__unlock(&trace.lock);
        errno = before;
        return failed;
}

static int
stop_trace(weir_nsec until)
{
        uint64_t lost = 0;

        if (!weir__lock_until(&trace.lock, until)) /* another thread may wait for a file */
                return -ETIMEDOUT;
        int failed = end_trace(until, &lost);
        weir__unlock(&trace.lock);
        if (lost)
                weir__log(WEIR_LOG_WARNING, "the trace lacks %llu events, for which there was no room in a buffer",
                          (unsigned long long)lost);
        return failed ? failed : lost > INT_MAX ? INT_MAX : (int)lost;
}

int
weir_trace_stop(void)
{
        int before = errno, result = weir__phase_is_forked() ? -ECHILD : stop_trace(WEIR_FOREVER);

        errno = before;
        return result;
}

/* -- exit and fork -- */

static void
stop_at_exit(void)
{
        weir_nsec until = weir__clock_after(weir__clock_monotonic(), weir__phase_exit_wait);
        int result = weir__phase_is_forked() ? -ECHILD : stop_trace(until);

        if (result < 0 && result != -EALREADY && result != -ECHILD)
                weir__log(WEIR_LOG_ERROR, "the trace is not whole: %s", weir_strerror(result));
}

/* The trace is the parent's: the child must not write a byte of it. */
static void
become_child(void)
{
        int fd = trace.out.fd;

        atomic_store(&weir__trace_session, 0);
        weir__lock_init(&trace.lock, WEIR__RANK_RUNTIME);
        weir__lock_init(&weir__trace_rings.lock, WEIR__RANK_LEAF);
        trace.out.fd = -1;
        trace.is_running = false;
        if (fd >= 0)
                close(fd);
        for (struct weir__trace_ring *ring = weir__trace_rings.first; ring; ring = ring->next) {
                ring->is_owned = false;
                atomic_store(&ring->is_busy, false);
        }
        weir__trace_leave();
        free_records();
        take_lost();
}

WEIR__STEPS_OF(WEIR__MODULE_TRACE, [WEIR__STEP_IN_CHILD] = become_child, [WEIR__STEP_EXIT] = stop_at_exit);
