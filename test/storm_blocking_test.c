/* test/storm_blocking_test.c: callbacks that block and compute at random, on pollers that change hands all the time.
 *
 * Each round is a runtime of its own, with limits so short that nearly each callback that sleeps loses its poller.  Threads of
 * the program and callbacks start, cancel and reset timers, tickers, series and parallels, a client sends requests, and after a
 * while, whatever is going on, comes the shutdown.  The expected result: one callback and one on_free for each that was started,
 * one on_free and no callback for each that was refused, no two callbacks of one series or ticker at once, each reply its
 * request's.
 *
 * WEIR_TEST_STORM has it last so many times as long (with a WEIR_TEST_LIMIT that allows for it).
 *
 * Threads: three of the program, a client, the workers; the main thread judges when all have ended.
 * Locks:   none; but for what is atomic, an event belongs to one callback at a time, and so do the counts of a series, which are
 *          plain: ThreadSanitizer would see two at once. */
#include "test/fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "test/http_client.h"

#define SECONDS  (WEIR_TEST_SANITIZED ? 8 : 4) /* in all */
#define EVENTS   8192                          /* in a round */
#define THREADS  3
#define ACTS     150 /* of a thread in a round */
#define NAMES    (sizeof names / sizeof *names)
#define IDS      16
#define PIPELINE 4

static const char *const names[] = {"storm/a", "storm/b", "storm/c", "other"};

enum fate { NONE = 0, STARTED, REFUSED, OFFERED /* to a series or a parallel, which may drop it */ };

/* A task, or a series. */
struct event {
        _Atomic unsigned calls, ticks, frees, inside;
        enum fate fate;  /* its maker's */
        unsigned *order; /* of its series: a count of callbacks, which they do not overlap in; NULL: none */
        bool is_ticker;
};

static struct {
        struct event events[EVENTS];
        _Atomic unsigned made;
        _Atomic unsigned wrong;
        _Atomic unsigned handled, given_back, replies; /* exchanges */
        _Atomic weir_timer_id ids[IDS];
        _Atomic uint64_t seeds;
        _Atomic bool is_over;
        int port; /* 0: no server */
} storm;

/* In all rounds. */
static struct {
        unsigned rounds, events, replies;
} sum;

static _Atomic unsigned messages, waits;

/* -- chance -- */

static _Thread_local struct weir_test_random chance;
static _Thread_local bool has_chance;

static uint64_t
below(uint64_t limit)
{
        if (!has_chance) {
                chance.state = atomic_fetch_add(&storm.seeds, 1) * UINT64_C(0x9e3779b97f4a7c15);
                has_chance = true;
        }
        return weir_test_random_below(&chance, limit);
}

static const char *
any_name(void)
{
        return names[below(NAMES)];
}

static weir_nsec
soon(void)
{
        return (weir_nsec)below(below(4) ? WEIR_USEC(300) : WEIR_MSEC(4));
}

static void
must(bool holds, const char *what)
{
        if (!holds) {
                fprintf(stderr, "storm_blocking_test: %s does not hold\n", what);
                atomic_fetch_add(&storm.wrong, 1);
        }
}

#define MUST(condition) must((condition), #condition)

/* -- callbacks -- */

static void act(void);

static void
compute(int64_t nanoseconds)
{
        for (int64_t until = weir_test_now() + nanoseconds; weir_test_now() < until;) {
                continue;
        }
}

static void
wait_for_a_flow(void)
{
        int begun = weir_blocking_begin();
        int result = weir_task_run(weir_timer_new(soon(), NULL, NULL));

        MUST(begun == 0 || begun == -EAGAIN);
        MUST(result == 0 || result == -ESHUTDOWN || (begun == -EAGAIN && result == -EDEADLK));
        atomic_fetch_add(&waits, result == 0);
        if (below(2)) {
                weir_blocking_end();
        }
}

static void
block_by_its_own_word(void)
{
        weir_blocking_begin();
        weir_blocking_begin();
        weir_test_sleep((int64_t)below(WEIR_MSEC(2)));
        weir_blocking_end();
        act();
        if (below(2)) {
                weir_blocking_end(); /* else it ends with the callback */
        }
}

static void
behave(void)
{
        switch (below(20)) {
        case 0: weir_test_sleep((int64_t)below(WEIR_MSEC(2))); break;
        case 1:
                weir_test_sleep((int64_t)below(WEIR_USEC(300)));
                act();
                break;
        case 2:
                compute((int64_t)below(WEIR_USEC(600)));
                act();
                break;
        case 3: block_by_its_own_word(); break;
        case 4: wait_for_a_flow(); break;
        case 5:
        case 6:
                act();
                act();
                break;
        default: break;
        }
}

