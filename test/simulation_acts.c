/* test/simulation_acts.c: the operations of the simulation, each beside the same on the model.
 *
 * Threads: the one that has the turn (simulation.c). */
#include "test/simulation_driver.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/loop/pollers.h"

#define MANY 200 /* made by one operation */

const char *const simulation_names[MODEL_NAMES] = {
        "a",        "b",   "c",        "ab",  "abc",
        "x/1",      "x/2", "x/1/deep", "y/1", "a name of more than a few bytes, which lies elsewhere",
        "\xff\x01", "z",
};
static const char *const prefixes[] = {"", "a", "x/", "x/1", "nobody", "z", "\xff"};

/* -- random choices -- */

/* Often one of a few, so that some fall together. */
static weir_nsec
draw_duration(unsigned bits)
{
        static const weir_nsec usual[] = {WEIR_USEC(1), WEIR_MSEC(1), WEIR_MSEC(10), WEIR_SEC(1)};

        if (one_in(3))
                return usual[below(4)];
        if (one_in(12))
                return one_in(2) ? 0 : -(weir_nsec)below(WEIR_SEC(1));
        return (weir_nsec)below(UINT64_C(1) << below(bits + 1)) + 1;
}

weir_nsec
simulation_draw_duration(void)
{
        return one_in(40) ? WEIR_FOREVER : draw_duration(40);
}

size_t
simulation_draw_max(void)
{
        return one_in(2) ? WEIR_ALL : (size_t)below(4);
}

/* One of those that fit, or NULL if none was found soon. */
static struct task *
draw_task(bool (*fits)(const struct task *task))
{
        for (unsigned i = 0; i < 16 && model.alive_count; i++) {
                struct task *task = model.alive[below(model.alive_count)];

                if (fits(task))
                        return task;
        }
        return NULL;
}

struct flow *
simulation_draw_flow(bool (*fits)(const struct flow *flow))
{
        for (unsigned i = 0; i < 16 && model.flow_count; i++) {
                struct flow *flow = model.kept[below(model.flow_count)];

                if (flow->handle && fits(flow))
                        return flow;
        }
        return NULL;
}

bool
simulation_has_room(unsigned count)
{
        return model.alive_count + count < simulation.limit && model.flow_count + count < MODEL_FLOWS / 2;
}

static bool
refuses(void)
{
        return model.stopping || !simulation.up;
}

void
simulation_expect(const char *what, int64_t is, int64_t least, int64_t most)
{
        if (is < least || is > most)
                simulation_differs("%s returned %" PRId64 ", should %" PRId64 " to %" PRId64, what, is, least, most);
}

/* -- making -- */

void
simulation_grain(struct task *task, weir_nsec slack)
{
        for (task->granularity = 1; task->granularity <= slack / 2; task->granularity *= 2)
                continue;
}

static void
dress(struct task *task)
{
        weir_task_on_free(task->handle, simulation_task_freed);
        if (task->kind != TIMER && task->kind != TICKER)
                return;
        simulation_grain(task, simulation.slack);
        if (one_in(6)) {
                weir_nsec slack = (weir_nsec)below(UINT64_C(1) << below(35));

                simulation_expect("set_slack", weir_timer_set_slack(task->handle, slack), 0, 0);
                simulation_grain(task, slack);
        }
        if (one_in(3))
                task->id = weir_timer_id_of(task->handle);
}

static void
make_timer(struct task *task)
{
        task->after = simulation_draw_duration();
        task->handle = task->name >= 0
                               ? weir_timer_new_named(simulation_names[task->name], task->after, simulation_task_called, task)
                               : weir_timer_new(task->after, simulation_task_called, task);
}

static void
make_ticker(struct task *task)
{
        task->policy = (enum weir_tick_policy)below(3);
        task->period = task->after = (weir_nsec)below(UINT64_C(1) << (1 + below(36))) + 1;
        task->handle = task->name >= 0 ? weir_ticker_new_named(simulation_names[task->name], task->period, task->policy,
                                                               simulation_task_called, task)
                                       : weir_ticker_new(task->period, task->policy, simulation_task_called, task);
        if (one_in(3)) {
                task->after = simulation_draw_duration();
                simulation_expect("set_first", weir_ticker_set_first(task->handle, task->after), 0, 0);
        }
        if (one_in(2)) {
                task->limit = 1 + below(20);
                simulation_expect("set_limit", weir_ticker_set_limit(task->handle, task->limit), 0, 0);
        }
}

