/* test/examples/weir_bench_test.c: a server of its own is asked, on the virtual clock: its responses take exactly so long. */
#include "test/examples/program.h"

#include "examples/weir-bench.c"
#undef main

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

static weir_http_server *server;
static char url[64];
static weir_nsec delay;
static int status, interrupt_at;
static _Atomic int requests;
static char seen[128];
static sem_t wanted, interrupted;

/* In a thread that waits for nothing else: ThreadSanitizer puts off the signal of one that does. */
static void *
interrupt(void *unused)
{
        (void)unused;
        sem_wait(&wanted);
        raise(SIGINT);
        sem_post(&interrupted);
        return NULL;
}

static void
handle(weir_task *exchange, void *context)
{
        const char *field = weir_http_request_header(exchange, "X-Test");

        (void)context;
        if (!requests)
                snprintf(seen, sizeof seen, "%s %s %s", weir_http_method(exchange), field ? field : "-",
                         (const char *)weir_http_request_body(exchange, NULL));
        if (++requests == interrupt_at) {
                sem_post(&wanted);
                sem_wait(&interrupted);
        }
        weir_series_push(weir_series_of(exchange), weir_timer_new(delay, NULL, NULL));
        weir_http_reply_text(exchange, status, "hello\n");
}

/* Runs the program with these options; the URL comes behind them.  It shuts the runtime down, and with it the server. */
static int
run_with(const char *options)
{
        char words[128], *argv[16] = {"weir-bench"};
        int argc = 1;

        snprintf(words, sizeof words, "%s", options);
        for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
                argv[argc++] = word;
        argv[argc++] = url;
        weir_test_begin_virtual();
        requests = 0;
        server = http_server(NULL, handle, NULL);
        if (!url[0])
                snprintf(url, sizeof url, "http://127.0.0.1:%d/", weir_http_server_port(server));
        program_catch();
        int result = program_main(argc, argv);
        program_release();
        weir_http_server_free(server);
        return result;
}

static void
begin(weir_nsec how_late)
{
        delay = how_late;
        status = 200;
        interrupt_at = 0;
        url[0] = '\0';
}

/* The number behind that word; below 0: it was not printed. */
static double
figure(const char *word)
{
        const char *found = strstr(program_output.text, word);

        return found ? atof(found + strlen(word)) : -1;
}

static void
so_many_requests_are_sent(void)
{
        begin(0);
        CU_ASSERT_EQUAL(run_with("-n 20 -c 3"), 0);
        CU_ASSERT_EQUAL(requests, 20);
        CU_ASSERT_EQUAL(figure("responses "), 20);
        CU_ASSERT_EQUAL(figure("bodies "), 120);
        CU_ASSERT_EQUAL(figure("failed "), -1);
        CU_ASSERT_STRING_EQUAL(seen, "GET - ");
}

static void
more_connections_than_requests_do_no_harm(void)
{
        begin(0);
        CU_ASSERT_EQUAL(run_with("-n 2 -c 8"), 0);
        CU_ASSERT_EQUAL(figure("responses "), 2);
}

static void
method_fields_and_body_are_sent(void)
{
        begin(0);
        CU_ASSERT_EQUAL(run_with("-n 1 -m PUT -H X-Test:yes -b text"), 0);
        CU_ASSERT_STRING_EQUAL(seen, "PUT yes text");
        begin(0);
        CU_ASSERT_EQUAL(run_with("-n 1 -b text"), 0);
        CU_ASSERT_STRING_EQUAL(seen, "POST - text");
}

static void
latencies_are_those_of_the_server(void)
{
        begin(WEIR_MSEC(10));
        CU_ASSERT_EQUAL(run_with("-n 40 -c 4"), 0);
        CU_ASSERT(figure("p50 ") >= 10 && figure("p50 ") < 10.4);
        CU_ASSERT(figure("p99.9 ") >= 10 && figure("p99.9 ") < 10.4);
        CU_ASSERT(figure("max ") >= 10);
}

static void
it_ends_when_the_time_is_over(void)
{
        begin(WEIR_MSEC(100));
        CU_ASSERT_EQUAL(run_with("-d 1.05 -c 2"), 0);
        CU_ASSERT_EQUAL(figure("responses "), 20);
        CU_ASSERT_EQUAL(figure("failed "), -1);
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, "1.05 s"));
}

