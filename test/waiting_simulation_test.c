/* test/waiting_simulation_test.c: random flows that wait for each other in all possible ways, from one seed on the virtual clock.
 *
 * Each callback checks whether it may come now.  In the end a check finds callbacks that did not come.  The rules:
 *   - Tasks of a flow are called back one after the other, once.  A task that is dropped, or ends with a status other than 0, has
 *     a reason for that.
 *   - A guard and an object of a pool have one holder, and the first task that asked gets it first.  No more tokens are out than
 *     a semaphore has.
 *   - Each message is received once or dropped once, in the order of sending.
 *   - A barrier lets as many tasks pass as it has places, one of them as the last.
 *   - A count, message or signal by name goes to the tasks of that name in the order of their making, as far as the result says.
 *   - Nothing is left after the shutdown, and no memory either.
 *
 *     build/test/waiting_simulation_test SEED [LIVES]     goes on from that seed
 *
 * Threads: all happens on the one worker; the main thread lets time pass. */
#include "kernel/memory/memory.h"
#include "test/fixture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#define FLOWS      160
#define STEPS      8
#define MESSAGES   4096
#define GUARDS     3
#define SEMAPHORES 2
#define CHANNELS   4
#define BARRIERS   2
#define OBJECTS    3 /* of the pool */
#define CASES      3
#define NAMES      2 /* of each one-shot kind */

enum kind { TIMER, ACQUIRE, TOKENS, TAKE, SEND, RECEIVE, SELECT, ARRIVE, COUNTER, MAILBOX, CONDITIONAL, KINDS };

static const char *const kind_names[KINDS] = {"timer",  "acquire", "tokens",  "take",    "send",       "receive",
                                              "select", "arrive",  "counter", "mailbox", "conditional"};
static const uint64_t all_tokens[SEMAPHORES] = {1, 5};
static const size_t capacities[CHANNELS] = {0, 1, 7, WEIR_UNBOUNDED}, arrivals[BARRIERS] = {2, 5};

struct message {
        unsigned channel;
        uint64_t order; /* when it was offered */
        bool received, dropped;
};

struct step {
        enum kind kind;
        struct flow *flow;
        unsigned object;
        uint64_t amount; /* of tokens; of a counter, the remaining units */
        bool called, freed, fulfilled;
        unsigned cases;
        struct {
                unsigned channel;
                struct message *message; /* NULL: it receives */
        } of[CASES];
        struct step *younger; /* of one-shots with the same name */
};

struct flow {
        unsigned number, count, at; /* `at`: the step that runs, or is about to */
        weir_series *handle;
        bool stopped, ended;
        weir_nsec deadline;
        uint64_t asked; /* when its step began */
        uint64_t held[SEMAPHORES];
        struct flow **taken; /* an object of the pool */
        struct step steps[STEPS];
};

static struct {
        uint64_t seed, life, hash, callbacks, fulfilled[KINDS], refused[KINDS], dropped;
        struct weir_test_random random;
        bool stopping;
        unsigned flows, to_start, messages;
        uint64_t order;

        weir_guard *guard[GUARDS];
        struct flow *holder[GUARDS];
        weir_semaphore *semaphore[SEMAPHORES];
        uint64_t out[SEMAPHORES];
        weir_pool *pool;
        struct flow *object[OBJECTS]; /* the flow that has taken it; NULL: none */
        weir_channel *channel[CHANNELS];
        bool closed[CHANNELS];
        uint64_t last[CHANNELS]; /* order of what was received last */
        weir_barrier *barrier[BARRIERS];
        uint64_t passed[BARRIERS], last_ones[BARRIERS];
        struct step *oldest[KINDS][NAMES], *youngest[KINDS][NAMES];

        struct flow flow[FLOWS];
        struct message message[MESSAGES];
} sim;

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

/* -- saying so -- */

__attribute__((format(printf, 2, 3), noreturn)) static void
differs(const struct flow *flow, const char *format, ...)
{
        va_list arguments;

        fprintf(stderr, "waiting: seed %" PRIu64 ", life %" PRIu64 ", at %" PRId64 ": ", sim.seed, sim.life, weir_now());
        if (flow)
                fprintf(stderr, "flow %u, step %u of %u (%s): ", flow->number, flow->at, flow->count,
                        flow->at < flow->count ? kind_names[flow->steps[flow->at].kind] : "end");
        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fputc('\n', stderr);
        fflush(stderr);
        _exit(1);
}

