/* test/flow_simulation_test.c: random flows of all kinds, nested, from one seed on the virtual clock.  Each callback and each
 * free function checks whether it may come now, and whether all that had to come before have come.
 *
 * There is no model of the order of events, as the simulation has (simulation.h), but rules:
 *   - A task that was started is called back once, and freed right after that.  Any other task is dropped.
 *   - A drop has a reason: a series around the task was cancelled, or its deadline came, a race was won, a graph does not need
 *     the task, or shutdown.
 *   - Nothing begins with status 0 if there is such a reason, and nothing ends with that of a reason if there is none.
 *   - Combinators end after their children, tasks of a series one after the other, nodes after their predecessors.
 *   - Timers and deadlines come exactly at their instants.
 *   - An await returns the status of its task.  One that begins behind a reason to end early returns that, at once.
 *
 *     build/test/flow_simulation_test SEED [LIVES]     goes on from that seed
 *
 * Threads: the worker, which starts flows and acts in callbacks; the main thread advances the clock, and shuts down when all is
 *          at rest.  Functions call back on their own threads as well: one that begins at the moment of its cancel may see 0.
 * Locks:   turn: one thread at a time.  Its holder takes it again when something is freed at once. */
#include "kernel/memory/memory.h"
#include "test/fixture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#define ITEMS 8192
#define LINES 4096

enum kind { TIMER, EMPTY, FUNCTION, FAILING, PARALLEL, RACE, GRAPH, MODULE, DYNAMIC, REPEATER, RETRY, FIBER, KINDS };

static const char *const kind_names[KINDS] = {"timer", "empty",  "function", "failing",  "parallel", "race",
                                              "graph", "module", "dynamic",  "repeater", "retry",    "fiber"};

/* A series. */
struct line {
        weir_series *handle;
        struct item *owner; /* the combinator or graph that it is a child of; NULL: none */
        struct item *last;
        bool stopped, ended;
        weir_nsec stopped_at, deadline;
        int status;
        unsigned live; /* items that were not freed */
};

struct item {
        enum kind kind;
        unsigned number;
        weir_task *handle;
        struct item *parent;   /* the combinator or graph that it is within; NULL: none */
        struct line *line;     /* NULL: it is a child itself, or alone */
        struct item *previous; /* in the line */
        struct item *before[4];
        unsigned befores;
        bool taken[4]; /* the edges, if there is a condition */
        bool cancels;  /* its successors when it fails */
        bool called, freed, dismissed, fails, made;
        bool won; /* a race */
        int status;
        int result; /* of a fiber's function */
        weir_nsec after, born, ended, won_at;
        weir_nsec limit;                  /* the instant at which a timeout around it ends it */
        unsigned live;                    /* children, and lines, that have not ended */
        unsigned rounds, most;            /* made, of a repeater or retry */
        struct item *last_made;           /* by it */
        struct item *first, *next, *tail; /* children that are tasks, in order */
        weir_nsec delay, attempt_limit;   /* of a retry */
};

static struct {
        uint64_t seed, life, hash, callbacks, dropped, kinds[KINDS];
        struct weir_test_random random;
        bool functions;
        bool stopping;
        unsigned items, lines, to_start;
        struct item item[ITEMS];
        struct line line[LINES];
} flows;

/* -- left-overs -- */

static _Atomic int64_t blocks;

void *__real_weir__alloc(size_t size);
void __real_weir__free(void *block, size_t size);
void *__wrap_weir__alloc(size_t size);
void __wrap_weir__free(void *block, size_t size);

void *
__wrap_weir__alloc(size_t size)
{
        atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
        return __real_weir__alloc(size);
}

void
__wrap_weir__free(void *block, size_t size)
{
        atomic_fetch_sub_explicit(&blocks, block != NULL, memory_order_relaxed);
        __real_weir__free(block, size);
}

/* -- one at a time -- */

static pthread_mutex_t turn;

static void
take_turn(void)
{
        pthread_mutex_lock(&turn);
}

static void
leave_turn(void)
{
        pthread_mutex_unlock(&turn);
}

