/* test/graph_test.c: graphs of tasks and of series. */
#include "test/fixture.h"

#include <errno.h>

#include "factory/task/series.h"

#define FAR WEIR_SEC(1000)

/* -- misuse aborts with the reason; these fork, so they come first -- */

static weir_task *
endless_graph(void)
{
        weir_task *graph = weir_graph_new(NULL, NULL);

        weir_graph_add(graph, weir_timer_new(WEIR_FOREVER, NULL, NULL), NULL);
        return graph;
}

static void
add_after_start(void)
{
        weir_task *graph = endless_graph();

        weir_task_start(graph);
        weir_graph_add(graph, weir_empty_new(NULL, NULL), NULL);
}

static void
add_series_after_push(void)
{
        weir_task *graph = endless_graph();

        weir_series_push(weir_series_new(NULL, NULL), graph);
        weir_graph_add_series(graph, weir_series_new(NULL, NULL), NULL);
}

static void
add_to_another_kind(void)
{
        weir_graph_add(weir_parallel_new(NULL, NULL), weir_empty_new(NULL, NULL), NULL);
}

static void
add_a_series_twice(void)
{
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_series *series = weir_series_new(NULL, NULL);

        weir_graph_add_series(graph, series, NULL);
        weir_graph_add_series(graph, series, NULL);
}

static void
start_an_added_series(void)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_graph_add_series(weir_graph_new(NULL, NULL), series, NULL);
        weir_series_start(series);
}

static void
add_a_started_task(void)
{
        weir_task *task = weir_timer_new(WEIR_FOREVER, NULL, NULL);

        weir_task_start(task);
        weir_graph_add(weir_graph_new(NULL, NULL), task, NULL);
}

static void
add_a_graph_to_itself(void)
{
        weir_task *graph = weir_graph_new(NULL, NULL);

        weir_graph_add(graph, graph, NULL);
}

static void
start_a_graph_twice(void)
{
        weir_task *graph = endless_graph();

        weir_task_start(graph);
        weir_task_start(graph);
}

static void
misuse_aborts_with_the_reason(void)
{
        weir_test_aborts(add_after_start, "weir_graph_add: graph was already started (by weir_task_start)");
        weir_test_aborts(add_series_after_push, "weir_graph_add_series: graph was already pushed (by weir_series_push)");
        weir_test_aborts(add_to_another_kind, "weir_graph_add: expected a graph, and was given ");
        weir_test_aborts(add_a_series_twice, "weir_graph_add_series: the series was already added to a graph");
        weir_test_aborts(start_an_added_series, "weir_series_start: the series was already added to a graph");
        weir_test_aborts(add_a_started_task, "weir_graph_add: ");
        weir_test_aborts(add_a_graph_to_itself, "weir_graph_add: graph was already added (by weir_graph_add)");
        weir_test_aborts(start_a_graph_twice, "weir_task_start: graph was already started (by weir_task_start)");
}

/* -- order -- */

static void
nodes_run_as_soon_as_all_before_them_have_ended(void)
{
        struct weir_test_record a = {0}, b = {0}, c = {0}, d = {0}, alone = {0}, end = {0};

        weir_test_begin_virtual();
        weir_nsec began = weir_now();
        weir_task *graph = weir_test_recorded(weir_graph_new(weir_test_done, &end));
        weir_node *last = weir_graph_add(graph, weir_test_timer(WEIR_SEC(1), &d), "d"); /* not in the order of adding */
        weir_node *first = weir_graph_add(graph, weir_test_timer(WEIR_SEC(1), &a), "a");
        weir_node *left = weir_graph_add(graph, weir_test_timer(WEIR_SEC(2), &b), NULL);
        weir_node *right = weir_graph_add(graph, weir_test_timer(WEIR_SEC(5), &c), NULL);
        weir_graph_add(graph, weir_test_timer(WEIR_SEC(3), &alone), NULL);
        CU_ASSERT_EQUAL(weir_graph_precede(first, left), 0);
        CU_ASSERT_EQUAL(weir_graph_precede(first, right), 0);
        CU_ASSERT_EQUAL(weir_graph_precede(left, last), 0);
        CU_ASSERT_EQUAL(weir_graph_precede(right, last), 0);
        CU_ASSERT_EQUAL(weir_graph_precede(right, last), 0); /* once more does no harm */
        CU_ASSERT_EQUAL(weir_task_run(graph), 0);
        WEIR_TEST_CALLED(&a, 0);
        WEIR_TEST_CALLED(&b, 0);
        WEIR_TEST_CALLED(&c, 0);
        WEIR_TEST_CALLED(&d, 0);
        WEIR_TEST_CALLED(&alone, 0);
        WEIR_TEST_CALLED(&end, 0);
        CU_ASSERT_EQUAL(a.at, began + WEIR_SEC(1));
        CU_ASSERT_EQUAL(b.at, began + WEIR_SEC(3));
        CU_ASSERT_EQUAL(c.at, began + WEIR_SEC(6));
        CU_ASSERT_EQUAL(d.at, began + WEIR_SEC(7));
        CU_ASSERT_EQUAL(alone.at, began + WEIR_SEC(3));
        CU_ASSERT_EQUAL(end.at, began + WEIR_SEC(7));
        weir_test_end();
}

#define MOST_BEFORE 6

/* A random graph: each node notes that it has run after all that come before it. */
struct web {
        struct web_node {
                struct web *web;
                _Atomic uint32_t runs, ended; /* by its callback; `ended` after a function's */
                uint32_t before[MOST_BEFORE], before_count;
        } * nodes;
        size_t count;
        _Atomic unsigned faults, ran;
};

static void
run_in_web(struct web_node *node)
{
        for (uint32_t i = 0; i < node->before_count; i++) {
                if (!node->web->nodes[node->before[i]].ended) {
                        atomic_fetch_add(&node->web->faults, 1);
                }
        }
        atomic_fetch_add(&node->runs, 1);
        atomic_fetch_add(&node->web->ran, 1);
}

static void
function_in_web(void *context)
{
        run_in_web(context);
}

static void
function_in_web_done(weir_task *task, void *context)
{
        (void)task;
        atomic_store(&((struct web_node *)context)->ended, 1);
}

static void
in_web(weir_task *task, void *context)
{
        run_in_web(context);
        function_in_web_done(task, context);
}

static weir_task *
task_in_web(struct web_node *node, uint64_t kind)
{
        return kind == 0   ? weir_go_new(NULL, function_in_web, function_in_web_done, node)
               : kind == 1 ? weir_timer_new(0, in_web, node)
                           : weir_empty_new(in_web, node);
}