static void
note(uint64_t what)
{
        sim.hash = (sim.hash ^ what ^ (uint64_t)weir_now()) * 0x100000001b3;
}

static uint64_t
below(uint64_t limit)
{
        return weir_test_random_below(&sim.random, limit);
}

static bool
is_stopped(const struct flow *flow)
{
        return flow->stopped || sim.stopping || weir_now() >= flow->deadline;
}

static const char *
name_of(enum kind kind, unsigned object)
{
        static char names[8][24];
        static unsigned turn;
        char *name = names[turn++ % 8];

        snprintf(name, sizeof names[0], "%s %u", kind_names[kind], object);
        return name;
}

/* -- messages -- */

static struct message *
offer(unsigned channel)
{
        if (sim.messages == MESSAGES)
                return NULL;
        struct message *message = &sim.message[sim.messages++];

        *message = (struct message){.channel = channel};
        return message;
}

static void
drop(void *message)
{
        struct message *dropped = message;

        if (dropped->received || dropped->dropped)
                differs(NULL, "a message is dropped that was received or dropped before");
        dropped->dropped = true;
}

static void
receive(struct flow *flow, struct message *message, unsigned channel)
{
        if (!message || message->channel != channel || message->received || message->dropped)
                differs(flow, "has received what was not sent there, or was received or dropped before");
        message->received = true;
        if (!flow) /* at once, when others have received what their callbacks are still to see */
                return;
        if (message->order <= sim.last[channel])
                differs(flow, "has received message %" PRIu64 " behind %" PRIu64, message->order, sim.last[channel]);
        sim.last[channel] = message->order;
}

/* -- the rules, when a step has ended -- */

/* No task that asked before it still waits there. */
static void
expect_first_come(const struct flow *flow, const struct step *step)
{
        for (unsigned i = 0; i < sim.flows; i++) {
                const struct flow *other = &sim.flow[i];
                const struct step *waits = &other->steps[other->at];

                if (other == flow || other->ended || other->at >= other->count || is_stopped(other) ||
                    other->asked >= flow->asked)
                        continue;
                if (waits->kind == step->kind && waits->object == step->object &&
                    !(step->kind == ACQUIRE && sim.holder[step->object] == other))
                        differs(flow, "was served before flow %u, which asked first", other->number);
        }
}

static void
has_selected(weir_task *task, struct flow *flow, struct step *step, int status)
{
        int winner = weir_select_winner(task);

        if (status != 0 && status != -EPIPE) {
                if (winner >= 0)
                        differs(flow, "case %d of a select that failed with %d has won", winner, status);
                return;
        }
        if (winner < 0 || (unsigned)winner >= step->cases)
                differs(flow, "case %d of %u has won", winner, step->cases);
        unsigned channel = step->of[winner].channel;
        if (status == -EPIPE && !sim.closed[channel])
                differs(flow, "-EPIPE of a channel that is open");
        if (status == 0 && !step->of[winner].message)
                receive(flow, weir_channel_take_message(task), channel);
}

/* Some keep the object; the objects of the others go back by themselves. */
static void
has_taken(weir_task *task, struct flow *flow)
{
        struct flow **object = weir_pool_object(task);

        if (!object || *object)
                differs(flow, "has %s", object ? "an object that another flow has taken" : "no object");
        if (flow->taken || below(2) > 0)
                return;
        flow->taken = weir_pool_take_object(task);
        *object = flow;
}

static void
put_back(struct flow *flow)
{
        struct flow **object = flow->taken;

        flow->taken = NULL;
        if (!object)
                return;
        *object = NULL;
        if (weir_pool_put(sim.pool, object) != 0)
                differs(flow, "cannot put an object back");
}

static void
was_fulfilled(weir_task *task, struct flow *flow, struct step *step)
{
        switch (step->kind) {
        case ACQUIRE:
                expect_first_come(flow, step);
                if (sim.holder[step->object])
                        differs(flow, "has guard %u, which flow %u holds", step->object, sim.holder[step->object]->number);
                sim.holder[step->object] = flow;
                break;
        case TOKENS:
                expect_first_come(flow, step);
                sim.out[step->object] += step->amount;
                flow->held[step->object] += step->amount;
                if (sim.out[step->object] > all_tokens[step->object])
                        differs(flow, "%" PRIu64 " tokens are out", sim.out[step->object]);
                break;
        case TAKE:
                expect_first_come(flow, step);
                has_taken(task, flow);
                break;
        case RECEIVE:
                expect_first_come(flow, step);
                receive(flow, weir_channel_take_message(task), step->object);
                break;
        case ARRIVE:
                sim.passed[step->object]++;
                sim.last_ones[step->object] += weir_barrier_is_last(task);
                break;
        case COUNTER:
        case MAILBOX:
        case CONDITIONAL:
                if (!step->fulfilled)
                        differs(flow, "nobody has counted, sent or signalled enough");
                if (step->kind == MAILBOX && weir_mailbox_message(task) != step)
                        differs(flow, "has got another's message");
                break;
        case TIMER:
        case SEND:
        case SELECT:
        case KINDS: break;
        }
}