static void
an_interrupt_ends_it_and_it_prints(void)
{
        pthread_t thread;

        begin(WEIR_MSEC(100));
        interrupt_at = 5;
        sem_init(&wanted, 0, 0);
        sem_init(&interrupted, 0, 0);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, interrupt, NULL), 0);
        CU_ASSERT_EQUAL(run_with("-d 100 -c 1"), 0);
        pthread_join(thread, NULL);
        CU_ASSERT(figure("responses ") >= 4 && figure("responses ") < 900); /* of 1,000 */
        CU_ASSERT_EQUAL(figure("failed "), -1);
}

static void
other_statuses_are_counted_apart(void)
{
        begin(0);
        status = 503;
        CU_ASSERT_EQUAL(run_with("-n 4 -c 2"), 0);
        CU_ASSERT_EQUAL(figure("status 5xx "), 4);
}

static void
failures_are_counted_by_their_kind(void)
{
        begin(WEIR_SEC(2));
        CU_ASSERT_EQUAL(run_with("-n 3 -c 1 -t 0.5"), 1);
        CU_ASSERT_EQUAL(figure("failed "), 3);
        CU_ASSERT_EQUAL(figure("responses "), 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, weir_strerror(-ETIMEDOUT)));
        begin(0);
        snprintf(url, sizeof url, "http://127.0.0.1:1/");
        CU_ASSERT_EQUAL(run_with("-n 2"), 1);
        CU_ASSERT_EQUAL(figure("failed "), 2);
        CU_ASSERT_PTR_NOT_NULL(strstr(program_output.text, weir_strerror(-ECONNREFUSED)));
}

static const char *bad_options, *bad_url;

static void
run_badly(void)
{
        snprintf(url, sizeof url, "%s", bad_url);
        _exit(run_with(bad_options));
}

static void
expect_refusal(const char *options, const char *of_url, const char *reason)
{
        char said[1024];

        bad_options = options;
        bad_url = of_url;
        int ended = weir_test_child(run_badly, said, sizeof said);
        CU_ASSERT(WIFEXITED(ended) && WEXITSTATUS(ended) == 2);
        CU_ASSERT_PTR_NOT_NULL(strstr(said, reason));
}

static void
what_is_wrong_is_said(void)
{
        begin(0);
        expect_refusal("-c 0", "http://127.0.0.1:1/", "-c: a bad value");
        expect_refusal("-n 1x", "http://127.0.0.1:1/", "-n: a bad value");
        expect_refusal("-d -1", "http://127.0.0.1:1/", "-d: a bad value");
        expect_refusal("-H nothing", "http://127.0.0.1:1/", "-H: a bad value");
        expect_refusal("-x", "http://127.0.0.1:1/", "-x: no such option");
        expect_refusal("-n 1 one", "http://127.0.0.1:1/", "usage");
        expect_refusal("-n 1", "http://a b/", "the URL");
        expect_refusal("-n 1 -m G(T", "http://127.0.0.1:1/", "the method");
}

static void
a_bucket_is_at_most_3_percent_wide(void)
{
        size_t before = 0;

        for (uint64_t value = 1; value < UINT64_C(1) << 62; value += value / 50 + 1) {
                size_t bucket = bucket_of(value);
                uint64_t largest = largest_of(bucket);

                if (bucket < before || bucket >= BUCKETS || largest < value || largest - value > value / 32)
                        CU_FAIL("a bucket");
                before = bucket;
        }
        CU_ASSERT(bucket_of(INT64_MAX) < BUCKETS);
        CU_ASSERT_EQUAL(bucket_of(63), 63);
        CU_ASSERT_EQUAL(bucket_of(64), 64);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(so_many_requests_are_sent),
                WEIR_TEST(more_connections_than_requests_do_no_harm),
                WEIR_TEST(method_fields_and_body_are_sent),
                WEIR_TEST(latencies_are_those_of_the_server),
                WEIR_TEST(it_ends_when_the_time_is_over),
                WEIR_TEST(an_interrupt_ends_it_and_it_prints),
                WEIR_TEST(other_statuses_are_counted_apart),
                WEIR_TEST(failures_are_counted_by_their_kind),
                WEIR_TEST(what_is_wrong_is_said),
                WEIR_TEST(a_bucket_is_at_most_3_percent_wide),
        };

        return weir_test_main("example_weir_bench", tests, sizeof tests / sizeof *tests);
}