static struct flow *make_flow(const struct actor *actor, unsigned depth);
static void push(const struct actor *actor, struct flow *flow, struct task *task, bool front);

static struct flow *
wrap(struct task *task)
{
        struct flow *flow = model_flow();

        flow->wraps = true;
        model_push(flow, task, false);
        return flow;
}

static void
add_child(const struct actor *actor, struct task *parallel, struct task *task)
{
        simulation_note(actor->where, "  adds", (int64_t)parallel->serial, (int64_t)task->serial, 0);
        (parallel->kind == RACE ? weir_race_add : weir_parallel_add)(parallel->handle, task->handle);
        model_add(parallel, wrap(task));
}

static void
add_series(const struct actor *actor, struct task *parallel, struct flow *child)
{
        simulation_note(actor->where, "  adds series", (int64_t)parallel->serial, (int64_t)child->serial, 0);
        (parallel->kind == RACE ? weir_race_add_series : weir_parallel_add_series)(parallel->handle, child->handle);
        model_add(parallel, child);
}

static struct task *
make_guard(enum kind kind)
{
        struct task *guard = model_task(kind);

        guard->handle = kind == EMPTY ? weir_empty_new(simulation_task_called, guard)
                                      : weir_timer_new(WEIR_FOREVER, simulation_task_called, guard);
        guard->after = WEIR_FOREVER;
        guard->guard = true;
        weir_task_on_free(guard->handle, simulation_task_freed);
        return guard;
}

/* The last child shows that all have been started. */
static void
make_parallel(const struct actor *actor, struct task *parallel, unsigned depth)
{
        unsigned count = (unsigned)below(4);

        parallel->handle = (parallel->kind == RACE ? weir_race_new : weir_parallel_new)(simulation_task_called, parallel);
        for (unsigned i = 0; i < count; i++) {
                if (one_in(2))
                        add_series(actor, parallel, make_flow(actor, depth + 1));
                else
                        add_child(actor, parallel, simulation_make_task(actor, depth + 1));
        }
        if (!count)
                return;
        struct task *guard = make_guard(parallel->kind == RACE ? TIMER : EMPTY);
        if (parallel->kind == RACE) { /* it must not win */
                simulation_expect("cancel of a guard", (int64_t)weir_timer_cancel_id(weir_timer_id_of(guard->handle)), 1, 1);
                model_call_off(guard);
        }
        add_child(actor, parallel, guard);
}

/* The first task of a series shows that the series has been started. */
static void
make_module(const struct actor *actor, struct task *module, unsigned depth)
{
        struct flow *flow = make_flow(actor, depth + 1);

        push(actor, flow, make_guard(EMPTY), true);
        simulation_note(actor->where, "  is of series", (int64_t)module->serial, (int64_t)flow->serial, 0);
        module->handle = weir_module_new(flow->handle, simulation_task_called, module);
        model_add(module, flow);
}

static void
make_fiber(struct task *task)
{
        if (!model_make_fiber(task))
                simulation_differs("there is no room for a fiber");
        task->handle = weir_fiber_new(simulation_fiber, simulation_task_called, task);
}

static struct task *
make_kind(const struct actor *actor, enum kind kind, unsigned depth)
{
        static const char *const what[] = {"makes timer", "makes ticker", "makes empty", "makes parallel",
                                           "makes race",  "makes module", "makes fiber"};
        struct task *task = model_task(kind);

        if ((kind == TIMER || kind == TICKER) && one_in(2))
                task->name = (int)below(MODEL_NAMES);
        switch (kind) {
        case TIMER: make_timer(task); break;
        case TICKER: make_ticker(task); break;
        case EMPTY: task->handle = weir_empty_new(simulation_task_called, task); break;
        case PARALLEL:
        case RACE: make_parallel(actor, task, depth); break;
        case MODULE: make_module(actor, task, depth); break;
        case FIBER: make_fiber(task); break;
        }
        dress(task);
        simulation_note(actor->where, what[kind], (int64_t)task->serial, kind == TICKER ? task->period : task->after, task->name);
        return task;
}