/* Edges go forward in a random order of the nodes, unless they are to go in the order of adding. */
static weir_task *
weave(struct web *web, struct weir_test_random *random, size_t count, bool shuffled)
{
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node **nodes = malloc(count * sizeof *nodes);
        uint32_t *order = malloc(count * sizeof *order);

        *web = (struct web){.nodes = calloc(count, sizeof *web->nodes), .count = count};
        for (uint32_t i = 0; i < count; i++) {
                web->nodes[i].web = web;
                nodes[i] = weir_graph_add(graph, task_in_web(&web->nodes[i], weir_test_random_below(random, 4)), NULL);
                uint64_t other = shuffled ? weir_test_random_below(random, i + 1) : i;
                order[i] = order[other];
                order[other] = i;
        }
        for (uint32_t i = 1; i < count; i++) {
                struct web_node *node = &web->nodes[order[i]];

                node->before_count = (uint32_t)weir_test_random_below(random, MOST_BEFORE);
                for (uint32_t edge = 0; edge < node->before_count; edge++) {
                        uint64_t far = weir_test_random_below(random, 2) ? i : i < 100 ? i : 100;

                        node->before[edge] = order[i - 1 - weir_test_random_below(random, far)];
                        CU_ASSERT_EQUAL(weir_graph_precede(nodes[node->before[edge]], nodes[order[i]]), 0);
                }
        }
        free(nodes);
        free(order);
        return graph;
}

static void
unravel(struct web *web)
{
        CU_ASSERT_EQUAL(web->faults, 0);
        CU_ASSERT_EQUAL(web->ran, web->count);
        free(web->nodes);
}

static void
random_graph_of_100_000_nodes_never_breaks_its_order(void)
{
        struct weir_test_random random = {weir_test_seed()};

        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 2 : 4); round++) {
                struct web web;

                weir_test_begin_real(round % 2 ? 2 : 4);
                CU_ASSERT_EQUAL(weir_task_run(weave(&web, &random, 100000, round % 2)), 0);
                unravel(&web);
                weir_test_end();
        }
}

static void
small_random_graphs_never_break_their_order(void)
{
        struct weir_test_random random = {weir_test_seed()};

        weir_test_begin_real(3);
        for (unsigned round = 0; round < 300; round++) {
                struct web web;
                size_t count = 1 + weir_test_random_below(&random, 200);

                CU_ASSERT_EQUAL(weir_task_run(weave(&web, &random, count, round % 2)), 0);
                unravel(&web);
        }
        weir_test_end();
}

static void
empty_graph_ends_at_once_on_a_worker(void)
{
        struct weir_test_record alone = {0}, in_series = {0};

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_task_start(weir_test_recorded(weir_graph_new(weir_test_done, &alone))), 0);
        weir_test_wait_freed(&alone);
        WEIR_TEST_CALLED(&alone, 0);
        CU_ASSERT(!pthread_equal(alone.on, pthread_self()));
        CU_ASSERT_EQUAL(weir_task_run(weir_test_recorded(weir_graph_new(weir_test_done, &in_series))), 0);
        WEIR_TEST_CALLED(&in_series, 0);
        weir_test_end();
}

/* -- refusals -- */

static void
change_a_running_graph(weir_task *task, void *context)
{
        weir_node **nodes = context;

        (void)task;
        CU_ASSERT_EQUAL(weir_graph_precede(nodes[0], nodes[1]), -EBUSY);
        CU_ASSERT_EQUAL(weir_graph_precede_if(nodes[0], nodes[1], NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_node_set_policy(nodes[0], WEIR_NODE_CANCEL), -EBUSY);
        nodes[2] = NULL;
}

static void
edges_that_cannot_be_are_refused(void)
{
        weir_node *nodes[3];
        weir_task *graph = weir_graph_new(NULL, NULL), *other = weir_graph_new(NULL, NULL);
        weir_node *a = nodes[0] = weir_graph_add(graph, weir_timer_new(FAR, change_a_running_graph, nodes), "a");
        weir_node *b = nodes[1] = weir_graph_add(graph, weir_empty_new(NULL, NULL), "b");
        weir_node *foreign = nodes[2] = weir_graph_add(other, weir_empty_new(NULL, NULL), "a");

        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_graph_precede(NULL, a), -EINVAL);
        CU_ASSERT_EQUAL(weir_graph_precede(a, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_graph_precede(a, a), -EINVAL);
        CU_ASSERT_EQUAL(weir_graph_precede(a, foreign), -EINVAL);
        CU_ASSERT_EQUAL(weir_graph_precede_if(a, b, NULL, NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_node_set_policy(NULL, WEIR_NODE_CANCEL), -EINVAL);
        CU_ASSERT_EQUAL(weir_node_set_policy(a, (enum weir_node_policy)7), -EINVAL);
        CU_ASSERT_EQUAL(weir_node_status(NULL), -EINVAL);
        CU_ASSERT_EQUAL(weir_node_state(NULL), WEIR_NODE_WAITING);
        CU_ASSERT_PTR_NULL(weir_node_result(NULL));
        CU_ASSERT_PTR_NULL(weir_node_input(NULL, 0));
        CU_ASSERT_PTR_NULL(weir_node_input(a, 0));
        CU_ASSERT_PTR_NULL(weir_graph_node_of(NULL));
        CU_ASSERT_PTR_NULL(weir_graph_node_of(graph));
        CU_ASSERT_EQUAL(weir_node_status(a), 0);
        weir_task_dismiss(other);
        CU_ASSERT_EQUAL(weir_task_run(graph), 0);
        CU_ASSERT_PTR_NULL(nodes[2]); /* the callback has run */
        weir_test_end();
}

static void
null_or_wrong_node_poisons_and_nothing_runs(void)
{
        weir_test_begin_virtual();
        for (unsigned kind = 0; kind < 4; kind++) {
                struct weir_test_record task = {0}, in_series = {0}, wrong = {0}, end = {0}, series_end = {0};
                weir_task *graph = weir_test_recorded(weir_graph_new(weir_test_done, &end));
                weir_series *series = weir_series_new(weir_test_series_done, &series_end);
                weir_node *none;
                int fault = -ENOMEM;

                weir_series_push(series, weir_test_empty(&in_series));
                weir_node *first = weir_graph_add(graph, weir_test_empty(&task), "first");
                weir_node *second = weir_graph_add_series(graph, series, "second");
                CU_ASSERT_EQUAL(weir_graph_precede(first, second), 0);
                if (kind == 0) {
                        none = weir_graph_add(graph, NULL, "none");
                } else if (kind == 1) {
                        none = weir_graph_add_series(graph, NULL, "none");
                } else if (kind == 2) {
                        weir_series *poisoned = weir_series_new(NULL, NULL);

                        weir_series_push(poisoned, weir_test_empty(&wrong));
                        weir_series_push(poisoned, NULL);
                        none = weir_graph_add_series(graph, poisoned, "none");
                } else {
                        none = weir_graph_add(graph, weir_test_named("", 0, &wrong), "none");
                        fault = -EINVAL;
                }
                CU_ASSERT_PTR_NULL(none);
                CU_ASSERT_EQUAL(weir_graph_precede(first, none), -EINVAL);
                weir_graph_add(graph, NULL, NULL); /* the first fault is the one reported */
                CU_ASSERT_EQUAL(wrong.frees, kind >= 2);
                CU_ASSERT_EQUAL(kind % 2 ? weir_task_run(graph) : weir_task_start(graph), fault);
                WEIR_TEST_NOT_CALLED(&task);
                WEIR_TEST_NOT_CALLED(&in_series);
                WEIR_TEST_NOT_CALLED(&end);
                WEIR_TEST_FREED_HERE(&in_series);
                CU_ASSERT_EQUAL(series_end.calls, 0);
        }
        weir_test_end();
}

static void
adding_to_null_dismisses_the_node(void)
{
        struct weir_test_record task = {0}, in_series = {0};
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_test_empty(&in_series));
        CU_ASSERT_PTR_NULL(weir_graph_add(NULL, weir_test_empty(&task), NULL));
        CU_ASSERT_PTR_NULL(weir_graph_add_series(NULL, series, NULL));
        CU_ASSERT_PTR_NULL(weir_graph_add(NULL, NULL, NULL));
        CU_ASSERT_PTR_NULL(weir_graph_add_series(NULL, NULL, NULL));
        WEIR_TEST_NOT_CALLED(&task);
        WEIR_TEST_NOT_CALLED(&in_series);
}

static void
dismissed_graph_frees_its_nodes_on_the_caller(void)
{
        struct weir_test_record task = {0}, in_series = {0}, end = {0};
        weir_task *graph = weir_test_recorded(weir_graph_new(weir_test_done, &end));
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_test_empty(&in_series));
        weir_graph_precede(weir_graph_add_series(graph, series, "a"), weir_graph_add(graph, weir_test_empty(&task), "b"));
        weir_task_dismiss(graph);
        WEIR_TEST_NOT_CALLED(&task);
        WEIR_TEST_NOT_CALLED(&in_series);
        WEIR_TEST_NOT_CALLED(&end);
        WEIR_TEST_FREED_HERE(&task);
}

