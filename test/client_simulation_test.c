/* test/client_simulation_test.c: client and server in one process, on the virtual clock, beside a model.
 *
 * Random requests start at random instants over a few connections.  The server answers each after a pause, and in pieces with
 * pauses between.  Limits, deadlines and cancels end some of them.  The model says of each request with which status it ends, in
 * which stage, and at which nanosecond:
 *
 *     start --> the queue --> a connection is free --> the head --> pieces --> the end, and the next of the queue
 *
 * All instants are random nanoseconds, so that no two of them are the same. */
#include <weir/http_body.h>
#include <weir/http_fields.h>
#include <weir/http_server.h>
#include <weir/timer.h>

#include "test/client_fixture.h"

#define REQUESTS (WEIR_TEST_SANITIZED ? 600 : 3000)
#define ROUNDS   6
#define NEVER    INT64_MAX

struct plan {
        weir_nsec starts_at; /* from the beginning on, as all instants of the model */
        weir_nsec head, gap; /* pauses of the server */
        unsigned pieces;
        weir_nsec first_byte, between; /* limits */
        weir_nsec whole, deadline;     /* instants; or NEVER */
        weir_nsec cancelled_at;        /* or NEVER */

        weir_nsec ends_at; /* what the model says */
        int status;
        enum weir_http_stage stage;

        struct seen seen;
        weir_series *series;
};

static struct plan plans[REQUESTS];
static weir_nsec began;
static unsigned ends_in[WEIR_HTTP_COMPLETE + 1];

/* -- the model -- */

static weir_nsec
least(weir_nsec one, weir_nsec other)
{
        return one < other ? one : other;
}

/* When it ends for a reason of its own, whatever the server does. */
static weir_nsec
given_up_at(const struct plan *plan)
{
        return least(least(plan->whole, plan->deadline), plan->cancelled_at);
}

static void
end_plan(struct plan *plan, weir_nsec at, int status, enum weir_http_stage stage)
{
        weir_nsec given_up = given_up_at(plan);

        plan->ends_at = least(at, given_up);
        plan->stage = stage;
        plan->status = plan->ends_at == at ? status : given_up == plan->cancelled_at ? -ECANCELED : -ETIMEDOUT;
}

/* It gets a connection at `at`. */
static void
send_plan(struct plan *plan, weir_nsec at)
{
        weir_nsec head_at = at + plan->head, given_up = given_up_at(plan);

        if (least(plan->first_byte + at, given_up) < head_at)
                end_plan(plan, at + plan->first_byte, -ETIMEDOUT, WEIR_HTTP_WAITING);
        else if (plan->pieces && plan->gap > plan->between)
                end_plan(plan, head_at + plan->between, -ETIMEDOUT, WEIR_HTTP_RECEIVING);
        else
                end_plan(plan, head_at + plan->gap * plan->pieces, 0, WEIR_HTTP_COMPLETE);
        if (plan->status && plan->stage == WEIR_HTTP_COMPLETE)
                plan->stage = WEIR_HTTP_RECEIVING;
}

/* The instant at which the first of the connections is free: each has the end of its request. */
static weir_nsec *
first_free(weir_nsec *connections, unsigned count)
{
        weir_nsec *first = connections;

        for (unsigned i = 1; i < count; i++)
                if (connections[i] < *first)
                        first = &connections[i];
        return first;
}

/* They are in the order of their starts, which is that of the queue. */
static void
run_model(unsigned connections)
{
        weir_nsec busy_until[16] = {0};

        for (struct plan *plan = plans; plan < plans + REQUESTS; plan++) {
                weir_nsec *connection = first_free(busy_until, connections),
                          begins = *connection > plan->starts_at ? *connection : plan->starts_at;

                if (given_up_at(plan) < begins) {
                        end_plan(plan, NEVER, 0, WEIR_HTTP_QUEUED);
                        continue;
                }
                send_plan(plan, begins);
                *connection = plan->ends_at;
        }
}

/* -- the plans -- */

static weir_nsec
below(struct weir_test_random *random, weir_nsec most)
{
        return 1 + (weir_nsec)weir_test_random_below(random, (uint64_t)most);
}

static bool
happens(struct weir_test_random *random, unsigned of)
{
        return weir_test_random_below(random, of) == 0;
}

static int
by_start(const void *one, const void *other)
{
        weir_nsec left = ((const struct plan *)one)->starts_at, right = ((const struct plan *)other)->starts_at;

        return left < right ? -1 : left > right;
}

/* The more connections, the more often requests start: some wait, and the queue ends now and then. */
static void
make_plans(struct weir_test_random *random, unsigned connections)
{
        memset(plans, 0, sizeof plans);
        for (struct plan *plan = plans; plan < plans + REQUESTS; plan++) {
                plan->starts_at = below(random, WEIR_SEC(3) * REQUESTS / connections);
                plan->head = below(random, WEIR_SEC(4));
                plan->gap = below(random, WEIR_SEC(1));
                plan->pieces = (unsigned)weir_test_random_below(random, 6);
                plan->first_byte = happens(random, 4) ? below(random, WEIR_SEC(4)) : WEIR_SEC(60);
                plan->between = happens(random, 4) ? below(random, WEIR_SEC(1)) : WEIR_SEC(60);
                plan->whole = happens(random, 4) ? plan->starts_at + below(random, WEIR_SEC(20)) : NEVER;
                plan->deadline = happens(random, 4) ? plan->starts_at + below(random, WEIR_SEC(20)) : NEVER;
                plan->cancelled_at = happens(random, 4) ? plan->starts_at + below(random, WEIR_SEC(20)) : NEVER;
        }
        qsort(plans, REQUESTS, sizeof *plans, by_start);
}