/* -- saying so -- */

__attribute__((format(printf, 2, 3), noreturn)) static void
differs(const struct item *item, const char *format, ...)
{
        va_list arguments;

        fprintf(stderr, "flows: seed %" PRIu64 ", life %" PRIu64 ", at %" PRId64 ": ", flows.seed, flows.life, weir_now());
        if (item)
                fprintf(stderr, "%s %u: ", kind_names[item->kind], item->number);
        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fputc('\n', stderr);
        for (const struct item *in = item ? item->parent : NULL; in; in = in->parent)
                fprintf(stderr, "        in %s %u\n", kind_names[in->kind], in->number);
        fflush(stderr);
        _exit(1);
}

static void
note(uint64_t what)
{
        flows.hash = (flows.hash ^ what ^ (uint64_t)weir_now()) * 0x100000001b3;
}

static uint64_t
below(uint64_t limit)
{
        return weir_test_random_below(&flows.random, limit);
}

static bool
one_in(uint64_t count)
{
        return below(count) == 0;
}

/* -- rules -- */

/* Whether what it is within may end it with that; and, for `must`, whether it must not begin any more. */
static bool
ends_with(const struct item *item, int cause, bool must)
{
        weir_nsec now = weir_now() - must;

        if (cause == -ESHUTDOWN && !must)
                return flows.stopping;
        for (; item; item = item->parent) {
                const struct line *line = item->line;
                bool lost = item->parent && item->parent->kind == RACE && item->parent->won;

                if (cause == -ETIMEDOUT && ((line && line->deadline <= now) || item->limit <= now))
                        return true;
                if (cause == -ECANCELED && !(must && flows.functions) && ((line && line->stopped) || lost))
                        return true;
        }
        return false;
}

static bool
ends_early(const struct item *item, bool must)
{
        return ends_with(item, -ECANCELED, must) || ends_with(item, -ETIMEDOUT, must) || ends_with(item, -ESHUTDOWN, must);
}

/* No time passes until all that was cancelled has ended. */
static bool
was_stopped_before(const struct item *item)
{
        for (; item; item = item->parent) {
                const struct item *parent = item->parent;

                if (item->line && item->line->stopped && item->line->stopped_at < weir_now())
                        return true;
                if (parent && parent->kind == RACE && parent->won && parent->won_at < weir_now())
                        return true;
        }
        return false;
}

static bool
is_dropped(const struct item *item)
{
        return item->freed && !item->called;
}

/* Whether its graph may do without it. */
static bool
is_spared(const struct item *node)
{
        bool any_taken = node->befores == 0;

        for (unsigned i = 0; i < node->befores; i++) {
                const struct item *before = node->before[i];

                if (before->freed && (is_dropped(before) || (before->cancels && before->status)))
                        return true;
                any_taken |= node->taken[i];
        }
        return !any_taken;
}

/* When it was started: no time passes between the end of what comes before and that. */
static weir_nsec
begin_of(const struct item *item)
{
        weir_nsec began = item->born;

        if (item->previous)
                return item->previous->ended;
        if (item->befores == 0)
                return item->made || !item->parent ? began : begin_of(item->parent);
        for (unsigned i = 0; i < item->befores; i++)
                if (item->before[i]->ended > began)
                        began = item->before[i]->ended;
        return began;
}

static void
check_order(const struct item *item)
{
        if (item->called || item->freed)
                differs(item, "called back after its end");
        if (item->parent && (item->parent->called || item->parent->freed))
                differs(item, "called back after the combinator or graph that it is in");
        if (item->previous && !item->previous->freed)
                differs(item, "called back before what comes before it in its series");
        for (unsigned i = 0; i < item->befores; i++)
                if (!item->before[i]->freed || (item->before[i]->cancels && item->before[i]->called && item->before[i]->status))
                        differs(item, "called back before, or in spite of, node %u", item->before[i]->number);
        if (item->live)
                differs(item, "called back before %u children have ended", item->live);
}