static void
expect_reason(const struct flow *flow, const struct step *step, int status)
{
        bool may = (status == -ECANCELED && flow->stopped) || (status == -ETIMEDOUT && weir_now() >= flow->deadline) ||
                   (status == -ESHUTDOWN && sim.stopping);

        if (status == -EPIPE)
                may = step->kind == SELECT || ((step->kind == SEND || step->kind == RECEIVE) && sim.closed[step->object]);
        if (status == -EDEADLK)
                may = step->kind == ACQUIRE && sim.holder[step->object] == flow;
        if (!may)
                differs(flow, "ends with %d for no reason", status);
}

/* -- further operations of a callback -- */

static void begin_flow(void);

static void
stop_somebody(void)
{
        struct flow *flow = sim.flows > 0 ? &sim.flow[below(sim.flows)] : NULL;

        if (!flow || flow->ended)
                return;
        flow->stopped = true;
        weir_series_cancel(flow->handle);
}

/* Gives `most` to the one-shots of that name.  Returns the number that must have been given, or SIZE_MAX if that is not known:
 * one of them was stopped, and may have been dropped already. */
static uint64_t
give(enum kind kind, unsigned object, uint64_t most)
{
        uint64_t given = 0;
        bool unsure = false;

        for (struct step *step = sim.oldest[kind][object]; step && given < most; step = step->younger) {
                if (step->freed || step->called || step->fulfilled)
                        continue;
                unsure |= is_stopped(step->flow);
                uint64_t wanted = kind == COUNTER ? step->amount : 1, part = wanted < most - given ? wanted : most - given;

                if (unsure)
                        part = 0;
                given += part;
                step->amount -= kind == COUNTER ? part : 0;
                step->fulfilled = part > 0 && (kind != COUNTER || step->amount == 0);
        }
        return unsure ? UINT64_MAX : given;
}

static bool
is_sure(enum kind kind, unsigned object)
{
        for (struct step *step = sim.oldest[kind][object]; step; step = step->younger)
                if (!step->freed && is_stopped(step->flow))
                        return false;
        return true;
}

static void
do_by_name(void)
{
        enum kind kind = COUNTER + (enum kind)below(3);
        unsigned object = (unsigned)below(NAMES);
        uint64_t most = 1 + below(4), given;

        if (!is_sure(kind, object))
                return;
        if (kind == MAILBOX) { /* one at a time, so that each gets a message of its own */
                struct step *step = sim.oldest[kind][object];

                while (step && (step->freed || step->called || step->fulfilled))
                        step = step->younger;
                most = step ? 1 : most;
                given = weir_mailbox_send_named(name_of(kind, object), step, most);
        } else if (kind == COUNTER) {
                given = weir_counter_count_named(name_of(kind, object), most);
        } else {
                given = weir_condition_signal_named(name_of(kind, object), (size_t)most);
        }
        uint64_t expected = give(kind, object, most);
        if (expected != given)
                differs(NULL, "%s has given %" PRIu64 ", not %" PRIu64, name_of(kind, object), given, expected);
        note(given);
}

static void
do_to_channel(void)
{
        unsigned channel = (unsigned)below(CHANNELS);
        struct message *message = offer(channel);
        void *taken;

        if (message && below(2) > 0) {
                message->order = ++sim.order;
                int status = weir_channel_post(sim.channel[channel], message);
                if (status != 0 && status != (sim.closed[channel] ? -EPIPE : -EAGAIN))
                        differs(NULL, "weir_channel_post: %d", status);
                message->dropped = status != 0;
        } else {
                if (message)
                        message->dropped = true; /* not used */
                if (weir_channel_poll(sim.channel[channel], &taken) == 0)
                        receive(NULL, taken, channel);
        }
        if (below(400) == 0) {
                sim.closed[channel] = true;
                weir_channel_close(sim.channel[channel]);
        }
}