static void
graphs_nested_deeply_are_dismissed_in_constant_stack(void)
{
        struct weir_test_record leaf = {0};
        weir_task *graph = weir_graph_new(NULL, NULL);

        weir_graph_add(graph, weir_test_empty(&leaf), NULL);
        for (unsigned i = 0; i < 20000; i++) {
                weir_task *outer = weir_graph_new(NULL, NULL);

                weir_graph_add(outer, graph, NULL);
                graph = outer;
        }
        weir_task_dismiss(graph);
        WEIR_TEST_NOT_CALLED(&leaf);
}

/* -- cycles -- */

static char last_message[512];
static unsigned messages;

static void
keep_message(enum weir_log_level level, const char *message, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(level, WEIR_LOG_ERROR);
        snprintf(last_message, sizeof last_message, "%s", message);
        messages++;
}

/* x -> a -> b -> c -> a, c -> y. */
static weir_task *
graph_with_a_cycle(struct weir_test_record *record)
{
        static const char *labels[] = {"x", "a", "b", "c", "y"};
        weir_task *graph = weir_test_recorded(weir_graph_new(weir_test_done, record));
        weir_node *nodes[5];

        for (unsigned i = 0; i < 5; i++) {
                nodes[i] = weir_graph_add(graph, weir_empty_new(NULL, NULL), labels[i]);
                weir_graph_precede(i ? nodes[i - 1] : NULL, nodes[i]);
        }
        CU_ASSERT_EQUAL(weir_graph_precede(nodes[3], nodes[1]), 0);
        return graph;
}

static bool
names_the_cycle(void)
{
        return strstr(last_message, "of 3 nodes: a -> b -> c -> a") || strstr(last_message, "of 3 nodes: b -> c -> a -> b") ||
               strstr(last_message, "of 3 nodes: c -> a -> b -> c");
}

static void
cycle_is_reported_by_all_that_consume_the_graph_and_named_in_the_log(void)
{
        weir_test_begin_virtual();
        CU_ASSERT_EQUAL(weir_log_set(keep_message, NULL), 0);
        for (unsigned how = 0; how < 6; how++) {
                struct weir_test_record end = {0};
                weir_task *graph = graph_with_a_cycle(&end);
                weir_task *outer = how == 4 ? weir_graph_new(NULL, NULL) : weir_parallel_new(NULL, NULL);
                weir_series *series = weir_series_new(NULL, NULL);

                messages = 0;
                last_message[0] = '\0';
                if (how == 0) {
                        CU_ASSERT_EQUAL(weir_task_start(graph), -ELOOP);
                } else if (how == 1) {
                        CU_ASSERT_EQUAL(weir_task_run(graph), -ELOOP);
                } else if (how == 2) {
                        CU_ASSERT_EQUAL(weir_series_push(series, graph), -ELOOP);
                } else if (how == 3) {
                        weir_parallel_add(outer, graph);
                        CU_ASSERT_EQUAL(weir_task_run(outer), -ELOOP);
                } else if (how == 4) {
                        CU_ASSERT_PTR_NULL(weir_graph_add(outer, graph, NULL));
                        CU_ASSERT_EQUAL(weir_task_run(outer), -ELOOP);
                } else {
                        weir_task_dismiss(graph); /* nobody asked */
                }
                CU_ASSERT_EQUAL(messages, how < 5);
                CU_ASSERT(how == 5 || names_the_cycle());
                WEIR_TEST_NOT_CALLED(&end);
                CU_ASSERT_EQUAL(how == 2 ? weir_series_start(series) : -ELOOP, -ELOOP);
                if (how != 2) {
                        weir_series_dismiss(series);
                }
                if (how != 3 && how != 4) {
                        weir_task_dismiss(outer);
                }
        }
        weir_log_set(NULL, NULL);
        weir_test_end();
}