struct task *
simulation_make_task(const struct actor *actor, unsigned depth)
{
        static const enum kind kinds[] = {TIMER, TIMER, TIMER, TIMER, TICKER, EMPTY, PARALLEL, RACE, MODULE, FIBER, FIBER};

        return make_kind(actor, kinds[below(depth < 3 ? 11 : 6)], depth);
}

/* -- pushing -- */

static void
push(const struct actor *actor, struct flow *flow, struct task *task, bool front)
{
        unsigned soon = model.soon;
        bool stale = flow->place == FLOW_ENDED || flow->place == FLOW_ENDING;
        int is;

        simulation_note(actor->where, front ? "pushes in front" : "pushes", (int64_t)flow->serial, (int64_t)task->serial, stale);
        if (stale)
                model_drop(task);
        is = (front ? weir_series_push_front : weir_series_push)(flow->handle, task->handle);
        simulation_expect("push", is, stale ? -ESTALE : 0, stale ? -ESTALE : 0);
        if (!stale)
                model_push(flow, task, front);
        else if (model.soon != soon)
                simulation_differs("what was pushed too late was not freed");
}

static struct flow *
make_flow(const struct actor *actor, unsigned depth)
{
        struct flow *flow = model_flow();
        unsigned count = (unsigned)below(5);

        flow->handle = weir_series_ref(weir_series_new(simulation_flow_called, flow));
        flow->kept++;
        flow->has_callback = true;
        simulation_note(actor->where, "makes series", (int64_t)flow->serial, count, 0);
        for (unsigned i = 0; i < count; i++)
                push(actor, flow, simulation_make_task(actor, depth), one_in(4));
        return flow;
}

/* Of some it is not known whether a worker has come to them. */
static bool
takes_push(const struct flow *flow)
{
        return !flow->stepping && !model_is_vague(flow);
}

static void
act_push(const struct actor *actor)
{
        struct flow *flow = simulation_has_room(20) ? simulation_draw_flow(takes_push) : NULL;

        if (!flow)
                return;
        push(actor, flow, simulation_make_task(actor, 1), one_in(4) && !model.starting && !(flow->first && flow->first->guard));
}

static void
act_push_wrong(const struct actor *actor)
{
        struct flow *flow = simulation_draw_flow(takes_push);

        if (!flow || !one_in(4))
                return;
        bool stale = flow->place == FLOW_ENDED || flow->place == FLOW_ENDING;
        int should = stale ? -ESTALE : -EINVAL, is = weir_series_push(flow->handle, weir_timer_new_named("", 1, NULL, NULL));
        simulation_note(actor->where, "pushes wrong one", (int64_t)flow->serial, is, 0);
        simulation_expect("push", is, should, should);
        if (!stale && !flow->poison)
                flow->poison = -EINVAL;
}

/* -- starting and dismissing -- */

static void
start(const struct actor *actor, struct task *task)
{
        unsigned soon = model.soon;
        bool refused = refuses();

        if (refused)
                model_drop(task);
        simulation_note(actor->where, "starts", (int64_t)task->serial, refused, 0);
        int is = weir_task_start(task->handle), should = refused ? -ESHUTDOWN : 0;
        simulation_expect("start", is, should, should);
        if (!refused)
                model_start(task);
        else if (model.soon != soon)
                simulation_differs("what was refused was not freed");
}

static void
start_flow(const struct actor *actor, struct flow *flow)
{
        unsigned soon = model.soon;
        int should = flow->poison ? flow->poison : refuses() ? -ESHUTDOWN : 0;

        if (should)
                model_drop_flow(flow, NULL);
        simulation_note(actor->where, "starts series", (int64_t)flow->serial, should, 0);
        int is = weir_series_start(flow->handle);
        simulation_expect("start of a series", is, should, should);
        if (!should)
                model_start_flow(flow);
        else if (model.soon != soon)
                simulation_differs("what was refused was not freed");
}

