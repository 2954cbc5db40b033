/* test/recipes_guide_test.c: the code of docs/recipes.md, which quotes it word for word. */
#include "test/fixture.h"
#include "test/http_client.h"

#include <errno.h>

/* -- a daemon -- */

struct daemon {
        weir_task *end; /* comes with SIGINT or SIGTERM */
        weir_http_server *server;
        weir_waitgroup *jobs; /* work that goes on behind its reply */
        _Atomic int done;
};

static void
job_ended(weir_task *job, void *context)
{
        struct daemon *daemon = context;

        if (weir_task_status(job) == 0)
                atomic_fetch_add(&daemon->done, 1);
}

static void
on_order(weir_task *exchange, void *context)
{
        struct daemon *daemon = context;

        if (weir_task_start_waited(weir_timer_new(WEIR_MSEC(20), job_ended, daemon), daemon->jobs))
                weir_http_reply_text(exchange, 503, "not now\n");
        else
                weir_http_reply_text(exchange, 202, "it is being done\n");
}

static int
daemon_start(struct daemon *daemon, const char *address)
{
        /* First the signals: a task counts them from its making, so none is missed. */
        daemon->end = weir_race_new(NULL, NULL);
        weir_race_add(daemon->end, weir_signal_new(SIGINT, NULL, NULL));
        weir_race_add(daemon->end, weir_signal_new(SIGTERM, NULL, NULL));

        daemon->jobs = weir_waitgroup_new();
        daemon->server = weir_http_server_new(NULL, on_order, daemon);
        int failed = weir_http_server_start(daemon->server, address);
        if (failed) {
                weir_task_dismiss(daemon->end);
                weir_http_server_free(daemon->server);
                weir_waitgroup_free(daemon->jobs);
        }
        return failed;
}

/* On the main thread, which gets the signals: those of the library block them. */
static int
daemon_run(struct daemon *daemon)
{
        int failed = weir_task_run(daemon->end);

        /* No new requests; replies that are due go out. */
        weir_http_server_stop(daemon->server, WEIR_SEC(30));
        weir_http_server_free(daemon->server);
        /* What requests have begun comes to its end. */
        weir_waitgroup_wait(daemon->jobs, WEIR_SEC(30));
        /* All else ends with -ESHUTDOWN.  Callbacks may use the group until then. */
        weir_shutdown();
        weir_waitgroup_free(daemon->jobs);
        return failed;
}