/* A ring, with a tail that leads into it and one that comes out of it. */
static weir_task *
ring(size_t size, size_t tail, weir_node **nodes)
{
        weir_task *graph = weir_graph_new(NULL, NULL);

        for (size_t i = 0; i < size + 2 * tail; i++) {
                nodes[i] = weir_graph_add(graph, weir_empty_new(NULL, NULL), i == tail ? NULL : i % 2 ? "odd" : "even");
                weir_graph_precede(i > 0 ? nodes[i - 1] : NULL, nodes[i]);
        }
        weir_graph_precede(nodes[tail + size - 1], nodes[tail]);
        return graph;
}

static void
cycle_of_100_000_nodes_is_found(void)
{
        enum { SIZE = 100000, TAIL = 1000 };
        weir_node **nodes = calloc(SIZE + 2 * TAIL, sizeof *nodes);

        CU_ASSERT_EQUAL(weir_log_set(keep_message, NULL), 0);
        CU_ASSERT_EQUAL(weir_task_start(ring(SIZE, TAIL, nodes)), -ELOOP);
        CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "a cycle of 100000 nodes: "));
        CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "... -> "));
        CU_ASSERT_EQUAL(weir_task_start(ring(2, 0, nodes)), -ELOOP);
        CU_ASSERT(strstr(last_message, "of 2 nodes: #0 -> odd -> #0") || strstr(last_message, "of 2 nodes: odd -> #0 -> odd"));
        CU_ASSERT_EQUAL(weir_task_start(ring(2, 1, nodes)), -ELOOP);
        CU_ASSERT_PTR_NOT_NULL(strstr(last_message, "of 2 nodes: "));
        weir_log_set(NULL, NULL);
        free(nodes);
}

/* -- policies and conditions -- */

/* A task whose status is -ECANCELED. */
static weir_task *
failing(struct weir_test_record *record)
{
        weir_task *timer = weir_test_named("failing", FAR, record);

        CU_ASSERT_EQUAL(weir_timer_cancel("failing", WEIR_ALL), 1);
        return timer;
}

struct look {
        weir_node *nodes[8];
        enum weir_node_state states[8];
        int statuses[8];
        int status;
};

static void
look_at_nodes(weir_task *task, void *context)
{
        struct look *look = context;

        for (unsigned i = 0; i < 8; i++) {
                look->states[i] = weir_node_state(look->nodes[i]);
                look->statuses[i] = weir_node_status(look->nodes[i]);
        }
        look->status = weir_task_status(task);
}

/* a -> b -> c -> d, where b fails. */
static void
failure_cancels_what_comes_after_or_not_as_the_policy_says(void)
{
        weir_test_begin_virtual();
        for (unsigned cancels = 0; cancels < 2; cancels++) {
                struct weir_test_record records[4] = {0};
                struct look look = {0};
                weir_task *graph = weir_graph_new(look_at_nodes, &look);

                for (unsigned i = 0; i < 4; i++) {
                        look.nodes[i] = weir_graph_add(graph, i == 1 ? failing(&records[i]) : weir_test_empty(&records[i]), NULL);
                        weir_graph_precede(i ? look.nodes[i - 1] : NULL, look.nodes[i]);
                }
                weir_node_set_policy(look.nodes[1], cancels ? WEIR_NODE_CANCEL : WEIR_NODE_GO_ON);
                CU_ASSERT_EQUAL(weir_task_run(graph), -ECANCELED);
                CU_ASSERT_EQUAL(look.status, -ECANCELED);
                WEIR_TEST_CALLED(&records[0], 0);
                WEIR_TEST_CALLED(&records[1], -ECANCELED);
                CU_ASSERT_EQUAL(look.states[0], WEIR_NODE_ENDED);
                CU_ASSERT_EQUAL(look.states[1], WEIR_NODE_ENDED);
                CU_ASSERT_EQUAL(look.statuses[1], -ECANCELED);
                for (unsigned i = 2; i < 4; i++) {
                        CU_ASSERT_EQUAL(records[i].calls, !cancels);
                        CU_ASSERT_EQUAL(records[i].frees, 1);
                        CU_ASSERT_EQUAL(look.states[i], cancels ? WEIR_NODE_CANCELLED : WEIR_NODE_ENDED);
                        CU_ASSERT_EQUAL(look.statuses[i], cancels ? -ECANCELED : 0);
                }
        }
        weir_test_end();
}

static void
poison_own_series(weir_task *task, void *context)
{
        (void)context;
        CU_ASSERT_EQUAL(weir_series_push(weir_series_of(task), NULL), -ENOMEM);
}

/* The last one fails first, with another status. */
static void
status_is_that_of_the_first_node_that_failed_in_order_of_adding(void)
{
        struct weir_test_record ok = {0}, record = {0};

        weir_test_begin_virtual();
        for (unsigned other = 0; other < 2; other++) {
                struct weir_test_record failed = {0};
                weir_task *graph = weir_graph_new(NULL, NULL);
                weir_graph_add(graph, weir_test_timer(WEIR_SEC(1), &ok), NULL);
                weir_graph_add(graph,
                               other ? weir_test_timer(WEIR_SEC(3), &record)
                                     : weir_timer_new(WEIR_SEC(3), poison_own_series, NULL),
                               NULL);
                weir_graph_add(graph, failing(&failed), NULL);
                CU_ASSERT_EQUAL(weir_task_run(graph), other ? -ECANCELED : -ENOMEM);
        }
        weir_test_end();
}

struct answer {
        bool taken;
        _Atomic unsigned asked;
        const weir_node *before;
};

static bool
say(const weir_node *before, void *context)
{
        struct answer *answer = context;

        atomic_fetch_add(&answer->asked, 1);
        answer->before = before;
        CU_ASSERT_EQUAL(weir_node_state(before), WEIR_NODE_ENDED);
        return answer->taken;
}

