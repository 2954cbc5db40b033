/* test/pump_faults_test.c: pumps when the system fails, and which bytes go through a pipe.
 *
 * The linker puts the functions below in front of the library's and the system's (test/CMakeLists.txt). */
#include "test/fixture.h"

#include <errno.h>
#include <sys/socket.h>

#define BULK ((size_t)1 << 20)

/* -- faults -- */

enum call { CALL_SPLICE_IN, CALL_SPLICE_OUT, CALL_PIPE, CALL_ALLOC, CALLS };

static int inner[2]; /* the sockets of the streams: from, to */

static _Atomic int error_of[CALLS]; /* of the next calls; 0: none */
static _Atomic int left_of[CALLS];  /* how many calls fail */
static _Atomic unsigned calls_of[CALLS];
static _Atomic bool is_memory_short;               /* for what is in the pipe at that cancel */
static _Atomic size_t refused_size;                /* of the next malloc of just as much; 0: none */
static _Atomic(weir_series *) cancelled_in_splice; /* when bytes were taken in */

ssize_t __real_splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags);
ssize_t __wrap_splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags);
int __real_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags);
void *__real_weir__alloc(size_t size);
void *__wrap_weir__alloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

/* Returns the error with which the call fails; 0: it does not. */
static int
fault_of(enum call call)
{
        int error = error_of[call];

        atomic_fetch_add(&calls_of[call], 1);
        if (!error || atomic_fetch_sub(&left_of[call], 1) <= 0)
                return 0;
        errno = error;
        return error;
}

ssize_t
__wrap_splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags)
{
        bool takes_in = in == inner[0];

        if (fault_of(takes_in ? CALL_SPLICE_IN : CALL_SPLICE_OUT))
                return -1;
        ssize_t count = __real_splice(in, in_at, out, out_at, size, flags);
        weir_series *series = takes_in && count > 0 ? atomic_exchange(&cancelled_in_splice, NULL) : NULL;
        if (!series)
                return count;
        refused_size = is_memory_short ? (size_t)count : 0;
        weir_series_cancel(series);
        return count;
}

int
__wrap_pipe2(int ends[2], int flags)
{
        return fault_of(CALL_PIPE) ? -1 : __real_pipe2(ends, flags);
}

void *
__wrap_weir__alloc(size_t size)
{
        return fault_of(CALL_ALLOC) ? NULL : __real_weir__alloc(size);
}

void *
__wrap_malloc(size_t size)
{
        size_t refused = size;

        return size && atomic_compare_exchange_strong(&refused_size, &refused, 0) ? NULL : __real_malloc(size);
}

static void
fail(enum call call, int error, int times)
{
        left_of[call] = times;
        error_of[call] = error;
}

/* -- what the tests share -- */

static int source, sink; /* the peers' */
static weir_stream *from, *to;
static weir_series *series;
static char *pattern;

static struct {
        struct weir_test_record record;
        uint64_t moved;
        weir_stream *failed;
} pumped;

static void
note(weir_task *pump, void *context)
{
        (void)context;
        pumped.moved = weir_pump_moved(pump);
        pumped.failed = weir_pump_failed(pump);
        weir_test_note(&pumped.record, weir_task_status(pump));
}

static void
begin(void)
{
        int ends[2];

        memset(&pumped, 0, sizeof pumped);
        memset(error_of, 0, sizeof error_of);
        memset(calls_of, 0, sizeof calls_of);
        pattern = malloc(BULK);
        for (size_t i = 0; i < BULK; i++)
                pattern[i] = (char)(i * 31 + i / 251);
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        from = weir_stream_of(inner[0] = ends[0]);
        source = ends[1];
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        to = weir_stream_of(inner[1] = ends[0]);
        sink = ends[1];
        series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_task *pump = weir_pump_new(from, to, note, NULL);
        weir_series_push(series, pump);
        weir_series_start(series);
        weir_test_pass(0);
}

static void
end(void)
{
        memset(error_of, 0, sizeof error_of);
        is_memory_short = false;
        weir_stream_unref(from);
        weir_stream_unref(to);
        weir_series_unref(series);
        weir_test_end();
        close(source);
        close(sink);
        free(pattern);
        CU_ASSERT_EQUAL(pumped.record.calls, 1);
}