/* The status that the item should have when nothing ends it early. */
static int
own_status(const struct item *item)
{
        switch (item->kind) {
        case FUNCTION: return item->fails ? -EIO : 0;
        case RACE: return item->won || !item->first ? item->status : item->status ? item->status : -EIO;
        case DYNAMIC:
        case REPEATER:
        case RETRY: return item->last_made ? item->last_made->status : 0;
        case FIBER: return item->result;
        case FAILING:
        case PARALLEL:
        case GRAPH:
        case MODULE: return item->status;
        default: return 0;
        }
}

static void
check_status(const struct item *item, int status)
{
        if (status == 0 && ends_early(item, true))
                differs(item, "called back with 0, though it had to end early");
        if (!flows.stopping && (ends_with(item, -ETIMEDOUT, true) || was_stopped_before(item)))
                differs(item, "called back later than it had to end");
        if ((status == -ECANCELED || status == -ETIMEDOUT || status == -ESHUTDOWN) && ends_with(item, status, false))
                return;
        if (status != own_status(item))
                differs(item, "ended with %d, not with %d", status, own_status(item));
        if (item->kind == TIMER && !flows.stopping && weir_now() != begin_of(item) + item->after)
                differs(item, "expired at %" PRId64 " + %" PRId64, begin_of(item) + item->after,
                        weir_now() - begin_of(item) - item->after);
}

/* -- making -- */

static void called(weir_task *handle, void *context);
static void freed(void *context);
static struct item *make_item(struct item *parent, unsigned depth);

static bool
has_room(void)
{
        return flows.items < ITEMS - 64 && flows.lines < LINES - 32;
}

static struct item *
new_item(enum kind kind, struct item *parent)
{
        struct item *item = &flows.item[flows.items];

        *item = (struct item){.kind = kind, .number = flows.items++, .parent = parent, .born = weir_now(), .limit = WEIR_FOREVER};
        if (parent)
                parent->live++;
        return item;
}

static void
end_line(weir_series *series, void *context)
{
        struct line *line = context;
        int status = weir_series_status(series);

        note((uint64_t)status);
        if (line->ended || line->live)
                differs(line->owner, "its series ended twice, or before %u of its tasks", line->live);
        line->ended = true;
        line->status = status;
        if (line->owner) {
                line->owner->live--;
                if (status && !line->owner->status)
                        line->owner->status = status;
        }
}

static void
line_ended(weir_series *series, void *context)
{
        take_turn();
        end_line(series, context);
        leave_turn();
}

static void
push(struct line *line, struct item *item)
{
        item->line = line;
        item->previous = line->last;
        line->last = item;
        line->live++;
        weir_series_push(line->handle, item->handle);
}

static struct line *
make_line(struct item *owner, unsigned depth)
{
        struct line *line = &flows.line[flows.lines++];

        *line = (struct line){.owner = owner, .deadline = WEIR_FOREVER};
        line->handle = weir_series_ref(weir_series_new(line_ended, line));
        if (owner)
                owner->live++;
        for (uint64_t i = below(4); i > 0 && has_room(); i--)
                push(line, make_item(owner, depth + 1));
        return line;
}

static void
fail(void *context)
{
        if (((struct item *)context)->fails)
                weir_go_fail(-EIO);
}

static void
poison(weir_task *task, void *context)
{
        (void)context;
        weir_series_push(weir_series_of(task), weir_timer_new_named("", 1, NULL, NULL));
}

static weir_task *
make_failing(struct item *item)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_push(series, weir_timer_new(item->after, NULL, NULL));
        weir_series_push(series, weir_empty_new(poison, NULL));
        item->status = -EINVAL;
        return weir_module_new(series, called, item);
}

static weir_task *
make_family(struct item *item, unsigned depth)
{
        bool races = item->kind == RACE;
        weir_task *task = (races ? weir_race_new : weir_parallel_new)(called, item);

        for (uint64_t i = below(4); i > 0 && has_room(); i--) {
                if (!races && one_in(3)) {
                        weir_parallel_add_series(task, make_line(item, depth)->handle);
                        continue;
                }
                struct item *child = make_item(item, depth + 1);
                *(item->tail ? &item->tail->next : &item->first) = child;
                item->tail = child;
                (races ? weir_race_add : weir_parallel_add)(task, child->handle);
        }
        if (races && !item->first)
                item->status = -ENOENT;
        return task;
}