/* a ->(yes) b -> d, a ->(no) c -> d, c -> e, (c, b) -> f. */
static void
edges_are_taken_when_their_condition_says_so(void)
{
        struct weir_test_record records[6] = {0};
        struct answer yes = {.taken = true}, no = {.taken = false}, after_skipped = {.taken = true};
        struct look look = {0};

        weir_test_begin_virtual();
        weir_task *graph = weir_graph_new(look_at_nodes, &look);
        for (unsigned i = 0; i < 6; i++) {
                look.nodes[i] = weir_graph_add(graph, weir_test_empty(&records[i]), NULL);
        }
        CU_ASSERT_EQUAL(weir_graph_precede_if(look.nodes[0], look.nodes[1], say, &yes), 0);
        CU_ASSERT_EQUAL(weir_graph_precede_if(look.nodes[0], look.nodes[2], say, &no), 0);
        CU_ASSERT_EQUAL(weir_graph_precede(look.nodes[1], look.nodes[3]), 0);
        CU_ASSERT_EQUAL(weir_graph_precede(look.nodes[2], look.nodes[3]), 0);
        CU_ASSERT_EQUAL(weir_graph_precede(look.nodes[2], look.nodes[4]), 0);
        CU_ASSERT_EQUAL(weir_graph_precede_if(look.nodes[2], look.nodes[5], say, &after_skipped), 0);
        CU_ASSERT_EQUAL(weir_graph_precede(look.nodes[1], look.nodes[5]), 0);
        CU_ASSERT_EQUAL(weir_task_run(graph), 0);
        static const bool runs[6] = {true, true, false, true, false, true};
        for (unsigned i = 0; i < 6; i++) {
                CU_ASSERT_EQUAL(records[i].calls, runs[i]);
                CU_ASSERT_EQUAL(records[i].frees, 1);
                CU_ASSERT_EQUAL(look.states[i], runs[i] ? WEIR_NODE_ENDED : WEIR_NODE_SKIPPED);
                CU_ASSERT_EQUAL(look.statuses[i], 0);
        }
        CU_ASSERT_EQUAL(yes.asked, 1);
        CU_ASSERT_PTR_EQUAL(yes.before, look.nodes[0]);
        CU_ASSERT_EQUAL(no.asked, 1);
        CU_ASSERT_EQUAL(after_skipped.asked, 0);
        weir_test_end();
}

/* A condition chooses the branch by the status of the node. */
static bool
has_failed(const weir_node *before, void *context)
{
        (void)context;
        return weir_node_status(before) != 0;
}

static void
condition_may_look_at_the_status(void)
{
        struct weir_test_record failed = {0}, repair = {0};

        weir_test_begin_virtual();
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node *node = weir_graph_add(graph, failing(&failed), "work");
        weir_graph_precede_if(node, weir_graph_add(graph, weir_test_empty(&repair), "repair"), has_failed, NULL);
        CU_ASSERT_EQUAL(weir_task_run(graph), -ECANCELED);
        WEIR_TEST_CALLED(&repair, 0);
        weir_test_end();
}

/* Of each node that is dropped, many come after it: nothing of that is on the stack. */
static void
chain_of_100_000_dropped_nodes_is_gone_through(void)
{
        enum { SIZE = 100000 };
        struct weir_test_record failed = {0}, skipped = {0}, record = {0};
        struct answer no = {.taken = false};

        weir_test_begin_virtual();
        weir_task *graph = weir_graph_new(NULL, NULL);
        weir_node *first = weir_graph_add(graph, failing(&failed), "first"), *cancelled = first, *not_taken = NULL;
        weir_node_set_policy(first, WEIR_NODE_CANCEL);
        weir_node *other = weir_graph_add(graph, weir_empty_new(NULL, NULL), NULL);
        for (unsigned i = 0; i < SIZE; i++) {
                weir_node *next = weir_graph_add(graph, weir_test_empty(&record), NULL);

                weir_graph_precede(cancelled, next);
                cancelled = next;
                next = weir_graph_add(graph, weir_test_empty(&skipped), NULL);
                if (not_taken) {
                        weir_graph_precede(not_taken, next);
                } else {
                        weir_graph_precede_if(other, next, say, &no);
                }
                not_taken = next;
        }
        CU_ASSERT_EQUAL(weir_task_run(graph), -ECANCELED);
        CU_ASSERT_EQUAL(record.calls, 0);
        CU_ASSERT_EQUAL(record.frees, SIZE);
        CU_ASSERT_EQUAL(skipped.calls, 0);
        CU_ASSERT_EQUAL(skipped.frees, SIZE);
        weir_test_end();
}

static void
count_call(weir_task *task, void *context)
{
        (void)task;
        atomic_fetch_add((_Atomic unsigned *)context, 1);
}

static void
node_with_100_000_successors_begins_them_all(void)
{
        enum { SIZE = 100000 };
        static _Atomic unsigned calls;

        for (unsigned is_real = 0; is_real < 2; is_real++) {
                calls = 0;
                if (is_real) {
                        weir_test_begin_real(2);
                } else {
                        weir_test_begin_virtual();
                }
                weir_task *graph = weir_graph_new(count_call, &calls);
                weir_node *first = weir_graph_add(graph, weir_empty_new(count_call, &calls), NULL);
                weir_node *last = weir_graph_add(graph, weir_empty_new(count_call, &calls), NULL);
                for (unsigned i = 0; i < SIZE; i++) {
                        weir_node *node = weir_graph_add(graph, weir_empty_new(count_call, &calls), NULL);

                        weir_graph_precede(first, node);
                        weir_graph_precede(node, last);
                }
                CU_ASSERT_EQUAL(weir_task_run(graph), 0);
                CU_ASSERT_EQUAL(calls, SIZE + 3);
                weir_test_end();
        }
}

/* -- results -- */

static _Atomic int freed_results;

static void
free_result(void *result)
{
        free(result);
        atomic_fetch_add(&freed_results, 1);
}

static void
leave_number(weir_task *task, void *context)
{
        int *number = malloc(sizeof *number);

        *number = *(const int *)context;
        CU_ASSERT_EQUAL(weir_node_set_result(weir_graph_node_of(task), number, free_result), 0);
}

/* Also behind the task of the node, in its series, and in a parallel in there. */
static void
leave_number_later(weir_task *task, void *context)
{
        CU_ASSERT_PTR_NOT_NULL(weir_graph_node_of(task));
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        weir_parallel_add(parallel, weir_empty_new(leave_number, context));
        weir_series_push(weir_series_of(task), weir_timer_new(WEIR_SEC(1), leave_number, context));
        weir_series_push(weir_series_of(task), parallel);
}

static void
add_up_inputs(weir_task *task, void *context)
{
        weir_node *node = weir_graph_node_of(task);
        int sum = 0, *number;

        for (size_t i = 0; (number = weir_node_input(node, i)); i++) {
                sum = 10 * sum + *number;
        }
        *(int *)context = sum;
        CU_ASSERT_EQUAL(weir_node_set_result(node, context, NULL), 0);
}

static void
see_results(weir_task *task, void *context)
{
        weir_node **nodes = context;

        (void)task;
        CU_ASSERT_EQUAL(*(int *)weir_node_result(nodes[0]), 1);
        CU_ASSERT_EQUAL(*(int *)weir_node_result(nodes[3]), 213);
        CU_ASSERT_EQUAL(weir_node_set_result(nodes[0], malloc(1), free_result), -EBUSY);
        CU_ASSERT_EQUAL(freed_results, 3); /* that, and the two first ones of a node that was given another */
        freed_results = 0;
}

