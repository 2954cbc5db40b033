/* test/server_memory_test.c: allocations that are refused, one after another, to a server whose bodies stream.
 *
 * The linker puts the functions below in front of the allocator (test/CMakeLists.txt): they count the live blocks, and refuse the
 * allocation that a test has chosen, where a worker asks for it.
 *
 * A scenario is run again and again, each time with the next allocation refused, until it needs no more of them.  Each time the
 * client gets the right reply, an error, or sees the connection end; the next client is served; and nothing is left. */
#include "kernel/worker.h"
#include "protocol/response.h"
#include "test/body_fixture.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *block);

void *__wrap_weir__alloc(size_t size);
void __wrap_weir__free(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

static _Atomic int64_t live;         /* blocks */
static _Atomic int64_t left;         /* allocations until the refused one; below 0: it has been, or none is */
static _Atomic bool armed, for_good; /* for_good: all that come after it are refused too */
static _Atomic bool refused;         /* one was */

static bool
refuse(void)
{
        if (!atomic_load(&armed) || !weir__worker_self()) {
                return false;
        }
        int64_t before = atomic_fetch_sub(&left, 1);
        if (before > 0 || (before < 0 && !atomic_load(&for_good))) {
                return false;
        }
        atomic_store(&refused, true);
        errno = ENOMEM;
        return true;
}

static void *
counted(void *block)
{
        atomic_fetch_add(&live, block ? 1 : 0);
        return block;
}

void *
__wrap_malloc(size_t size)
{
        return refuse() ? NULL : counted(__real_malloc(size));
}

void *
__wrap_calloc(size_t count, size_t size)
{
        return refuse() ? NULL : counted(__real_calloc(count, size));
}

void *
__wrap_realloc(void *block, size_t size)
{
        void *moved = refuse() ? NULL : __real_realloc(block, size);

        return block ? moved : counted(moved);
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
        return refuse() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

char *
__wrap_strdup(const char *text)
{
        return refuse() ? NULL : counted(__real_strdup(text));
}

void
__wrap_free(void *block)
{
        atomic_fetch_sub(&live, block ? 1 : 0);
        __real_free(block);
}

/* Blocks come from malloc one by one, so that each of them can be refused, and is counted. */
void *
__wrap_weir__alloc(size_t size)
{
        return __wrap_malloc(size);
}

void
__wrap_weir__free(void *block, size_t size)
{
        (void)size;
        __wrap_free(block);
}

/* -- scenarios -- */

#define BODY "0123456789"

struct scenario {
        const char *request; /* in two parts, which come one after the other */
        const char *rest;
        int stream_bodies;
        weir_task_fn *handler;
};

/* Takes all the room that the reply has inside, so that body and fields need memory of their own. */
static void
fill_the_room(weir_task *exchange)
{
        char value[WEIR__RESPONSE_ROOM - 4] = "";

        memset(value, 'y', sizeof value - 1);
        weir_http_reply_header(exchange, "X", value);
}

static void
reply_body(weir_task *exchange, void *context)
{
        size_t size;
        const void *body = weir_http_request_body(exchange, &size);

        (void)context;
        fill_the_room(exchange);
        weir_http_reply_append(exchange, body, size);
        weir_http_reply_header(exchange, "X", "y");
}

/* There may be no memory for a series. */
static void
push_first(weir_task *exchange, weir_task *task)
{
        if (weir_series_push(weir_series_of(exchange), task)) {
                weir_http_reply_status(exchange, 500);
        }
}

static void
reply_collected(weir_task *collect, void *context)
{
        if (weir_task_status(collect) == 0) {
                reply_body(context, NULL);
        }
}

static void
collect_and_reply(weir_task *exchange, void *context)
{
        (void)context;
        push_first(exchange, weir_http_collect_new(exchange, 0, reply_collected, exchange));
}

static void read_next(weir_task *write, void *context);

static void
write_piece(weir_task *read, void *context)
{
        size_t size = 0;
        const void *data = weir_http_read_data(read, &size);

        if (weir_task_status(read) == 0 && size > 0) {
                weir_series_push(weir_series_of(read), weir_http_write_new(context, data, size, read_next, context));
        } else if (weir_task_status(read) == -ENOMEM) { /* what was written is not all of it */
                weir_series_cancel(weir_series_of(read));
        }
}

static void
read_next(weir_task *write, void *context)
{
        if (weir_task_status(write) == 0) {
                weir_series_push(weir_series_of(write), weir_http_read_new(context, write_piece, context));
        } else {
                weir_series_cancel(weir_series_of(write));
        }
}

static void
echo_pieces(weir_task *exchange, void *context)
{
        (void)context;
        if (weir_http_request_header(exchange, "Upgrade") && weir_http_reply_upgrade(exchange, "echo")) {
                return;
        }
        fill_the_room(exchange);
        weir_http_reply_header(exchange, "X", "y");
        push_first(exchange, weir_http_write_new(exchange, NULL, 0, read_next, exchange));
}

static const struct scenario scenarios[] = {
        {CHUNKED "5\r\n01234", "\r\n5\r\n56789\r\n" LAST_CHUNK, 0, reply_body},
        {POST "Content-Length: 10\r\n\r\n01234", "56789", 0, reply_body},
        {CHUNKED "5\r\n01234", "\r\n5\r\n56789\r\n" LAST_CHUNK, 1, collect_and_reply},
        {POST "Content-Length: 10\r\n\r\n01234", "56789", 1, collect_and_reply},
        {CHUNKED "5\r\n01234", "\r\n5\r\n56789\r\n" LAST_CHUNK, 1, echo_pieces},
        {POST "Content-Length: 10\r\n\r\n01234", "56789", 1, echo_pieces},
        {"GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: echo\r\n\r\n01234", "56789", 1, echo_pieces},
};

/* Whether the reply is whole, and right; else it must be an error, or none. */
static bool
is_right(const struct scenario *scenario)
{
        if (!http_receive(&at.client, &at.reply, false)) {
                return false;
        }
        if (at.reply.status == 101) {
                CU_ASSERT_PTR_NOT_NULL(strstr(scenario->request, "Upgrade"));
                while (at.client.size < sizeof BODY - 1 && !at.client.ended) {
                        http_read_some(&at.client);
                }
                return at.client.size == sizeof BODY - 1 && memcmp(at.client.input, BODY, sizeof BODY - 1) == 0;
        }
        if (at.reply.status != 200) {
                CU_ASSERT(at.reply.status == 500 || at.reply.status == 503);
                return false;
        }
        HTTP_ASSERT_TEXT(at.reply.body, BODY);
        return true;
}

static bool
play(const struct scenario *scenario)
{
        (void)http_send_text(&at.client, scenario->request);
        weir_test_sleep(100000); /* the rest is to come later; right either way */
        (void)http_send_text(&at.client, scenario->rest);
        bool right = is_right(scenario);
        http_close(&at.client);
        return right;
}

/* Returns whether an allocation was refused. */
static bool
play_refused(const struct scenario *scenario, int64_t nth, bool all_after_it)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;

        config.stream_bodies = scenario->stream_bodies;
        weir_test_begin_real(1);
        at.server = http_server(&config, scenario->handler, NULL);
        at.port = weir_http_server_port(at.server);
        atomic_store(&left, nth);
        atomic_store(&for_good, all_after_it);
        atomic_store(&refused, false);
        atomic_store(&armed, true);
        http_open(&at.client, at.port);
        bool right = play(scenario);
        atomic_store(&armed, false);
        CU_ASSERT(right || atomic_load(&refused));
        http_open(&at.client, at.port);
        CU_ASSERT_TRUE(play(scenario)); /* when there is memory again */
        http_open(&at.client, at.port);
        end();
        return atomic_load(&refused);
}

static void
refuse_each(bool all_after_it)
{
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
                int64_t nth = 0, before;

                (void)play_refused(&scenarios[i], INT64_MAX, false); /* what is kept for good has been made */
                before = atomic_load(&live);
                while (play_refused(&scenarios[i], nth, all_after_it)) {
                        CU_ASSERT_EQUAL(atomic_load(&live), before);
                        nth++;
                }
                CU_ASSERT_EQUAL(atomic_load(&live), before);
                CU_ASSERT(nth > 5 && nth < 100);
        }
}

static void
any_allocation_of_an_exchange_may_be_refused(void)
{
        refuse_each(false);
}

static void
all_allocations_of_an_exchange_may_be_refused_from_one_on(void)
{
        refuse_each(true);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(any_allocation_of_an_exchange_may_be_refused),
                WEIR_TEST(all_allocations_of_an_exchange_may_be_refused_from_one_on),
        };

        return weir_test_main("server_memory", tests, sizeof tests / sizeof *tests);
}