static void
let_go_of_guards(struct flow *flow)
{
        for (unsigned i = 0; i < GUARDS; i++) {
                if (sim.holder[i] != flow) {
                        if (weir_guard_release(sim.guard[i], flow->handle) != -EPERM)
                                differs(flow, "has released guard %u, which it did not hold", i);
                } else if (below(2) > 0) {
                        sim.holder[i] = NULL;
                        if (weir_guard_release(sim.guard[i], flow->handle) != 0)
                                differs(flow, "cannot release guard %u, which it holds", i);
                }
        }
}

static void
give_tokens_back(struct flow *flow)
{
        for (unsigned i = 0; i < SEMAPHORES; i++) {
                uint64_t held = flow->held[i];

                flow->held[i] = 0;
                sim.out[i] -= held;
                if (held && weir_semaphore_release(sim.semaphore[i], held) != 0)
                        differs(flow, "cannot give %" PRIu64 " tokens back", held);
        }
}

static void
act(struct flow *flow)
{
        if (below(2) > 0)
                let_go_of_guards(flow);
        if (below(3) > 0)
                give_tokens_back(flow);
        if (below(2) > 0)
                put_back(flow);
        if (below(12) == 0)
                stop_somebody();
        if (below(3) == 0)
                do_by_name();
        if (below(4) == 0)
                do_to_channel();
        if (below(3) == 0)
                begin_flow();
}

/* -- steps -- */

/* The next step of the flow is about to be started. */
static void
ask(struct flow *flow)
{
        struct step *step = &flow->steps[flow->at];

        flow->asked = ++sim.order;
        if (flow->at >= flow->count)
                return;
        for (unsigned i = 0; i < step->cases; i++)
                if (step->of[i].message)
                        step->of[i].message->order = flow->asked;
}

static void
stepped(weir_task *task, void *context)
{
        struct step *step = context;
        struct flow *flow = step->flow;
        int status = weir_task_status(task);

        if (flow->ended || step != &flow->steps[flow->at] || step->called)
                differs(flow, "a callback that is not due");
        step->called = true;
        if (status == 0)
                was_fulfilled(task, flow, step);
        else
                expect_reason(flow, step, status);
        if (step->kind == SELECT)
                has_selected(task, flow, step, status);
        (status == 0 ? sim.fulfilled : sim.refused)[step->kind]++;
        sim.callbacks++;
        note(flow->number * 64 + flow->at + (uint64_t)(int64_t)status);
        flow->at++;
        if (!sim.stopping)
                act(flow);
        ask(flow);
}

static void
freed(void *context)
{
        struct step *step = context;

        if (step->freed)
                differs(step->flow, "a task is freed twice");
        step->freed = true;
        if (step->called)
                return;
        sim.dropped++;
        if (!is_stopped(step->flow))
                differs(step->flow, "a task is dropped for no reason");
}

static void
flow_ended(weir_series *series, void *context)
{
        struct flow *flow = context;
        int status = weir_series_status(series);

        if (flow->ended)
                differs(flow, "ends twice");
        for (unsigned i = 0; i < flow->count; i++)
                if (!flow->steps[i].freed)
                        differs(flow, "ends before task %u was freed", i);
        if (status != 0)
                expect_reason(flow, &(struct step){.kind = TIMER}, status);
        else if (flow->at < flow->count)
                differs(flow, "ends well, but not at its end");
        flow->ended = true;
        give_tokens_back(flow);
        put_back(flow);
        for (unsigned i = 0; i < GUARDS; i++)
                if (sim.holder[i] == flow)
                        sim.holder[i] = NULL; /* when this returns */
        note(flow->number);
}

/* -- making them -- */

static weir_task *
make_select(struct step *step)
{
        weir_task *select = weir_select_new(stepped, step);

        step->cases = 1 + (unsigned)below(CASES);
        for (unsigned i = 0; i < step->cases; i++) {
                unsigned channel = (unsigned)below(CHANNELS);

                step->of[i].channel = channel;
                step->of[i].message = below(2) > 0 ? offer(channel) : NULL;
                int index = step->of[i].message ? weir_select_send(select, sim.channel[channel], step->of[i].message)
                                                : weir_select_receive(select, sim.channel[channel]);
                if (index != (int)i)
                        differs(step->flow, "case %u of a select has index %d", i, index);
        }
        return select;
}