/* Sends as much of the pattern as goes, from `sent` on. */
static size_t
push(size_t sent, size_t size)
{
        ssize_t count = sent < size ? send(source, pattern + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

        return sent + (count > 0 ? (size_t)count : 0);
}

/* Takes what has come.  Returns how many bytes of the pattern have come by then, from `seen` on. */
static size_t
pull(size_t seen)
{
        static char room[1 << 16];
        ssize_t count;

        while ((count = recv(sink, room, sizeof room, MSG_DONTWAIT)) > 0) {
                CU_ASSERT(seen + (size_t)count <= BULK && memcmp(room, pattern + seen, (size_t)count) == 0);
                seen += (size_t)count;
        }
        return seen;
}

/* Returns how many bytes of the first `size` have come until nothing moves. */
static size_t
carry(size_t size)
{
        size_t sent = 0, seen = 0;

        for (int idle = 0; seen < size && idle < 50; idle++) {
                size_t before = seen;

                sent = push(sent, size);
                weir_test_pass(0);
                seen = pull(seen);
                if (seen > before)
                        idle = -1;
        }
        return seen;
}

/* The source ends.  The pump has gone well. */
static void
finish(void)
{
        shutdown(source, SHUT_WR);
        weir_test_pass(0);
        WEIR_TEST_EVENTUALLY((weir_test_pass(0), pumped.record.calls));
        CU_ASSERT_EQUAL(pumped.record.status, 0);
        CU_ASSERT_EQUAL(pumped.moved, BULK);
        CU_ASSERT_PTR_NULL(pumped.failed);
}

/* -- which bytes go through a pipe -- */

static void
many_bytes_go_through_a_pipe(void)
{
        begin();
        CU_ASSERT_EQUAL(carry(BULK), BULK);
        CU_ASSERT(calls_of[CALL_SPLICE_OUT] > 0);
        CU_ASSERT_EQUAL(calls_of[CALL_PIPE], 1); /* one after the other */
        finish();
        end();
}

static void
small_messages_are_copied(void)
{
        begin();
        for (size_t i = 0; i < 100; i++) {
                CU_ASSERT_EQUAL(push(i * 32, (i + 1) * 32), (i + 1) * 32);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(pull(i * 32), (i + 1) * 32);
        }
        CU_ASSERT_EQUAL(calls_of[CALL_SPLICE_IN] + calls_of[CALL_PIPE], 0);
        weir_series_cancel(series);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(pumped.moved, 3200);
        end();
}

/* The first of them shows that it is small. */
static void
messages_are_copied_again_after_many_bytes(void)
{
        begin();
        CU_ASSERT_EQUAL(carry(BULK / 2), BULK / 2);
        unsigned before = calls_of[CALL_SPLICE_OUT];
        size_t at = BULK / 2;
        for (size_t i = 0; i < 10; i++, at += 32) {
                CU_ASSERT_EQUAL(push(at, at + 32), at + 32);
                weir_test_pass(0);
                CU_ASSERT_EQUAL(pull(at), at + 32);
        }
        CU_ASSERT(calls_of[CALL_SPLICE_OUT] <= before + 1);
        weir_series_cancel(series);
        weir_test_pass(0);
        end();
}

/* -- what fails -- */

/* Later pumps do not suffer from that. */
static void
without_a_pipe_bytes_are_copied(void)
{
        unsigned refused = 0;

        for (unsigned i = 0; i < 1000 && refused < 100; i++) { /* more than pipes may be in use */
                begin();
                fail(CALL_PIPE, EMFILE, 1000);
                CU_ASSERT_EQUAL(carry(BULK), BULK);
                CU_ASSERT(calls_of[CALL_PIPE] > 0);
                CU_ASSERT_EQUAL(calls_of[CALL_SPLICE_IN], 0);
                refused += calls_of[CALL_PIPE];
                finish();
                end();
        }
        begin();
        CU_ASSERT_EQUAL(carry(BULK), BULK);
        CU_ASSERT(calls_of[CALL_SPLICE_OUT] > 0);
        finish();
        end();
}

static void
what_the_system_cannot_splice_is_copied(void)
{
        static const int errors[] = {EINVAL, ENOSYS, EPERM, EACCES, ENOMEM};

        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
                begin();
                fail(CALL_SPLICE_IN, errors[i], 1000);
                CU_ASSERT_EQUAL(carry(BULK), BULK);
                CU_ASSERT_EQUAL(calls_of[CALL_SPLICE_IN], 1); /* it is not asked again */
                finish();
                end();
        }
}