static void
freed(void *context)
{
        struct event *event = context;

        if (below(16) == 0) {
                behave();
        }
        atomic_fetch_add(&event->frees, 1);
}

/* -- tasks -- */

static struct event *
new_event(void)
{
        unsigned index = atomic_fetch_add(&storm.made, 1);

        return index < EVENTS ? &storm.events[index] : NULL;
}

static weir_task *new_task(unsigned *order, struct event **made);

static void
push_another(weir_task *task, unsigned *order)
{
        struct event *event;
        weir_task *pushed = new_task(order, &event);

        if (pushed) {
                event->fate = OFFERED;
                weir_series_push(weir_series_of(task), pushed);
        }
}

static void
called(weir_task *task, void *context)
{
        struct event *event = context;
        bool is_tick = weir_task_status(task) == -EINPROGRESS;

        MUST(atomic_fetch_add(&event->inside, 1) == 0);
        MUST(atomic_load(&event->frees) == 0);
        atomic_fetch_add(is_tick ? &event->ticks : &event->calls, 1);
        if (event->order) {
                ++*event->order;
        }
        behave();
        if (is_tick && below(8) == 0) {
                weir_ticker_stop(task);
        } else if (!is_tick && event->order && below(16) == 0) {
                push_another(task, event->order);
        }
        atomic_fetch_sub(&event->inside, 1);
}

static weir_task *
new_timer(struct event *event)
{
        weir_nsec after = below(20) ? soon() : WEIR_FOREVER;

        return below(2) ? weir_timer_new_named(any_name(), after, called, event) : weir_timer_new(after, called, event);
}

static weir_task *
new_ticker(struct event *event)
{
        enum weir_tick_policy policy = (enum weir_tick_policy)below(3);
        weir_nsec period = 1 + soon();
        weir_task *ticker = below(2) ? weir_ticker_new_named(any_name(), period, policy, called, event)
                                     : weir_ticker_new(period, policy, called, event);

        event->is_ticker = true;
        weir_ticker_set_limit(ticker, 1 + below(8));
        return ticker;
}

static weir_task *
new_parallel(struct event *event)
{
        weir_task *parallel = weir_parallel_new(called, event);

        for (uint64_t left = below(4); left > 0; left--) {
                struct event *child;
                weir_task *task = new_task(NULL, &child);

                if (task) {
                        child->fate = OFFERED;
                        weir_parallel_add(parallel, task);
                }
        }
        return parallel;
}

/* NULL: there were enough. */
static weir_task *
new_task(unsigned *order, struct event **made)
{
        struct event *event = *made = new_event();
        uint64_t kind = below(20);

        if (!event) {
                return NULL;
        }
        event->order = order;
        weir_task *task = kind < 8    ? new_timer(event)
                          : kind < 16 ? weir_empty_new(called, event)
                          : kind < 18 ? new_ticker(event)
                                      : new_parallel(event);
        weir_task_on_free(task, freed);
        return task;
}

static void
keep_id(weir_task *task)
{
        weir_timer_id id = weir_timer_id_of(task);

        if (id) {
                atomic_store(&storm.ids[below(IDS)], id);
        }
}

static void
note_start(struct event *event, int result)
{
        MUST(result == 0 || result == -ESHUTDOWN);
        event->fate = result == 0 ? STARTED : REFUSED;
}

static void
start_one(void)
{
        struct event *event;
        weir_task *task = new_task(NULL, &event);

        if (!task) {
                return;
        }
        if (below(2)) {
                keep_id(task);
        }
        note_start(event, weir_task_start(task));
}

/* -- series -- */

struct strand {
        unsigned order; /* first: callbacks so far */
        struct event *event;
};

static void
strand_freed(void *context)
{
        struct strand *strand = context;
        struct event *event = strand->event;

        if (below(16) == 0) {
                behave();
        }
        free(strand);
        atomic_fetch_add(&event->frees, 1);
}

static void
strand_ended(weir_series *series, void *context)
{
        struct strand *strand = weir_series_context(series);

        (void)context;
        ++strand->order;
        behave();
        atomic_fetch_add(&strand->event->calls, 1);
}