static bool
is_taken(const weir_node *before, void *context)
{
        (void)before;
        return *(bool *)context;
}

static weir_task *
make_graph(struct item *item, unsigned depth)
{
        weir_task *task = weir_graph_new(called, item);
        struct item *items[8];
        weir_node *nodes[8];
        unsigned count = (unsigned)below(8);

        for (unsigned i = 0; i < count; i++) {
                items[i] = make_item(item, depth + 1);
                nodes[i] = weir_graph_add(task, items[i]->handle, NULL);
                items[i]->cancels = one_in(4);
                weir_node_set_policy(nodes[i], items[i]->cancels ? WEIR_NODE_CANCEL : WEIR_NODE_GO_ON);
                *(item->tail ? &item->tail->next : &item->first) = items[i];
                item->tail = items[i];
                for (unsigned j = 0; j < i && items[i]->befores < 4; j++) {
                        unsigned edge = items[i]->befores;

                        if (!one_in(2))
                                continue;
                        items[i]->before[edge] = items[j];
                        items[i]->befores++;
                        bool conditional = one_in(4);
                        items[i]->taken[edge] = !conditional || one_in(2);
                        if (conditional)
                                weir_graph_precede_if(nodes[j], nodes[i], is_taken, &items[i]->taken[edge]);
                        else
                                weir_graph_precede(nodes[j], nodes[i]);
                }
        }
        return task;
}

/* -- combinators that make their children -- */

static void
check_retry(const struct item *retry)
{
        const struct item *last = retry->last_made;
        weir_nsec delay = retry->delay;

        for (unsigned i = 1; i < retry->rounds; i++)
                delay *= 2;
        if (last && (!last->freed || last->status == 0 || weir_now() != last->ended + delay))
                differs(retry, "attempt %u at %" PRId64 ", not %" PRId64 " after the end of the last", retry->rounds + 1,
                        weir_now(), delay);
        if (retry->rounds >= retry->most)
                differs(retry, "more attempts than %u", retry->most);
}

static weir_task *
make_another(struct item *maker)
{
        note(maker->number);
        if (maker->kind == RETRY)
                check_retry(maker);
        if (maker->live || ends_early(maker, true) || maker->called)
                differs(maker, "makes another, with %u children", maker->live);
        if (maker->kind != RETRY && (maker->rounds >= maker->most || !has_room()))
                return NULL;
        maker->rounds++;
        struct item *item = make_item(maker, 2);
        item->made = true;
        maker->last_made = item;
        weir_nsec now = weir_now(), limit = one_in(3) ? (weir_nsec)below(WEIR_SEC(2)) : WEIR_FOREVER;
        if (maker->kind == RETRY) {
                item->limit = maker->attempt_limit == WEIR_FOREVER ? WEIR_FOREVER : now + maker->attempt_limit;
                return item->handle;
        }
        if (maker->kind == REPEATER || limit == WEIR_FOREVER)
                return item->handle;
        item->limit = now + limit;
        return weir_timeout_new(item->handle, limit);
}

static weir_task *
make_one(void *context)
{
        take_turn();
        weir_task *made = make_another(context);
        leave_turn();
        return made;
}

static int
any_but_early(int status, void *context)
{
        take_turn();
        int worth = status && !ends_early(context, true);
        leave_turn();
        return worth;
}

static weir_task *
make_retry(struct item *item)
{
        struct weir_retry_config config = WEIR_RETRY_CONFIG_DEFAULT;

        config.attempts = (int)(item->most = 1 + (unsigned)below(4));
        config.delay = item->delay = 1 + (weir_nsec)below(WEIR_MSEC(500));
        config.max_delay = WEIR_SEC(100);
        config.jitter = WEIR_JITTER_NONE;
        config.retry_if = any_but_early;
        item->attempt_limit = one_in(2) ? WEIR_FOREVER : 1 + (weir_nsec)below(WEIR_SEC(1));
        config.attempt_limit = item->attempt_limit;
        return weir_retry_new(&config, make_one, called, item);
}