static void
results_go_along_edges_in_order_of_precede(void)
{
        static int numbers[] = {1, 2, 3};
        weir_node *nodes[4];
        int sum = 0;

        weir_test_begin_virtual();
        freed_results = 0;
        CU_ASSERT_EQUAL(weir_node_set_result(NULL, malloc(1), free_result), -EINVAL);
        CU_ASSERT_EQUAL(freed_results, 1);
        weir_task *graph = weir_graph_new(see_results, nodes);
        for (unsigned i = 0; i < 3; i++) {
                nodes[i] = weir_graph_add(graph, weir_empty_new(i == 2 ? leave_number_later : leave_number, &numbers[i]), NULL);
        }
        nodes[3] = weir_graph_add(graph, weir_empty_new(add_up_inputs, &sum), NULL);
        weir_graph_precede(nodes[1], nodes[3]);
        weir_graph_precede(nodes[0], nodes[3]);
        weir_graph_precede(nodes[2], nodes[3]);
        CU_ASSERT_EQUAL(weir_task_run(graph), 0);
        CU_ASSERT_EQUAL(sum, 213);
        CU_ASSERT_EQUAL(freed_results, 3);
        weir_test_end();
}

/* -- nested -- */

static weir_task *
nest(unsigned depth, _Atomic unsigned *calls)
{
        weir_task *graph = weir_graph_new(count_call, calls);
        weir_node *before = NULL;

        for (unsigned i = 0; i < 3; i++) {
                weir_task *inner = depth > 0 ? nest(depth - 1, calls) : weir_timer_new(0, count_call, calls);
                weir_node *node;

                if (i == 1) {
                        weir_task *parallel = weir_parallel_new(NULL, NULL);

                        weir_parallel_add(parallel, inner);
                        node = weir_graph_add(graph, parallel, NULL);
                } else {
                        node = weir_graph_add(graph, inner, NULL);
                }
                if (i > 0) {
                        weir_graph_precede(before, node);
                }
                before = node;
        }
        return graph;
}

static void
graphs_nest_in_graphs_and_parallels_and_parallels_in_graphs(void)
{
        for (unsigned is_real = 0; is_real < 2; is_real++) {
                _Atomic unsigned calls = 0;
                weir_task *parallel = weir_parallel_new(NULL, NULL);

                if (is_real) {
                        weir_test_begin_real(2);
                } else {
                        weir_test_begin_virtual();
                }
                for (unsigned i = 0; i < 3; i++) {
                        weir_parallel_add(parallel, nest(4, &calls));
                }
                CU_ASSERT_EQUAL(weir_task_run(parallel), 0);
                CU_ASSERT_EQUAL(calls, 3 * (243 + 81 + 27 + 9 + 3 + 1));
                weir_test_end();
        }
}

/* -- the end comes early -- */

struct storm {
        _Atomic unsigned calls, cancelled, frees, made;
        weir_series *series;
        _Atomic bool go_on;
};

static void
count_in_storm(weir_task *task, void *context)
{
        struct storm *storm = context;

        atomic_fetch_add(&storm->calls, 1);
        atomic_fetch_add(&storm->cancelled, weir_task_status(task) == -ECANCELED || weir_task_status(task) == -ESHUTDOWN);
}

static void
free_in_storm(void *context)
{
        atomic_fetch_add(&((struct storm *)context)->frees, 1);
}

static void
work_in_storm(void *context)
{
        (void)context;
}

static weir_task *
storm_task(struct storm *storm, uint64_t kind)
{
        weir_task *task = kind == 0   ? weir_timer_new(WEIR_MSEC(1), count_in_storm, storm)
                          : kind == 1 ? weir_go_new(NULL, work_in_storm, count_in_storm, storm)
                          : kind == 2 ? weir_timer_new(0, count_in_storm, storm)
                                      : weir_empty_new(count_in_storm, storm);

        weir_task_on_free(task, free_in_storm);
        atomic_fetch_add(&storm->made, 1);
        return task;
}

static weir_task *
storm_graph(struct storm *storm, struct weir_test_random *random, size_t count)
{
        weir_task *graph = weir_graph_new(count_in_storm, storm);
        weir_node **nodes = malloc(count * sizeof *nodes);

        for (size_t i = 0; i < count; i++) {
                weir_task *task = storm_task(storm, weir_test_random_below(random, 8));

                if (weir_test_random_below(random, 10) == 0) {
                        weir_task *inner = weir_graph_new(NULL, NULL);

                        weir_graph_add(inner, task, NULL);
                        task = inner;
                }
                nodes[i] = weir_graph_add(graph, task, NULL);
                weir_node_set_policy(nodes[i], weir_test_random_below(random, 2) ? WEIR_NODE_CANCEL : WEIR_NODE_GO_ON);
                for (unsigned edge = 0; i > 0 && edge < weir_test_random_below(random, 4); edge++) {
                        weir_graph_precede(nodes[weir_test_random_below(random, i)], nodes[i]);
                }
        }
        weir_task_on_free(graph, free_in_storm);
        atomic_fetch_add(&storm->made, 1);
        free(nodes);
        return graph;
}

static void *
cancel_from_outside(void *context)
{
        struct storm *storm = context;
        struct weir_test_random random = {storm->made};

        for (uint64_t i = weir_test_random_below(&random, 20000); i > 0; i--) {
                (void)weir_series_status(storm->series);
        }
        weir_series_cancel(storm->series);
        weir_series_unref(storm->series);
        return NULL;
}

static void
cancel_from_another_thread_meets_nodes_that_begin_and_end(void)
{
        struct weir_test_random random = {weir_test_seed()};

        weir_test_begin_real(3);
        for (unsigned round = 0; round < (WEIR_TEST_SANITIZED ? 60 : 200); round++) {
                struct storm storm = {0};
                pthread_t thread;

                weir_task *graph = storm_graph(&storm, &random, 1 + weir_test_random_below(&random, 600));
                storm.series = weir_series_ref(weir_series_new(NULL, NULL));
                weir_series_push(storm.series, graph);
                weir_series *series = storm.series;
                CU_ASSERT_EQUAL(pthread_create(&thread, NULL, cancel_from_outside, &storm), 0);
                int status = weir_series_run(series);
                CU_ASSERT(status == 0 || status == -ECANCELED);
                pthread_join(thread, NULL);
                CU_ASSERT_EQUAL(storm.frees, storm.made);
                CU_ASSERT(storm.calls <= storm.made);
        }
        weir_test_end();
}