static void
start_series(void)
{
        struct event *event = new_event();

        if (!event) {
                return;
        }
        struct strand *strand = malloc(sizeof *strand);
        weir_series *series = weir_series_new(strand_ended, NULL);

        *strand = (struct strand){.event = event};
        weir_series_set_context(series, strand, strand_freed);
        for (uint64_t left = below(5); left > 0; left--) {
                struct event *part;
                weir_task *task = new_task(&strand->order, &part);

                if (task) {
                        part->fate = OFFERED;
                        weir_series_push(series, task);
                }
        }
        weir_series *kept = below(4) ? NULL : weir_series_ref(series);
        note_start(event, weir_series_start(series));
        if (kept) {
                weir_series_cancel(kept);
                weir_series_unref(kept);
        }
}

/* -- acts -- */

static void
act(void)
{
        switch (below(16)) {
        case 0: weir_timer_cancel(any_name(), below(3)); break;
        case 1: weir_timer_cancel_prefix("storm/", below(20)); break;
        case 2: weir_timer_cancel_id(atomic_load(&storm.ids[below(IDS)])); break;
        case 3: weir_timer_reset(any_name(), soon()); break;
        case 4: weir_timer_reset_id(atomic_load(&storm.ids[below(IDS)]), soon()); break;
        case 5: weir_timer_extend(any_name(), soon() - WEIR_USEC(100)); break;
        case 6:
        case 7: start_series(); break;
        default: start_one(); break;
        }
}

/* Starts one and waits for it, which no callback may. */
static void
run_one(void)
{
        struct event *event = new_event();

        if (!event) {
                return;
        }
        weir_task *task = weir_timer_new(soon(), called, event);
        weir_task_on_free(task, freed);
        int result = weir_task_run(task);
        note_start(event, result == -ECANCELED ? 0 : result);
        MUST(atomic_load(&event->frees) == 1);
        if (result == -ESHUTDOWN && atomic_load(&event->calls)) {
                event->fate = STARTED; /* and was shut down */
        }
}

static void *
thread_main(void *unused)
{
        (void)unused;
        for (unsigned i = 0; i < ACTS; i++) {
                uint64_t what = below(40);

                if (what == 0) {
                        weir_timer_cancel_wait(any_name(), below(4));
                } else if (what == 1) {
                        run_one();
                } else if (what < 5) {
                        weir_test_sleep((int64_t)below(WEIR_MSEC(1)));
                } else {
                        act();
                }
        }
        return NULL;
}

/* -- exchanges -- */

static void
exchange_freed(void *context)
{
        (void)context;
        if (below(8) == 0) {
                behave();
        }
        atomic_fetch_add(&storm.given_back, 1);
}

static void
handle(weir_task *exchange, void *context)
{
        (void)context;
        atomic_fetch_add(&storm.handled, 1);
        weir_task_on_free(exchange, exchange_freed);
        behave();
        if (below(4) == 0) {
                push_another(exchange, NULL);
                behave();
        }
        weir_http_reply_text(exchange, 200, weir_http_target(exchange));
        if (below(32) == 0) {
                weir_series_cancel(weir_series_of(exchange));
        }
}

/* Returns false when nobody listens any more. */
static bool
connect_to(struct http_client *client, int port)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

        *client = (struct http_client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return client->fd >= 0 && connect(client->fd, (struct sockaddr *)&address, sizeof address) == 0;
}

/* One connection: a few requests at once.  Their replies must come back in order, until it is closed. */
static void
converse(struct http_client *client)
{
        unsigned requests = 1 + (unsigned)below(PIPELINE);
        struct http_reply reply = {0};
        char target[32], request[64];

        for (unsigned i = 0; i < requests; i++) {
                snprintf(request, sizeof request, "GET /%u HTTP/1.1\r\nHost: a\r\n\r\n", i);
                http_send_text(client, request);
        }
        for (unsigned i = 0; i < requests && below(8) && http_receive(client, &reply, false); i++) {
                snprintf(target, sizeof target, "/%u", i);
                MUST(reply.status != 200 || strcmp(reply.body, target) == 0);
                atomic_fetch_add(&storm.replies, reply.status == 200);
        }
        http_reply_done(&reply);
}

static void *
client_main(void *unused)
{
        (void)unused;
        while (!atomic_load(&storm.is_over)) {
                struct http_client client;
                bool connected = connect_to(&client, storm.port);

                if (connected) {
                        converse(&client);
                } else {
                        weir_test_sleep(WEIR_MSEC(1));
                }
                http_close(&client);
        }
        return NULL;
}