static void
act_start(const struct actor *actor)
{
        if (simulation_has_room(20))
                start(actor, simulation_make_task(actor, 0));
}

static void
act_start_series(const struct actor *actor)
{
        if (simulation_has_room(40))
                start_flow(actor, make_flow(actor, 0));
}

static void
act_start_many(const struct actor *actor)
{
        if (!simulation_has_room(MANY + 20))
                return;
        for (uint64_t i = below(MANY); i > 0; i--)
                start(actor, make_kind(actor, TIMER, 0));
}

static void
act_hold(const struct actor *actor)
{
        if (!simulation_has_room(40))
                return;
        if (one_in(2))
                simulation_make_task(actor, 0);
        else
                make_flow(actor, 0);
}

static bool
is_held(const struct task *task)
{
        return task->place == HELD;
}

static bool
flow_is_held(const struct flow *flow)
{
        return flow->place == FLOW_HELD;
}

static void
dismiss(const struct actor *actor, struct task *task)
{
        unsigned soon = model.soon;

        model_drop(task);
        simulation_note(actor->where, "dismisses", (int64_t)task->serial, 0, 0);
        weir_task_dismiss(task->handle);
        if (model.soon != soon)
                simulation_differs("what was dismissed was not freed");
}

static void
dismiss_flow(const struct actor *actor, struct flow *flow)
{
        unsigned soon = model.soon;

        model_drop_flow(flow, NULL);
        simulation_note(actor->where, "dismisses series", (int64_t)flow->serial, 0, 0);
        weir_series_dismiss(flow->handle);
        if (model.soon != soon)
                simulation_differs("what was dismissed was not freed");
}

static void
act_use_held(const struct actor *actor)
{
        struct task *task = one_in(2) ? draw_task(is_held) : NULL;
        struct flow *flow = task ? NULL : simulation_draw_flow(flow_is_held);

        if (task && one_in(3))
                dismiss(actor, task);
        else if (task)
                start(actor, task);
        else if (flow && one_in(3))
                dismiss_flow(actor, flow);
        else if (flow)
                start_flow(actor, flow);
}

static void
act_run_on_worker(const struct actor *actor)
{
        struct task *task = actor->where == 'w' && one_in(4) ? draw_task(is_held) : NULL;
        unsigned soon = model.soon;

        if (!task)
                return;
        model_drop(task);
        int is = weir_task_run(task->handle);
        simulation_note(actor->where, "runs on worker", (int64_t)task->serial, is, 0);
        simulation_expect("run", is, -EDEADLK, -EDEADLK);
        if (model.soon != soon)
                simulation_differs("what was refused was not freed");
}

void
simulation_start_pulse(const struct actor *actor)
{
        if (refuses())
                return;
        struct task *task = model_task(TIMER);
        task->pulse = true;
        task->after = (weir_nsec)below(UINT64_C(1) << below(37)) + 1;
        task->handle = weir_timer_new(task->after, simulation_task_called, task);
        weir_task_on_free(task->handle, simulation_task_freed);
        simulation_grain(task, simulation.slack);
        start(actor, task);
}

/* -- cancelling -- */

static bool
begins_with(int name, const char *prefix)
{
        return strncmp(simulation_names[name], prefix, strlen(prefix)) == 0;
}

static void
act_cancel(const struct actor *actor)
{
        int name = (int)below(MODEL_NAMES);
        size_t max = simulation_draw_max(), is, should = 0;

        for (unsigned i = 0; i < model.alive_count && should < max; i++) {
                struct task *task = model.alive[i];

                if (task->name != name || !model_can_cancel(task))
                        continue;
                model_call_off(task);
                should++;
        }
        is = actor->where == 'm' ? (size_t)weir_timer_cancel_wait(simulation_names[name], max)
                                 : weir_timer_cancel(simulation_names[name], max);
        simulation_note(actor->where, "cancels", name, (int64_t)max, (int64_t)is);
        simulation_expect("cancel", (int64_t)is, (int64_t)should, (int64_t)should);
}