static void
an_interrupted_splice_goes_on(void)
{
        begin();
        fail(CALL_SPLICE_IN, EINTR, 3);
        fail(CALL_SPLICE_OUT, EINTR, 3);
        CU_ASSERT_EQUAL(carry(BULK), BULK);
        finish();
        end();
}

static void
an_error_of_a_splice_ends_the_pump_and_tells_the_stream(void)
{
        static const struct {
                enum call call;
                int error, status;
        } errors[] = {{CALL_SPLICE_IN, ECONNRESET, -ECONNRESET},
                      {CALL_SPLICE_OUT, ENOMEM, -ENOMEM},
                      {CALL_SPLICE_OUT, EPIPE, -EPIPE}};

        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
                begin();
                fail(errors[i].call, errors[i].error, 1);
                size_t seen = carry(BULK);
                CU_ASSERT(seen < BULK);
                CU_ASSERT_EQUAL(pumped.record.status, errors[i].status);
                CU_ASSERT_PTR_EQUAL(pumped.failed, errors[i].call == CALL_SPLICE_IN ? from : to);
                CU_ASSERT_EQUAL(pumped.moved, seen);
                end();
        }
}

static void
without_memory_for_a_step_the_pump_ends(void)
{
        begin();
        CU_ASSERT_EQUAL(carry(64), 64);
        fail(CALL_ALLOC, ENOMEM, 1000);
        (void)push(64, 128);
        weir_test_pass(0);
        CU_ASSERT_EQUAL(pumped.record.status, -ENOMEM);
        CU_ASSERT_PTR_NULL(pumped.failed);
        CU_ASSERT_EQUAL(pumped.moved, pull(64));
        end();
}

/* -- a cancel while bytes are in the pipe -- */

static size_t last_size;
static char last[1 << 18];

static void
see(weir_task *read, void *status)
{
        const void *data = weir_stream_data(read, &last_size);

        *(int *)status = weir_task_status(read);
        memcpy(last, data, last_size);
}

/* Cancels when bytes have come into the pipe, before they are written. */
static size_t
cancel_in_the_pipe(void)
{
        size_t sent = 0, seen = 0;

        for (int turn = 0; turn < 100 && !pumped.record.calls; turn++) {
                sent = push(sent, BULK);
                if (turn == 1)
                        cancelled_in_splice = series;
                weir_test_pass(0);
                seen = pull(seen);
        }
        CU_ASSERT_EQUAL(pumped.record.status, -ECANCELED);
        CU_ASSERT_EQUAL(pumped.moved, seen);
        return seen;
}

static void
a_cancel_gives_back_what_is_in_the_pipe(void)
{
        int status = 1;

        begin();
        size_t seen = cancel_in_the_pipe();
        weir_task_start(weir_stream_read_new(from, 1, sizeof last, see, &status));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT(last_size > 0 && memcmp(last, pattern + seen, last_size) == 0);
        end();
}

static void
without_memory_to_give_back_the_stream_is_broken(void)
{
        int status = 1;

        begin();
        is_memory_short = true;
        cancel_in_the_pipe();
        CU_ASSERT_EQUAL(refused_size, 0);
        weir_task_start(weir_stream_read_new(from, 1, sizeof last, see, &status));
        weir_test_pass(0);
        CU_ASSERT_EQUAL(status, -ECONNABORTED);
        end();
}

static const struct weir_test tests[] = {
        WEIR_TEST(many_bytes_go_through_a_pipe),
        WEIR_TEST(small_messages_are_copied),
        WEIR_TEST(messages_are_copied_again_after_many_bytes),
        WEIR_TEST(without_a_pipe_bytes_are_copied),
        WEIR_TEST(what_the_system_cannot_splice_is_copied),
        WEIR_TEST(an_interrupted_splice_goes_on),
        WEIR_TEST(an_error_of_a_splice_ends_the_pump_and_tells_the_stream),
        WEIR_TEST(without_memory_for_a_step_the_pump_ends),
        WEIR_TEST(a_cancel_gives_back_what_is_in_the_pipe),
        WEIR_TEST(without_memory_to_give_back_the_stream_is_broken),
};

int
main(void)
{
        return weir_test_main("pump_faults", tests, sizeof tests / sizeof *tests);
}