static void
a_daemon_stops_in_order(void)
{
        struct daemon daemon = {0};
        struct http_client client;
        struct http_reply reply = {0};

        CU_ASSERT_FATAL(daemon_start(&daemon, "127.0.0.1:0") == 0);
        http_open(&client, weir_http_server_port(daemon.server));
        http_ask(&client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", &reply);
        CU_ASSERT(reply.status == 202);
        http_reply_done(&reply);
        http_close(&client);
        raise(SIGTERM);
        CU_ASSERT(daemon_run(&daemon) == 0);
        CU_ASSERT(daemon.done == 1); /* the stop has waited for the job */
}

static void
a_daemon_that_cannot_listen_leaves_nothing(void)
{
        struct daemon daemon = {0};

        CU_ASSERT(daemon_start(&daemon, "127.0.0.1:80000") < 0);
        CU_ASSERT(weir_shutdown() == 0);
}

/* -- another context for a named timer -- */

static char sent[64];

static void
send_draft(weir_task *timer, void *draft)
{
        if (weir_task_status(timer) == 0) /* otherwise it was replaced, or the program ends */
                snprintf(sent, sizeof sent, "%s", (const char *)draft);
}

/* Sends the draft in a minute, instead of an earlier one of that name. */
static int
save_draft(const char *name, const char *text)
{
        char *draft = strdup(text);

        if (!draft)
                return -ENOMEM;
        weir_timer_cancel(name, WEIR_ALL); /* before the new one is made, which has the name */
        weir_task *timer = weir_timer_new_named(name, WEIR_SEC(60), send_draft, NULL);
        weir_task_set_context(timer, draft, free);
        return weir_task_start(timer); /* with NULL: -ENOMEM */
}

static void
the_newest_draft_is_sent(void)
{
        weir_test_begin_virtual();
        CU_ASSERT(save_draft("draft/7", "first") == 0);
        weir_clock_advance(WEIR_SEC(59));
        CU_ASSERT(save_draft("draft/7", "second") == 0);
        CU_ASSERT(weir_timer_count("draft/7") == 1);
        weir_clock_advance(WEIR_SEC(59));
        CU_ASSERT_STRING_EQUAL(sent, "");
        weir_clock_advance(WEIR_SEC(1));
        CU_ASSERT_STRING_EQUAL(sent, "second");
        weir_test_end();
}

/* -- the same timer, whose context changes -- */

struct letter {
        pthread_mutex_t lock; /* several threads may change the text at once */
        char text[64];
};

static void
set_text(void *context, void *text)
{
        struct letter *letter = context;

        pthread_mutex_lock(&letter->lock);
        snprintf(letter->text, sizeof letter->text, "%s", (const char *)text);
        pthread_mutex_unlock(&letter->lock);
}

/* Returns whether the letter is still there to be changed. */
static bool
change_letter(const char *name, char *text)
{
        return weir_timer_with(name, set_text, text) == 1;
}

static void
a_letter_is_changed_until_it_is_sent(void)
{
        struct letter letter = {.lock = PTHREAD_MUTEX_INITIALIZER, .text = "first"};
        char text[] = "second";

        weir_test_begin_virtual();
        weir_task_start(weir_timer_new_named("letter/7", WEIR_SEC(60), NULL, &letter));
        CU_ASSERT(change_letter("letter/7", text));
        CU_ASSERT_STRING_EQUAL(letter.text, "second");
        weir_clock_advance(WEIR_SEC(60));
        CU_ASSERT(!change_letter("letter/7", text));
        weir_test_end();
}

/* -- Retry-After -- */

/* Whole seconds, rounded up: after a second too few the client would be refused again. */
static void
retry_after(weir_task *exchange, weir_nsec delay)
{
        weir_nsec seconds = (delay + WEIR_SEC(1) - 1) / WEIR_SEC(1);
        char text[24];

        snprintf(text, sizeof text, "%lld", (long long)seconds);
        weir_http_reply_header(exchange, "Retry-After", text);
        weir_http_reply_text(exchange, 429, "slowly, please\n");
}

static void
refuse(weir_task *exchange, void *delay)
{
        retry_after(exchange, *(const weir_nsec *)delay);
}

static void
seconds_are_rounded_up(void)
{
        static const struct {
                weir_nsec delay;
                const char *seconds;
        } cases[] = {{0, "0"}, {1, "1"}, {WEIR_SEC(1), "1"}, {WEIR_SEC(1) + 1, "2"}, {WEIR_SEC(59.5), "60"}};
        weir_nsec delay = 0;

        weir_test_begin_virtual();
        weir_http_server *server = http_server(NULL, refuse, &delay);
        struct http_client client;
        http_open(&client, weir_http_server_port(server));
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct http_reply reply = {0};

                delay = cases[i].delay;
                http_ask(&client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", &reply);
                CU_ASSERT(reply.status == 429);
                CU_ASSERT_STRING_EQUAL(http_field(&reply, "Retry-After"), cases[i].seconds);
                http_reply_done(&reply);
        }
        http_close(&client);
        weir_http_server_stop(server, 0);
        weir_http_server_free(server);
        weir_test_end();
}

/* -- requests -- */

static weir_task *
ask_new(const char *url, weir_nsec limit, weir_task_fn *answered, void *context)
{
        weir_task *get = weir_http_get_new(url, answered, context);

        weir_http_request_set_limit(get, WEIR_HTTP_LIMIT_WHOLE, limit);
        return get;
}

/* The callback of each request may run on any poller, several at a time. */
static weir_task *
ask_all_new(const char *const *urls, unsigned at_once, weir_task_fn *answered, void *context)
{
        weir_semaphore *places = weir_semaphore_new(at_once);
        weir_task *all = weir_parallel_new(NULL, NULL);

        for (; *urls; urls++) {
                weir_task *get = weir_http_get_new(*urls, answered, context);

                weir_parallel_add(all, weir_limited_new(places, 1, get, NULL, NULL));
        }
        weir_semaphore_unref(places); /* the tasks have their own references */
        return all;
}

/* What the steps of one order share.  They run one after another, so it needs no lock. */
struct order {
        char price_url[128], stock_url[128];
        int price;
};

static void
take_stock(weir_task *get, void *context)
{
        struct order *order = context;

        if (weir_task_status(get) == 0)
                printf("%d pieces at %d\n", atoi(weir_http_response_body(get, NULL)), order->price);
}

static void
take_price(weir_task *get, void *context)
{
        struct order *order = context;

        if (weir_task_status(get))
                return; /* the series stops here */
        order->price = atoi(weir_http_response_body(get, NULL));
        weir_task *next = weir_http_get_new(order->stock_url, take_stock, order);
        weir_series_push(weir_series_of(get), next);
}

/* The order is the flow's, and freed at its end, also if that never begins. */
static weir_task *
order_new(weir_semaphore *places, struct order *order)
{
        weir_series *steps = weir_series_new(NULL, NULL);

        weir_series_set_context(steps, order, free);
        weir_series_stop_on_failure(steps);
        weir_series_push(steps, weir_http_get_new(order->price_url, take_price, order));
        weir_task *flow = weir_module_new(steps, NULL, NULL);
        return weir_limited_new(places, 1, flow, NULL, NULL);
}

/* A server whose replies take a second of the virtual clock. */
static struct {
        weir_http_server *server;
        char urls[6][128];
        const char *list[7]; /* NULL behind the last */
        unsigned now, most;
        _Atomic unsigned answered, late;
} asked;

static void
reply_later(weir_task *timer, void *exchange)
{
        (void)timer;
        asked.now--;
        weir_http_reply_text(exchange, 200, strcmp(weir_http_path(exchange), "/price") == 0 ? "42" : "7");
}

static void
on_question(weir_task *exchange, void *context)
{
        (void)context;
        asked.most = ++asked.now > asked.most ? asked.now : asked.most;
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_SEC(1), reply_later, exchange));
}