/* -- the server -- */

static void
answer(weir_task *exchange, void *context)
{
        weir_series *series = weir_series_of(exchange);
        const struct plan *plan = &plans[strtoul(weir_http_query_value(exchange, "plan"), NULL, 10)];

        (void)context;
        weir_series_push(series, weir_timer_new(plan->head, NULL, NULL));
        weir_series_push(series, weir_http_write_new(exchange, "", 0, NULL, NULL));
        for (unsigned i = 0; i < plan->pieces; i++) {
                weir_series_push(series, weir_timer_new(plan->gap, NULL, NULL));
                weir_series_push(series, weir_http_write_new(exchange, "piece", 5, NULL, NULL));
        }
}

/* -- the client -- */

static void
begin_plan(weir_task *timer, void *context)
{
        struct plan *plan = context;
        char path[32];

        (void)timer;
        snprintf(path, sizeof path, "/?plan=%u", (unsigned)(plan - plans));
        weir_task *request = request_new("GET", path, &plan->seen);
        weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_FIRST_BYTE, plan->first_byte);
        weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_BETWEEN, plan->between);
        if (plan->whole != NEVER)
                weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, plan->whole - plan->starts_at);
        plan->series = weir_series_ref(weir_series_new(NULL, NULL));
        weir_series_push(plan->series, request);
        if (plan->deadline != NEVER)
                weir_series_set_deadline(plan->series, plan->deadline - plan->starts_at);
        CU_ASSERT_EQUAL(weir_series_start(plan->series), 0);
}

static void
cancel_plan(weir_task *timer, void *context)
{
        const struct plan *plan = context;

        (void)timer;
        weir_series_cancel(plan->series);
}

static bool
agrees(const struct plan *plan)
{
        const struct seen *seen = &plan->seen;
        size_t size = plan->status == 0 ? 5 * plan->pieces : seen->size;

        return seen->calls == 1 && seen->status == plan->status && seen->at - began == plan->ends_at &&
               seen->stage == plan->stage && seen->size == size && seen->code == (plan->stage >= WEIR_HTTP_RECEIVING ? 200 : 0);
}

static void
show(const struct plan *plan)
{
        fprintf(stderr, "\nplan %u: status %d, not %d; stage %d, not %d; at %lld, not %lld; %zu bytes", (unsigned)(plan - plans),
                plan->seen.status, plan->status, plan->seen.stage, plan->stage, (long long)(plan->seen.at - began),
                (long long)plan->ends_at, plan->seen.size);
}

static void
requests_end_as_the_model_says(void)
{
        struct weir_test_random random = {.state = weir_test_seed()};

        for (unsigned round = 0; round < ROUNDS; round++) {
                struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
                unsigned wrong = 0;

                config.connections = 1 + round * 2;
                make_plans(&random, config.connections);
                run_model(config.connections);
                begin(&config);
                weir_http_server *server = weir_http_server_new(NULL, answer, NULL);
                CU_ASSERT_EQUAL(weir_http_server_set_coalescing(server, 0), 0);
                CU_ASSERT_EQUAL_FATAL(weir_http_server_start(server, "127.0.0.1:0"), 0);
                port = weir_http_server_port(server);
                began = weir_now();
                for (struct plan *plan = plans; plan < plans + REQUESTS; plan++) {
                        start(weir_timer_new_until(began + plan->starts_at, begin_plan, plan));
                        if (plan->cancelled_at != NEVER)
                                start(weir_timer_new_until(began + plan->cancelled_at, cancel_plan, plan));
                }
                weir_test_pass(WEIR_SEC(3) * REQUESTS / config.connections + WEIR_SEC(100000));
                for (struct plan *plan = plans; plan < plans + REQUESTS; plan++) {
                        ends_in[plan->stage]++;
                        if (!agrees(plan) && wrong++ < 3)
                                show(plan);
                        weir_series_unref(plan->series);
                }
                CU_ASSERT_EQUAL(wrong, 0);
                CU_ASSERT_EQUAL(stats().connections, 0);
                CU_ASSERT_EQUAL(stats().waiting, 0);
                CU_ASSERT_EQUAL(weir_http_server_stop(server, WEIR_SEC(60)), 0);
                weir_http_server_free(server);
                end();
        }
        fprintf(stderr, "%u in the queue, %u late with the head, %u with the body, %u complete ", ends_in[WEIR_HTTP_QUEUED],
                ends_in[WEIR_HTTP_WAITING], ends_in[WEIR_HTTP_RECEIVING], ends_in[WEIR_HTTP_COMPLETE]);
        CU_ASSERT(ends_in[WEIR_HTTP_QUEUED] > REQUESTS / 10 && ends_in[WEIR_HTTP_WAITING] > REQUESTS / 10);
        CU_ASSERT(ends_in[WEIR_HTTP_RECEIVING] > REQUESTS / 10 && ends_in[WEIR_HTTP_COMPLETE] > REQUESTS / 10);
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(requests_end_as_the_model_says),
        };

        return weir_test_main("client_simulation", tests, sizeof tests / sizeof *tests);
}