/* -- fibers -- */

/* On the stack of the fiber.  The turn is left while it awaits. */
static void
check_await(const struct item *fiber, weir_nsec began, bool must, int status, int own)
{
        note((uint64_t)status);
        if (must && (status == 0 || weir_now() != began))
                differs(fiber, "an await returned %d, %" PRId64 " later, though it had to end early", status, weir_now() - began);
        if (status != own && !ends_with(fiber, status, false))
                differs(fiber, "an await returned %d, not %d", status, own);
}

static int
await_another(struct item *fiber)
{
        weir_nsec limit = one_in(3) ? 1 + (weir_nsec)below(WEIR_SEC(2)) : WEIR_FOREVER, began = weir_now();
        bool must = ends_early(fiber, true);
        struct item *item = make_item(fiber, 2);

        item->made = true;
        item->limit = limit == WEIR_FOREVER ? limit : began + limit;
        leave_turn();
        int status = weir_await_within(item->handle, limit);
        take_turn();
        if (item->called && status != item->status)
                differs(fiber, "an await returned %d, and its task ended with %d", status, item->status);
        check_await(fiber, began, must, status, item->called ? item->status : 0);
        return status;
}

static int
sleep_or_yield(const struct item *fiber)
{
        weir_nsec duration = one_in(2) ? 0 : 1 + (weir_nsec)below(WEIR_SEC(1)), began = weir_now();
        bool must = ends_early(fiber, true);

        leave_turn();
        int status = duration ? weir_fiber_sleep(duration) : weir_fiber_yield();
        take_turn();
        check_await(fiber, began, must, status, 0);
        if (status == 0 && weir_now() != began + duration && !flows.stopping)
                differs(fiber, "slept for %" PRId64 ", not %" PRId64, weir_now() - began, duration);
        return status;
}

static int
be_fiber(void *context)
{
        struct item *fiber = context;
        int status = 0;

        take_turn();
        for (fiber->most = (unsigned)below(5); fiber->rounds < fiber->most && has_room(); fiber->rounds++)
                status = one_in(3) ? sleep_or_yield(fiber) : await_another(fiber);
        fiber->result = status;
        leave_turn();
        return status;
}

static weir_task *
make_handle(struct item *item, unsigned depth)
{
        switch (item->kind) {
        case TIMER: return weir_timer_new(item->after, called, item);
        case EMPTY: return weir_empty_new(called, item);
        case FUNCTION: return weir_go_new(NULL, fail, called, item);
        case FAILING: return make_failing(item);
        case PARALLEL:
        case RACE: return make_family(item, depth);
        case GRAPH: return make_graph(item, depth);
        case MODULE: return weir_module_new(make_line(item, depth)->handle, called, item);
        case DYNAMIC: item->most = (unsigned)below(8) > 0; return weir_dynamic_new(make_one, called, item);
        case FIBER: return weir_fiber_new(be_fiber, called, item);
        case REPEATER: item->most = (unsigned)below(5); return weir_repeater_new(make_one, called, item);
        default: return make_retry(item);
        }
}

static struct item *
make_item(struct item *parent, unsigned depth)
{
        enum kind kind = depth > 3 || !has_room() || one_in(2) ? (enum kind)below(FAILING + 1) : (enum kind)below(KINDS);
        struct item *item = new_item(kind == FUNCTION && !flows.functions ? TIMER : kind, parent);

        flows.kinds[item->kind]++;
        item->after = one_in(4) ? WEIR_MSEC(100) : (weir_nsec)below(UINT64_C(1) << below(32)) + 1;
        item->fails = one_in(3);
        item->handle = make_handle(item, depth);
        weir_task_on_free(item->handle, freed);
        return item;
}

/* -- acts -- */

static struct line *
draw_line(void)
{
        for (unsigned i = 0; i < 8 && flows.lines; i++) {
                struct line *line = &flows.line[below(flows.lines)];

                if (!line->ended && line->live)
                        return line;
        }
        return NULL;
}