static void
ends_early(weir_nsec deadline, int cause)
{
        struct weir_test_record running[300] = {0}, waiting = {0}, end = {0};
        struct look look = {0};

        weir_test_begin_virtual();
        weir_task *graph = weir_graph_new(look_at_nodes, &look);
        for (unsigned i = 0; i < 300; i++) {
                weir_node *node = weir_graph_add(graph, weir_test_timer(FAR, &running[i]), NULL);

                look.nodes[0] = node;
        }
        look.nodes[1] = weir_graph_add(graph, weir_test_empty(&waiting), NULL);
        weir_graph_precede(look.nodes[0], look.nodes[1]);
        weir_series *series = weir_series_ref(weir_series_new(weir_test_series_done, &end));
        weir_series_push(series, graph);
        CU_ASSERT_EQUAL(weir_series_set_deadline(series, deadline), 0);
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        weir_test_pass(WEIR_SEC(1));
        if (deadline == WEIR_FOREVER)
                weir_series_cancel(series);
        weir_test_pass(WEIR_SEC(1));
        for (unsigned i = 0; i < 300; i++) {
                WEIR_TEST_CALLED(&running[i], cause);
        }
        WEIR_TEST_NOT_CALLED(&waiting);
        CU_ASSERT_EQUAL(end.calls, 1);
        CU_ASSERT_EQUAL(end.status, cause);
        CU_ASSERT_EQUAL(look.states[0], WEIR_NODE_ENDED);
        CU_ASSERT_EQUAL(look.states[1], WEIR_NODE_CANCELLED);
        CU_ASSERT_EQUAL(look.statuses[1], cause);
        CU_ASSERT_EQUAL(look.status, cause);
        weir_series_unref(series);
        weir_test_end();
}

static void
cancel_ends_what_runs_and_drops_what_waits(void)
{
        ends_early(WEIR_FOREVER, -ECANCELED);
}

static void
so_does_a_deadline(void)
{
        ends_early(WEIR_MSEC(1500), -ETIMEDOUT);
}

static void
cancel_before_the_start_drops_the_graph_with_its_nodes(void)
{
        struct weir_test_record node = {0}, end = {0};

        weir_test_begin_virtual();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_task *graph = weir_test_recorded(weir_graph_new(weir_test_done, &end));
        weir_graph_add(graph, weir_test_empty(&node), NULL);
        weir_series_push(series, graph);
        weir_series_cancel(series);
        CU_ASSERT_EQUAL(weir_series_run(series), -ECANCELED);
        WEIR_TEST_NOT_CALLED(&node);
        WEIR_TEST_NOT_CALLED(&end);
        weir_test_end();
}

static void
shutdown_in_the_middle_ends_what_runs_with_eshutdown(void)
{
        struct weir_test_random random = {weir_test_seed()};
        struct weir_test_record running = {0}, waiting = {0}, end = {0};

        weir_test_begin_virtual();
        weir_task *graph = weir_test_recorded(weir_graph_new(weir_test_done, &end));
        weir_graph_precede(weir_graph_add(graph, weir_test_timer(FAR, &running), NULL),
                           weir_graph_add(graph, weir_test_empty(&waiting), NULL));
        CU_ASSERT_EQUAL(weir_task_start(graph), 0);
        weir_test_pass(WEIR_SEC(1));
        weir_test_end();
        WEIR_TEST_CALLED(&running, -ESHUTDOWN);
        WEIR_TEST_NOT_CALLED(&waiting);
        WEIR_TEST_CALLED(&end, -ESHUTDOWN);
        for (unsigned round = 0; round < 30; round++) {
                struct storm storm = {0};

                weir_test_begin_real(2);
                CU_ASSERT_EQUAL(weir_task_start(storm_graph(&storm, &random, 500)), 0);
                weir_test_end();
                CU_ASSERT_EQUAL(storm.frees, storm.made);
        }
}

/* The one node keeps the worker that begins both, for as long as its lock is held; meanwhile the walk that cancels comes to the
 * other, which is RUNNING and not yet within the series of the graph. */
static void
node_that_is_about_to_begin_ends_with_the_cause_of_its_graph(void)
{
        struct weir_test_record ended = {0}, graph_ended = {0};

        weir_test_begin_real(2);
        weir_series *caught = weir_series_new(weir_test_series_done, &ended), *holds_up = weir_series_new(NULL, NULL);
        weir_series_push(caught, weir_timer_new(WEIR_FOREVER, NULL, NULL));
        weir_series_set_context(caught, &ended, weir_test_freed);
        weir_series_ref(holds_up);
        weir_task *first = weir_timer_new(WEIR_MSEC(1), NULL, NULL), *graph = weir_graph_new(weir_test_done, &graph_ended);
        weir_node *before = weir_graph_add(graph, first, NULL), *other = weir_graph_add_series(graph, caught, NULL);
        weir_graph_precede(before, weir_graph_add_series(graph, holds_up, NULL)); /* begun first, but found second */
        weir_graph_precede(before, other);
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_test_recorded(graph));
        weir_series_ref(series);
        first->poller = 1;
        graph->poller = 0;
        series->poller = 0;
        weir_series_ref(caught);
        weir__lock_hold(&holds_up->lock); /* without its rank: the start takes another */
        CU_ASSERT_EQUAL(weir_series_start(series), 0);
        WEIR_TEST_EVENTUALLY(weir__lock_has_sleepers(&holds_up->lock));
        weir_series_set_deadline(series, 1);
        for (unsigned i = 0; i < 1000 && atomic_load(&caught->cause) == 0; i++) {
                weir_test_sleep(1000000); /* not for ever: the walk may have come behind, on a slow machine */
        }
        weir__unlock(&holds_up->lock);
        WEIR_TEST_EVENTUALLY(graph_ended.frees == 1);
        weir_test_end();
        CU_ASSERT_EQUAL(weir_series_status(caught), -ETIMEDOUT);
        WEIR_TEST_CALLED(&ended, -ETIMEDOUT);
        WEIR_TEST_CALLED(&graph_ended, -ETIMEDOUT);
        weir_series_unref(caught);
        weir_series_unref(holds_up);
        weir_series_unref(series);
}

/* -- dot -- */

static bool
holds(const char *text, const char *part)
{
        if (!strstr(text, part)) {
                fprintf(stderr, "\"%s\" is not in\n%s", part, text);
        }
        return strstr(text, part);
}

struct picture {
        char *text;
        size_t size;
};

static void
draw(weir_task *task, void *context)
{
        struct picture *picture = context;
        FILE *file = open_memstream(&picture->text, &picture->size);

        CU_ASSERT_EQUAL(weir_graph_dot(task, file), 0);
        fclose(file);
}

/* Whether it is what the grammar of Graphviz calls a digraph, as far as we use it: "digraph NAME { STATEMENT; ... }", where a
 * statement is a word, or two with an arrow between them, with attributes. */