static void
note_answer(weir_task *get, void *context)
{
        (void)context;
        atomic_fetch_add(&asked.answered, weir_task_status(get) == 0);
        atomic_fetch_add(&asked.late, weir_task_status(get) == -ETIMEDOUT);
}

/* With one poller, so that the counts of the server need no lock. */
static void
begin_asked(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        memset(&asked, 0, sizeof asked);
        config.clock = WEIR_CLOCK_VIRTUAL;
        config.pollers = 1;
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
        asked.server = http_server(NULL, on_question, NULL);
        for (unsigned i = 0; i < 6; i++) {
                snprintf(asked.urls[i], sizeof asked.urls[i], "http://127.0.0.1:%d/%u", weir_http_server_port(asked.server), i);
                asked.list[i] = asked.urls[i];
        }
}

static void
end_asked(void)
{
        weir_client_close_idle(weir_client_default());
        weir_http_server_stop(asked.server, WEIR_SEC(10));
        weir_http_server_free(asked.server);
        weir_test_end();
}

static void
a_request_has_a_deadline(void)
{
        begin_asked();
        CU_ASSERT_EQUAL(weir_task_run(ask_new(asked.urls[0], WEIR_MSEC(999), note_answer, NULL)), -ETIMEDOUT);
        CU_ASSERT_EQUAL(weir_task_run(ask_new(asked.urls[0], WEIR_MSEC(1001), note_answer, NULL)), 0);
        CU_ASSERT(asked.answered == 1 && asked.late == 1);
        end_asked();
}

static void
two_requests_run_at_a_time(void)
{
        begin_asked();
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(ask_all_new(asked.list, 2, note_answer, NULL)), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(3));
        CU_ASSERT_EQUAL(asked.answered, 6);
        CU_ASSERT_EQUAL(asked.most, 2);
        end_asked();
}

static struct order *
new_order(const char *price_url)
{
        struct order *order = calloc(1, sizeof *order);

        CU_ASSERT_PTR_NOT_NULL_FATAL(order);
        snprintf(order->price_url, sizeof order->price_url, "%s", price_url);
        snprintf(order->stock_url, sizeof order->stock_url, "%s", asked.urls[1]);
        return order;
}

static void
three_flows_run_at_a_time(void)
{
        char price[128];

        begin_asked();
        snprintf(price, sizeof price, "http://127.0.0.1:%d/price", weir_http_server_port(asked.server));
        weir_semaphore *places = weir_semaphore_new(3);
        weir_task *all = weir_parallel_new(NULL, NULL);
        for (unsigned i = 0; i < 6; i++)
                weir_parallel_add(all, order_new(places, new_order(price)));
        weir_nsec began = weir_now();
        CU_ASSERT_EQUAL(weir_task_run(all), 0);
        CU_ASSERT_EQUAL(weir_now() - began, WEIR_SEC(4)); /* two steps each, twice */
        CU_ASSERT_EQUAL(asked.most, 3);
        CU_ASSERT(weir_task_run(order_new(places, new_order("http://127.0.0.1:1/"))) == -ECONNREFUSED);
        CU_ASSERT_EQUAL(weir_semaphore_available(places), 3);
        weir_task_dismiss(order_new(places, new_order(price)));
        weir_semaphore_unref(places);
        end_asked();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_daemon_stops_in_order),    WEIR_TEST(a_daemon_that_cannot_listen_leaves_nothing),
                WEIR_TEST(the_newest_draft_is_sent),   WEIR_TEST(a_letter_is_changed_until_it_is_sent),
                WEIR_TEST(seconds_are_rounded_up),     WEIR_TEST(a_request_has_a_deadline),
                WEIR_TEST(two_requests_run_at_a_time), WEIR_TEST(three_flows_run_at_a_time),
        };

        return weir_test_main("recipes_guide", tests, sizeof tests / sizeof *tests);
}