static void
act_cancel_prefix(const struct actor *actor)
{
        const char *prefix = prefixes[below(sizeof prefixes / sizeof *prefixes)];
        size_t is, should = 0;

        if (!one_in(8))
                return;
        for (unsigned i = 0; i < model.alive_count; i++) {
                struct task *task = model.alive[i];

                if (task->name < 0 || !begins_with(task->name, prefix) || !model_can_cancel(task))
                        continue;
                model_call_off(task);
                should++;
        }
        is = weir_timer_cancel_prefix(prefix, WEIR_ALL);
        simulation_note(actor->where, "cancels prefix", (int64_t)strlen(prefix), 0, (int64_t)is);
        simulation_expect("cancel by prefix", (int64_t)is, (int64_t)should, (int64_t)should);
}

static bool
has_id(const struct task *task)
{
        return task->id;
}

static void
act_cancel_id(const struct actor *actor)
{
        struct task *task = draw_task(has_id);
        size_t is, should;

        if (!task)
                return;
        should = model_can_cancel(task);
        is = weir_timer_cancel_id(task->id);
        simulation_note(actor->where, "cancels id", (int64_t)task->serial, 0, (int64_t)is);
        /* A timer that its series has cancelled may still be found or not. */
        simulation_expect("cancel by id", (int64_t)is, should && !task->id_unsure && task->place != SOON, (int64_t)should);
        if (is)
                model_call_off(task);
}

static bool
is_clear(const struct flow *flow)
{
        return !model_is_vague(flow);
}

static void
act_cancel_series(const struct actor *actor)
{
        struct flow *flow = model.starting ? NULL : simulation_draw_flow(is_clear);

        if (!flow || !one_in(2))
                return;
        simulation_note(actor->where, "cancels series", (int64_t)flow->serial, flow->place, 0);
        weir_series_cancel(flow->handle);
        model_stop_flow(flow, -ECANCELED);
}

/* -- resetting -- */

static void
act_reset(const struct actor *actor)
{
        int name = (int)below(MODEL_NAMES);
        bool extends = one_in(2) && !model.starting, may; /* what is not started yet would be extended differently */
        weir_nsec by = extends && one_in(3) ? -draw_duration(36) : simulation_draw_duration();
        int64_t is, least = 0, most = 0;

        simulation_note(actor->where, extends ? "extends" : "resets", name, by, 0);
        for (unsigned i = 0; i < model.alive_count; i++) {
                struct task *task = model.alive[i];

                if (task->name != name)
                        continue;
                bool must = model_can_reset(task, &may);
                least += must;
                most += must || may;
                if (must || may)
                        (extends ? model_extend : model_reset)(task, by);
        }
        is = (int64_t)(extends ? weir_timer_extend : weir_timer_reset)(simulation_names[name], by);
        simulation_expect(extends ? "extend" : "reset", is, least, most);
}

static void
act_reset_id(const struct actor *actor)
{
        struct task *task = draw_task(has_id);
        bool extends = one_in(2) && !model.starting;
        weir_nsec by = extends && one_in(3) ? -draw_duration(36) : simulation_draw_duration();
        bool may = false, must = task && model_can_reset(task, &may);

        if (!task)
                return;
        int64_t is = (int64_t)(extends ? weir_timer_extend_id : weir_timer_reset_id)(task->id, by);
        simulation_note(actor->where, extends ? "extends id" : "resets id", (int64_t)task->serial, by, is);
        simulation_expect(extends ? "extend by id" : "reset by id", is, must && !task->id_unsure, must || may);
        if (is)
                (extends ? model_extend : model_reset)(task, by);
}

/* -- looking -- */

static void
act_count(const struct actor *actor)
{
        int name = (int)below(MODEL_NAMES);
        int64_t is = (int64_t)weir_timer_count(simulation_names[name]), should = 0;

        for (unsigned i = 0; i < model.alive_count; i++)
                should += model.alive[i]->name == name && model_is_listed(model.alive[i]);
        simulation_note(actor->where, "counts", name, is, 0);
        simulation_expect("count", is, should, should);
}

struct look {
        unsigned next[MODEL_NAMES]; /* in model.alive */
        int64_t count;
};