static bool
skip_attributes(const char **at)
{
        const char *text = *at;
        bool quoted = false;

        if (strncmp(text, " [", 2) != 0) {
                return true;
        }
        for (text += 2; *text && (quoted || *text != ']'); text++) {
                if (quoted && *text == '\\') {
                        text++;
                } else if (*text == '"') {
                        quoted = !quoted;
                } else if (*text == '\n') {
                        return false;
                }
        }
        *at = text + 1;
        return *text == ']';
}

static size_t
word(const char *text)
{
        return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
}

static bool
is_digraph(const char *text)
{
        static const char begin[] = "digraph weir {\n";

        if (strncmp(text, begin, sizeof begin - 1) != 0) {
                return false;
        }
        for (text += sizeof begin - 1; *text != '}'; text += 2) {
                text += strspn(text, " ");
                if (word(text) == 0) {
                        return false;
                }
                text += word(text);
                if (strncmp(text, " -> n", 5) == 0) {
                        text += 4 + word(text + 4);
                }
                if (!skip_attributes(&text) || strncmp(text, ";\n", 2) != 0) {
                        return false;
                }
        }
        return strcmp(text, "}\n") == 0;
}

static bool
graphviz_takes(const char *text)
{
        if (system("command -v dot >/dev/null") != 0) {
                return true;
        }
        FILE *dot = popen("dot -Tplain >/dev/null", "we");
        fputs(text, dot);
        return pclose(dot) == 0;
}

static void
dot_shows_labels_states_times_and_conditions(void)
{
        struct weir_test_record failed = {0};
        struct answer no = {.taken = false};
        struct picture before = {0}, after = {0};

        weir_test_begin_virtual();
        weir_task *graph = weir_graph_new(draw, &after);
        weir_node *a = weir_graph_add(graph, weir_timer_new(WEIR_MSEC(1500), NULL, NULL), "say \"a\\N\"\nnow; [b] }");
        weir_node *b = weir_graph_add(graph, failing(&failed), NULL);
        weir_node *c = weir_graph_add(graph, weir_empty_new(NULL, NULL), "skipped");
        weir_node *d = weir_graph_add(graph, weir_empty_new(NULL, NULL), "cancelled");
        weir_node_set_policy(b, WEIR_NODE_CANCEL);
        weir_graph_precede(a, b);
        weir_graph_precede_if(a, c, say, &no);
        weir_graph_precede(b, d);
        draw(graph, &before);
        CU_ASSERT_EQUAL(weir_graph_dot(NULL, stderr), -EINVAL);
        CU_ASSERT_EQUAL(weir_graph_dot(graph, NULL), -EINVAL);
        weir_task *other = weir_empty_new(NULL, NULL);
        CU_ASSERT_EQUAL(weir_graph_dot(other, stderr), -EDOM);
        weir_task_dismiss(other);
        for (int buffered = 0; buffered < 2; buffered++) {
                FILE *full = fopen("/dev/full", "we");
                if (!buffered) {
                        setbuf(full, NULL);
                }
                CU_ASSERT_EQUAL(weir_graph_dot(graph, full), -EIO);
                fclose(full);
        }
        CU_ASSERT_EQUAL(weir_task_run(graph), -ECANCELED);
        CU_ASSERT(is_digraph(before.text));
        CU_ASSERT(is_digraph(after.text));
        CU_ASSERT(graphviz_takes(after.text));
        CU_ASSERT(holds(before.text, "n0 [label=\"say \\\"a\\\\N\\\"\\\\x0anow; [b] }\\nwaiting\", fillcolor=white];"));
        CU_ASSERT(holds(before.text, "n0 -> n2 [style=dashed];"));
        CU_ASSERT(holds(after.text, "\\nended\\nat 0.000 ms, for 1500.000 ms\", fillcolor=palegreen];"));
        CU_ASSERT(holds(after.text, "n1 [label=\"#1\\nended, status -125\\nat 1500.000 ms, for 0.000 ms\", fillcolor=salmon];"));
        CU_ASSERT(holds(after.text, "n2 [label=\"skipped\\nskipped\", fillcolor=lightgrey];"));
        CU_ASSERT(holds(after.text, "n3 [label=\"cancelled\\ncancelled, status -125\", fillcolor=orange];"));
        CU_ASSERT(holds(after.text, "n0 -> n1;"));
        free(before.text);
        free(after.text);
        weir_test_end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(misuse_aborts_with_the_reason),
                WEIR_TEST(nodes_run_as_soon_as_all_before_them_have_ended),
                WEIR_TEST(random_graph_of_100_000_nodes_never_breaks_its_order),
                WEIR_TEST(small_random_graphs_never_break_their_order),
                WEIR_TEST(empty_graph_ends_at_once_on_a_worker),
                WEIR_TEST(edges_that_cannot_be_are_refused),
                WEIR_TEST(null_or_wrong_node_poisons_and_nothing_runs),
                WEIR_TEST(adding_to_null_dismisses_the_node),
                WEIR_TEST(dismissed_graph_frees_its_nodes_on_the_caller),
                WEIR_TEST(graphs_nested_deeply_are_dismissed_in_constant_stack),
                WEIR_TEST(cycle_is_reported_by_all_that_consume_the_graph_and_named_in_the_log),
                WEIR_TEST(cycle_of_100_000_nodes_is_found),
                WEIR_TEST(failure_cancels_what_comes_after_or_not_as_the_policy_says),
                WEIR_TEST(status_is_that_of_the_first_node_that_failed_in_order_of_adding),
                WEIR_TEST(edges_are_taken_when_their_condition_says_so),
                WEIR_TEST(condition_may_look_at_the_status),
                WEIR_TEST(chain_of_100_000_dropped_nodes_is_gone_through),
                WEIR_TEST(node_with_100_000_successors_begins_them_all),
                WEIR_TEST(results_go_along_edges_in_order_of_precede),
                WEIR_TEST(graphs_nest_in_graphs_and_parallels_and_parallels_in_graphs),
                WEIR_TEST(cancel_from_another_thread_meets_nodes_that_begin_and_end),
                WEIR_TEST(cancel_ends_what_runs_and_drops_what_waits),
                WEIR_TEST(so_does_a_deadline),
                WEIR_TEST(node_that_is_about_to_begin_ends_with_the_cause_of_its_graph),
                WEIR_TEST(cancel_before_the_start_drops_the_graph_with_its_nodes),
                WEIR_TEST(shutdown_in_the_middle_ends_what_runs_with_eshutdown),
                WEIR_TEST(dot_shows_labels_states_times_and_conditions),
        };

        return weir_test_main("graph", tests, sizeof tests / sizeof *tests);
}