static weir_task *
make_one_shot(struct step *step)
{
        const char *name = name_of(step->kind, step->object %= NAMES);
        struct step **youngest = &sim.youngest[step->kind][step->object];

        *(*youngest ? &(*youngest)->younger : &sim.oldest[step->kind][step->object]) = step;
        *youngest = step;
        step->amount = 1 + below(3);
        if (step->kind == COUNTER)
                return weir_counter_new_named(name, step->amount, stepped, step);
        if (step->kind == MAILBOX)
                return weir_mailbox_new_named(name, stepped, step);
        return weir_conditional_new_named(name, weir_timer_new((weir_nsec)below(2) * WEIR_MSEC(3), NULL, NULL), stepped, step);
}

static weir_task *
make_task(struct step *step)
{
        switch (step->kind) {
        case ACQUIRE:
                step->object %= GUARDS;
                return step->object == 0 ? weir_guard_acquire_new_named("guard", stepped, step)
                                         : weir_guard_acquire_new(sim.guard[step->object], stepped, step);
        case TOKENS:
                step->object %= SEMAPHORES;
                step->amount = 1 + below(all_tokens[step->object]);
                return weir_semaphore_acquire_new(sim.semaphore[step->object], step->amount, stepped, step);
        case TAKE: step->object = 0; return weir_pool_take_new(sim.pool, stepped, step);
        case SEND:
                step->object %= CHANNELS;
                step->of[0].channel = step->object;
                step->of[0].message = offer(step->object);
                step->cases = 1;
                return weir_channel_send_new(sim.channel[step->object], step->of[0].message, stepped, step);
        case RECEIVE: step->object %= CHANNELS; return weir_channel_receive_new(sim.channel[step->object], stepped, step);
        case SELECT: return make_select(step);
        case ARRIVE: step->object %= BARRIERS; return weir_barrier_arrive_new(sim.barrier[step->object], stepped, step);
        case COUNTER:
        case MAILBOX:
        case CONDITIONAL: return make_one_shot(step);
        case TIMER:
        case KINDS: break;
        }
        return weir_timer_new((weir_nsec)below(4) * WEIR_MSEC(250), stepped, step);
}

static void
begin_flow(void)
{
        if (sim.flows == FLOWS || sim.to_start == 0 || sim.messages + STEPS * CASES > MESSAGES)
                return;
        struct flow *flow = &sim.flow[sim.flows];

        *flow = (struct flow){.number = sim.flows++, .count = 1 + (unsigned)below(STEPS), .deadline = WEIR_FOREVER};
        sim.to_start--;
        flow->handle = weir_series_ref(weir_series_new(flow_ended, flow));
        for (unsigned i = 0; i < flow->count; i++) {
                struct step *step = &flow->steps[i];

                *step = (struct step){.kind = (enum kind)below(KINDS), .flow = flow, .object = (unsigned)below(60)};
                weir_task *task = make_task(step);
                weir_task_on_free(task, freed);
                if (weir_series_push(flow->handle, task) != 0)
                        differs(flow, "a task cannot be pushed");
        }
        if (below(4) == 0) {
                weir_nsec limit = (weir_nsec)(1 + below(8)) * WEIR_MSEC(250);

                weir_series_set_deadline(flow->handle, limit);
                flow->deadline = weir_now() + limit;
        }
        ask(flow);
        if (weir_series_start(flow->handle) != 0)
                differs(flow, "cannot be started");
}

/* -- a life -- */

static void
conduct(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) != 0)
                return;
        begin_flow();
        if (below(3) == 0)
                stop_somebody();
        do_by_name();
        do_to_channel();
        if (sim.to_start > 0)
                weir_task_start(weir_timer_new((weir_nsec)below(5) * WEIR_MSEC(125), conduct, NULL));
}

static void
make_world(void)
{
        for (unsigned i = 0; i < GUARDS; i++)
                sim.guard[i] = i == 0 ? weir_guard_open("guard") : weir_guard_new();
        for (unsigned i = 0; i < SEMAPHORES; i++)
                sim.semaphore[i] = weir_semaphore_new(all_tokens[i]);
        sim.pool = weir_pool_new(NULL);
        for (unsigned i = 0; i < OBJECTS; i++)
                weir_pool_put(sim.pool, &sim.object[i]);
        for (unsigned i = 0; i < CHANNELS; i++)
                sim.channel[i] = weir_channel_new(capacities[i], drop);
        for (unsigned i = 0; i < BARRIERS; i++)
                sim.barrier[i] = weir_barrier_new(arrivals[i]);
}