/* -- a round -- */

/* A shutdown counts what a thread has made at that instant and not started yet. */
static void
listen_to(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        MUST(level == WEIR_LOG_INFO || level == WEIR_LOG_WARNING);
        MUST(strstr(message, "callback") || strstr(message, "another worker has") || strstr(message, "no spare worker") ||
             strstr(message, "stop has cut ") || strstr(message, "made and never started"));
        atomic_fetch_add(&messages, 1);
}

static void
begin_runtime(struct weir_test_random *random)
{
        static const weir_nsec limits[] = {WEIR_USEC(50), WEIR_USEC(200), WEIR_MSEC(1), WEIR_FOREVER};
        static const int spares[] = {1, 2, 8, 0};
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 1 + (int)weir_test_random_below(random, 3);
        config.spare_workers = spares[weir_test_random_below(random, 4)];
        config.blocking_limit = limits[weir_test_random_below(random, 4)];
        config.affinity = (int)weir_test_random_below(random, 2);
        CU_ASSERT_EQUAL_FATAL(weir_init(&config), 0);
}

static void
begin_round(struct weir_test_random *random)
{
        memset(storm.events, 0, sizeof storm.events);
        storm.made = storm.handled = storm.given_back = storm.replies = 0;
        storm.is_over = false;
        storm.port = 0;
        for (unsigned i = 0; i < IDS; i++) {
                storm.ids[i] = 0;
        }
        begin_runtime(random);
}

static bool
is_right(const struct event *event)
{
        unsigned calls = event->calls;

        return event->frees == 1 && event->inside == 0 && (event->is_ticker || event->ticks == 0) &&
               calls <= (event->fate == STARTED || event->fate == OFFERED) && calls >= (event->fate == STARTED);
}

static void
judge(void)
{
        unsigned made = storm.made < EVENTS ? storm.made : EVENTS;

        for (unsigned i = 0; i < made; i++) {
                struct event *event = &storm.events[i];

                if (!is_right(event)) {
                        fprintf(stderr, "event %u of fate %d: %u calls, %u ticks, %u frees\n", i, event->fate, event->calls,
                                event->ticks, event->frees);
                        storm.wrong++;
                }
        }
        MUST(storm.handled == storm.given_back);
        for (unsigned i = 0; i < NAMES; i++) {
                MUST(weir_timer_count(names[i]) == 0);
        }
        sum.rounds++;
        sum.events += made;
        sum.replies += storm.replies;
}

static void
blow(struct weir_test_random *random)
{
        bool serves = weir_test_random_below(random, 3) > 0, stops = weir_test_random_below(random, 2);
        weir_http_server *server = NULL;
        pthread_t threads[THREADS], client;

        begin_round(random);
        if (serves) {
                server = http_server(NULL, handle, NULL);
                storm.port = weir_http_server_port(server);
                CU_ASSERT_EQUAL_FATAL(pthread_create(&client, NULL, client_main, NULL), 0);
        }
        for (unsigned i = 0; i < THREADS; i++) {
                CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, thread_main, NULL), 0);
        }
        weir_test_sleep((int64_t)weir_test_random_below(random, WEIR_MSEC(40)));
        if (serves && stops) {
                weir_http_server_stop(server, (weir_nsec)weir_test_random_below(random, WEIR_MSEC(5)));
        }
        CU_ASSERT_EQUAL(weir_shutdown(), 0);
        storm.is_over = true;
        for (unsigned i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
        }
        if (serves) {
                pthread_join(client, NULL);
                weir_http_server_free(server);
        }
        judge();
}

static void
no_completion_is_lost_or_run_twice(void)
{
        const char *times = getenv("WEIR_TEST_STORM");
        int64_t until = weir_test_now() + SECONDS * WEIR_SEC(times ? strtol(times, NULL, 10) : 1);
        struct weir_test_random random = {weir_test_seed()};

        storm.seeds = weir_test_seed();
        weir_log_set(listen_to, NULL);
        do {
                blow(&random);
        } while (weir_test_now() < until && storm.wrong == 0);
        weir_log_set(NULL, NULL);
        CU_ASSERT_EQUAL(storm.wrong, 0);
        printf("[%u rounds, %u events, %u waits in callbacks, %u replies, %u messages] ", sum.rounds, sum.events, waits,
               sum.replies, messages);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(no_completion_is_lost_or_run_twice),
        };

        return weir_test_main("storm_blocking", tests, sizeof tests / sizeof *tests);
}