static void
act(void)
{
        struct line *line = one_in(12) ? draw_line() : NULL;

        if (!line || flows.stopping)
                return;
        if (one_in(2)) {
                if (!line->stopped)
                        line->stopped_at = weir_now();
                line->stopped = true;
                weir_series_cancel(line->handle);
        } else if (line->deadline > weir_now()) {
                weir_nsec limit = one_in(6) ? WEIR_FOREVER : 1 + (weir_nsec)below(WEIR_SEC(3));

                if (weir_series_set_deadline(line->handle, limit) == 0)
                        line->deadline = limit == WEIR_FOREVER ? limit : weir_now() + limit;
        }
}

/* -- events -- */

/* A child that is a task has ended: the status of its combinator, as far as it is known. */
static void
tell_parent(const struct item *item)
{
        struct item *parent = item->parent;

        if (!parent || item->line || item->made)
                return;
        if (parent->kind == RACE && item->called && item->status == 0) {
                if (!parent->won)
                        parent->won_at = weir_now();
                parent->won = true;
                parent->status = 0;
        }
        for (const struct item *child = parent->first; child; child = child->next)
                if (child == item && parent->kind == RACE && !parent->won && !parent->status)
                        parent->status = item->status;
}

/* The first non-zero status among the children, in order of adding, is not known where some are series: then any of theirs. */
static bool
family_status_fits(const struct item *item, int status)
{
        for (const struct item *child = item->first; child; child = child->next)
                if (child->status && child->status == status)
                        return true;
        for (unsigned i = 0; i < flows.lines; i++)
                if (flows.line[i].owner == item && flows.line[i].status == status && status)
                        return true;
        return status == item->status;
}

static void
call_back(weir_task *handle, struct item *item)
{
        int status = weir_task_status(handle);

        flows.callbacks++;
        note(((uint64_t)item->number << 16) ^ (uint16_t)status);
        check_order(item);
        if (item->kind == PARALLEL || item->kind == GRAPH || (item->kind == RACE && !item->won)) {
                if (!family_status_fits(item, status) && !ends_with(item, status, false))
                        differs(item, "ended with %d, which none of its children did", status);
                if (status == 0 && item->status == 0)
                        for (const struct item *child = item->first; child; child = child->next)
                                if (child->called && child->status)
                                        differs(item, "ended with 0, its child %u with %d", child->number, child->status);
                item->status = status;
        }
        if (item->kind == RETRY && weir_retry_attempts(handle) != (int)item->rounds)
                differs(item, "%d attempts were %u", weir_retry_attempts(handle), item->rounds);
        check_status(item, status);
        item->status = status;
        item->called = true;
        act();
        if (item->line && !item->line->stopped && one_in(16) && has_room() && !flows.stopping)
                push(item->line, make_item(item->line->owner, 3));
}

static void
called(weir_task *handle, void *context)
{
        take_turn();
        call_back(handle, context);
        leave_turn();
}

static void
note_free(struct item *item)
{
        const struct item *parent = item->parent;

        note(item->number);
        if (item->freed)
                differs(item, "freed twice");
        flows.dropped += !item->called;
        if (!item->called && !ends_early(item, false) && !(parent && is_dropped(parent)) && !is_spared(item))
                differs(item, "dropped, for no reason");
        item->freed = true;
        item->ended = weir_now();
        if (!item->called)
                item->status = 0;
        if (item->line)
                item->line->live--;
        if (item->parent)
                item->parent->live--;
        tell_parent(item);
}

static void
freed(void *context)
{
        take_turn();
        note_free(context);
        leave_turn();
}

/* -- lives -- */

static void
start_flow(void)
{
        if (one_in(2))
                weir_series_start(make_line(NULL, 0)->handle);
        else
                weir_task_start(make_item(NULL, 0)->handle);
}