static bool
state_fits(const struct task *task, enum weir_timer_state state)
{
        switch (task->place) {
        case HELD: return state == WEIR_TIMER_NEW;
        case QUEUED:
        case DROPPED: return state == WEIR_TIMER_NEW;
        case RUNNING: return state == WEIR_TIMER_RUNNING;
        case PENDING:
                return state == WEIR_TIMER_PENDING ||
                       (state == WEIR_TIMER_READY && (task->earliest <= model.now || model.stopping)) ||
                       (state == WEIR_TIMER_NEW && task->vague && model.starting);
        default: return true;
        }
}

static bool
due_fits(const struct task *task, const struct weir_timer_info *info)
{
        if (task->place == HELD || task->place == QUEUED)
                return info->due_in == task->after;
        if (task->place != PENDING || task->touched || info->state == WEIR_TIMER_NEW)
                return true;
        if (info->since > model.now || task->latest == WEIR_FOREVER)
                return info->since <= model.now;
        return info->due_in >= task->earliest - model.now && info->due_in <= task->latest - model.now;
}

static int
look_at(const struct weir_timer_info *info, void *context)
{
        struct look *look = context;
        int name = 0;

        while (name < MODEL_NAMES && strcmp(simulation_names[name], info->name) != 0)
                name++;
        if (name == MODEL_NAMES)
                simulation_differs("a name is listed that there is not");
        unsigned *next = &look->next[name];
        while (*next < model.alive_count && (model.alive[*next]->name != name || !model_is_listed(model.alive[*next])))
                ++*next;
        if (*next == model.alive_count)
                simulation_differs("more timers are listed of name %d than there are", name);
        const struct task *task = model.alive[(*next)++];
        if (!state_fits(task, info->state) || !due_fits(task, info))
                simulation_differs("task %" PRIu64 " is listed in state %d, due in %" PRId64 ", is in place %d, due at %" PRId64,
                                   task->serial, info->state, info->due_in, task->place, task->latest);
        look->count++;
        return 0;
}

static void
act_list(const struct actor *actor)
{
        const char *prefix = prefixes[below(sizeof prefixes / sizeof *prefixes)];
        struct look look = {0};
        int64_t is, should = 0;

        if (!one_in(16))
                return;
        for (unsigned i = 0; i < model.alive_count; i++)
                should += model_is_listed(model.alive[i]) && begins_with(model.alive[i]->name, prefix);
        is = weir_timer_list(prefix, look_at, &look);
        simulation_note(actor->where, "lists", (int64_t)strlen(prefix), is, should);
        simulation_expect("list", is, should, should);
        simulation_expect("visits", look.count, should, should);
}

static bool
has_ended(const struct flow *flow)
{
        return flow->place == FLOW_ENDED && !model_is_vague(flow);
}

static void
forget(struct flow *flow)
{
        weir_series_unref(flow->handle);
        flow->handle = NULL;
        model_flow_let_go(flow);
}

static void
act_forget_series(const struct actor *actor)
{
        for (unsigned i = 0; i < 8; i++) {
                struct flow *flow = simulation_draw_flow(has_ended);

                if (!flow)
                        return;
                simulation_note(actor->where, "forgets series", (int64_t)flow->serial, 0, 0);
                forget(flow);
        }
}

/* -- operations inside callbacks -- */

/* The callback is slow. */
static void
act_pass(const struct actor *actor)
{
        weir_nsec by = draw_duration(34);

        if (actor->where != 'w' || model.starting || by <= 0 || !one_in(2))
                return;
        simulation_note(actor->where, "takes", by, 0, 0);
        atomic_fetch_add(&weir__clock.virtual_instant, by);
        model.now += by;
}

static void
act_stop(const struct actor *actor)
{
        if (!actor->self || actor->where != 'w')
                return;
        int is = weir_ticker_stop(actor->handle), should = actor->self->kind != TICKER ? -EDOM
                                                           : actor->self->ticking      ? 0
                                                                                       : -EINVAL;
        simulation_note(actor->where, "stops", (int64_t)actor->self->serial, is, 0);
        simulation_expect("stop", is, should, should);
        actor->self->stopped |= !is;
}