static void
end_world(void)
{
        for (unsigned i = 0; i < GUARDS; i++)
                weir_guard_unref(sim.guard[i]);
        for (unsigned i = 0; i < SEMAPHORES; i++) {
                if (weir_semaphore_available(sim.semaphore[i]) != all_tokens[i])
                        differs(NULL, "semaphore %u has not all tokens back", i);
                weir_semaphore_unref(sim.semaphore[i]);
        }
        if (weir_pool_available(sim.pool) != OBJECTS)
                differs(NULL, "the pool has not all objects back");
        weir_pool_unref(sim.pool);
        for (unsigned i = 0; i < CHANNELS; i++)
                weir_channel_unref(sim.channel[i]);
        for (unsigned i = 0; i < BARRIERS; i++) {
                if (sim.passed[i] % arrivals[i] != 0 || sim.last_ones[i] != sim.passed[i] / arrivals[i])
                        differs(NULL, "%" PRIu64 " have passed barrier %u, %" PRIu64 " as the last", sim.passed[i], i,
                                sim.last_ones[i]);
                weir_barrier_unref(sim.barrier[i]);
        }
}

static void
expect_nothing_left(void)
{
        for (unsigned i = 0; i < sim.flows; i++) {
                if (!sim.flow[i].ended)
                        differs(&sim.flow[i], "has not ended");
                weir_series_unref(sim.flow[i].handle);
        }
        for (unsigned i = 0; i < sim.messages; i++)
                if (sim.message[i].received == sim.message[i].dropped)
                        differs(NULL, "message %u was %s", i, sim.message[i].received ? "received and dropped" : "lost");
        if (blocks)
                differs(NULL, "%" PRId64 " blocks are left", (int64_t)blocks);
}

static void
live(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        size_t kept = offsetof(typeof(sim), stopping);

        memset((char *)&sim + kept, 0, sizeof sim - kept);
        config.clock = WEIR_CLOCK_VIRTUAL;
        if (weir_init(&config) != 0)
                differs(NULL, "weir_init failed");
        make_world();
        sim.to_start = 1 + (unsigned)below(FLOWS);
        weir_task_start(weir_timer_new(1, conduct, NULL));
        if (weir_clock_advance((weir_nsec)below(WEIR_SEC(40))) != 0)
                differs(NULL, "time does not pass");
        sim.stopping = true;
        if (weir_shutdown() != 0)
                differs(NULL, "weir_shutdown failed");
        end_world();
        expect_nothing_left();
}

static void
run(uint64_t seed, uint64_t lives)
{
        memset(&sim, 0, sizeof sim);
        sim.seed = seed;
        sim.random.state = seed;
        for (sim.life = 0; sim.life < lives; sim.life++)
                live();
}

/* -- tests -- */

#define LIVES (WEIR_TEST_SANITIZED ? 100 : 1000)

static void
flows_that_wait_for_each_other_keep_the_rules(void)
{
        run(weir_test_seed(), LIVES);
        for (unsigned kind = 0; kind < KINDS; kind++) {
                CU_ASSERT(sim.fulfilled[kind] > LIVES / 10);
                CU_ASSERT(sim.refused[kind] > LIVES / 10);
        }
        CU_ASSERT(sim.dropped > LIVES / 10);
}

static void
the_same_seed_does_the_same(void)
{
        run(weir_test_seed() + 1, LIVES / 10);
        uint64_t first = sim.hash;
        run(weir_test_seed() + 1, LIVES / 10);
        CU_ASSERT_EQUAL(first, sim.hash);
        run(weir_test_seed() + 2, LIVES / 10);
        CU_ASSERT_NOT_EQUAL(first, sim.hash);
}

/* As a program: one seed after the other, until it is stopped. */
static void
run_from(uint64_t seed, uint64_t lives)
{
        for (;; seed++) {
                run(seed, lives);
                printf("seed %" PRIu64 ": %" PRIu64 " callbacks, %" PRIu64 " dropped, %016" PRIx64 "\n", seed, sim.callbacks,
                       sim.dropped, sim.hash);
        }
}

int
main(int count, char **arguments)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(flows_that_wait_for_each_other_keep_the_rules),
                WEIR_TEST(the_same_seed_does_the_same),
        };

        if (count > 1)
                run_from(strtoull(arguments[1], NULL, 0), count > 2 ? strtoull(arguments[2], NULL, 0) : 100);
        return weir_test_main("waiting_simulation", tests, sizeof tests / sizeof *tests);
}