static void
check_all_over(void)
{
        for (unsigned i = 0; i < flows.items; i++)
                if (!flows.item[i].freed)
                        differs(&flows.item[i], "never freed");
        for (unsigned i = 0; i < flows.lines; i++)
                weir_series_unref(flows.line[i].handle);
        if (blocks)
                differs(NULL, "%" PRId64 " blocks are left", (int64_t)blocks);
}

static void
begin(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        if (weir_init(&config) != 0)
                differs(NULL, "weir_init failed");
}

/* On the worker, so that nothing else happens meanwhile. */
static void
conduct(weir_task *unused, void *context)
{
        (void)unused;
        take_turn();
        act();
        if (flows.to_start > 0 && has_room() && !flows.stopping) {
                flows.to_start--;
                start_flow();
                weir_task_start(weir_timer_new((weir_nsec)below(WEIR_MSEC(300)), conduct, context));
        }
        leave_turn();
}

static void
live(void)
{
        bool to_the_end = one_in(2);

        flows.items = flows.lines = 0;
        flows.stopping = false;
        begin();
        flows.to_start = 1 + (unsigned)below(40);
        weir_nsec until = weir_now() + (to_the_end ? WEIR_SEC(100000) : (weir_nsec)below(WEIR_SEC(8)));
        weir_task_start(weir_timer_new(1, conduct, NULL));
        if (weir_clock_run_until(until) != 0)
                differs(NULL, "time does not pass");
        take_turn();
        for (unsigned i = 0; i < flows.items && to_the_end; i++)
                if (!flows.item[i].freed)
                        differs(&flows.item[i], "not at its end");
        flows.stopping = true;
        leave_turn();
        if (weir_shutdown() != 0)
                differs(NULL, "weir_shutdown failed");
        check_all_over();
}

static void
run(uint64_t seed, uint64_t lives, bool functions)
{
        memset(&flows, 0, offsetof(typeof(flows), item));
        flows.seed = seed;
        flows.random.state = seed;
        flows.functions = functions;
        for (flows.life = 0; flows.life < lives; flows.life++)
                live();
}

/* -- tests -- */

#define LIVES (WEIR_TEST_SANITIZED ? 100 : 1200)

static void
flows_of_all_kinds_keep_the_rules(void)
{
        run(weir_test_seed(), LIVES, false);
        for (unsigned kind = 0; kind < KINDS; kind++)
                CU_ASSERT(kind == FUNCTION || flows.kinds[kind] > LIVES / 10);
        CU_ASSERT(flows.callbacks > LIVES);
        CU_ASSERT(flows.dropped > 0);
}

static void
and_so_with_functions_on_other_threads(void)
{
        run(weir_test_seed(), LIVES / 4, true);
        CU_ASSERT(flows.kinds[FUNCTION] > LIVES / 10);
}

static void
the_same_seed_does_the_same(void)
{
        run(weir_test_seed() + 1, LIVES / 10, false);
        uint64_t first = flows.hash;
        run(weir_test_seed() + 1, LIVES / 10, false);
        CU_ASSERT_EQUAL(first, flows.hash);
        run(weir_test_seed() + 2, LIVES / 10, false);
        CU_ASSERT_NOT_EQUAL(first, flows.hash);
}

/* As a program: one seed after the other, until it is stopped. */
static void
run_from(uint64_t seed, uint64_t lives)
{
        for (;; seed++) {
                run(seed, lives, false);
                printf("seed %" PRIu64 ": %" PRIu64 " callbacks, %" PRIu64 " dropped, %016" PRIx64 "\n", seed, flows.callbacks,
                       flows.dropped, flows.hash);
        }
}

int
main(int count, char **arguments)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(flows_of_all_kinds_keep_the_rules),
                WEIR_TEST(and_so_with_functions_on_other_threads),
                WEIR_TEST(the_same_seed_does_the_same),
        };

        pthread_mutexattr_t recursive;

        pthread_mutexattr_init(&recursive);
        pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_init(&turn, &recursive);
        if (count > 1)
                run_from(strtoull(arguments[1], NULL, 0), count > 2 ? strtoull(arguments[2], NULL, 0) : 100);
        return weir_test_main("flow_simulation", tests, sizeof tests / sizeof *tests);
}