/* The series of a task that was started alone is made, and kept. */
static void
act_push_own(const struct actor *actor)
{
        if (!actor->self || actor->self->pulse || actor->where != 'w' || !simulation_has_room(20))
                return;
        struct flow *flow = model_flow_of(actor->self);
        weir_series *series = weir_series_of(actor->handle);
        if (!flow->handle) {
                flow->handle = weir_series_ref(series);
                flow->kept++;
        }
        if (flow->handle != series)
                simulation_differs("task %" PRIu64 " is in another series", actor->self->serial);
        push(actor, flow, simulation_make_task(actor, 1), one_in(2) && !model.starting);
}

static void
act_foreign(const struct actor *actor)
{
        if (actor->where != 'w' || refuses() || !one_in(16)) /* it may be shutting down */
                return;
        simulation.foreign = FOREIGN_ACT;
        sem_post(&simulation.ask);
        sem_wait(&simulation.done);
}

/* When this returns the runtime is ending, and the order to end what is pending is the last thing in its worker's inbox. */
static void
act_shutdown(const struct actor *actor)
{
        struct weir__poller *poller = weir__poller_at(0);
        struct weir__work *last = atomic_load(&poller->inbox.head);

        if (actor->where != 'w' || refuses() || model.starting || simulation.step < simulation.life_ends_at)
                return;
        simulation_note(actor->where, "shuts down", 0, 0, 0);
        simulation.foreign = FOREIGN_SHUTDOWN;
        sem_post(&simulation.ask);
        while (atomic_load(&poller->inbox.head) == last)
                sched_yield();
        model.stopping = true;
}

void
simulation_put_away(void)
{
        const struct actor actor = {.where = 'm'};

        for (unsigned i = model.alive_count; i-- > 0;)
                if (i < model.alive_count && model.alive[i]->place == HELD)
                        dismiss(&actor, model.alive[i]);
        for (unsigned i = model.flow_count; i-- > 0;) {
                if (model.kept[i]->place == FLOW_HELD)
                        dismiss_flow(&actor, model.kept[i]);
        }
        for (unsigned i = model.flow_count; i-- > 0;)
                if (i < model.flow_count && model.kept[i]->handle)
                        forget(model.kept[i]);
}

/* -- one of them -- */

static const struct {
        const char *name;
        void (*act)(const struct actor *actor);
        unsigned weight;
} acts[] = {
        {"shutdown", act_shutdown, 1},
        {"start", act_start, 12},
        {"start_series", act_start_series, 3},
        {"start_many", act_start_many, 1},
        {"hold", act_hold, 3},
        {"use_held", act_use_held, 5},
        {"run_on_worker", act_run_on_worker, 1},
        {"push", act_push, 3},
        {"push_wrong", act_push_wrong, 1},
        {"push_own", act_push_own, 2},
        {"cancel", act_cancel, 4},
        {"cancel_prefix", act_cancel_prefix, 1},
        {"cancel_id", act_cancel_id, 3},
        {"cancel_series", act_cancel_series, 3},
        {"reset", act_reset, 6},
        {"reset_id", act_reset_id, 4},
        {"count", act_count, 2},
        {"list", act_list, 1},
        {"name_series", simulation_act_name_series, 4},
        {"cancel_named", simulation_act_cancel_named, 3},
        {"count_series", simulation_act_count_series, 1},
        {"limit_series", simulation_act_limit_series, 5},
        {"ask_series", simulation_act_ask_series, 3},
        {"forget_series", act_forget_series, 3},
        {"pass", act_pass, 3},
        {"stop", act_stop, 5},
        {"foreign", act_foreign, 1},
};

#define ACTS (sizeof acts / sizeof *acts)

const char *
simulation_kind(unsigned number)
{
        return number < ACTS ? acts[number].name : NULL;
}

void
simulation_act(const struct actor *actor)
{
        static unsigned total;
        unsigned which = 0;

        if (!total)
                for (unsigned i = 0; i < ACTS; i++)
                        total += acts[i].weight;
        uint64_t drawn = below(total);
        while (drawn >= acts[which].weight)
                drawn -= acts[which++].weight;
        if (simulation.setup.without >> which & 1)
                return;
        uint64_t events = simulation.events;
        simulation.step++;
        acts[which].act(actor);
        simulation.step -= simulation.events == events; /* nothing was there to do it to */
}
