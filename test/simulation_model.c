/* test/simulation_model.c: the plain model.
 *
 *      HELD --push, add--> QUEUED --its turn--.     .--> RUNNING --> ENDED --> NOWHERE
 *         `------------------start------------+--> PENDING, SOON or WAITING
 *      HELD, QUEUED --dismissed, refused, series cancelled--> DROPPED --> NOWHERE
 *
 * `soon` counts tasks that are SOON or DROPPED and series that are about to end: while there are any, time must stand. */
#include "test/simulation_model.h"

#include <errno.h>
#include <string.h>

struct model model;

void
model_begin(void)
{
        memset(&model, 0, sizeof model);
}

static void
set_place(struct task *task, enum place place)
{
        model.soon -= task->place == SOON || task->place == DROPPED;
        task->place = place;
        model.soon += task->place == SOON || task->place == DROPPED;
}

/* -- making and freeing -- */

struct task *
model_task(enum kind kind)
{
        if (model.alive_count == MODEL_TASKS)
                return NULL;
        while (model.tasks[model.next_task].place != NOWHERE)
                model.next_task = (model.next_task + 1) % MODEL_TASKS;
        struct task *task = &model.tasks[model.next_task];
        model.next_task = (model.next_task + 1) % MODEL_TASKS;
        *task = (struct task){.kind = kind, .place = HELD, .serial = ++model.serials, .name = -1, .granularity = 1, .winner = -1};
        model.alive[model.alive_count++] = task;
        return task;
}

struct flow *
model_flow(void)
{
        if (model.flow_count == MODEL_FLOWS)
                return NULL;
        while (model.flows[model.next_flow].place != FLOW_NOWHERE)
                model.next_flow = (model.next_flow + 1) % MODEL_FLOWS;
        struct flow *flow = &model.flows[model.next_flow];
        model.next_flow = (model.next_flow + 1) % MODEL_FLOWS;
        *flow = (struct flow){.place = FLOW_HELD,
                              .serial = ++model.serials,
                              .kept = 1,
                              .index = model.flow_count,
                              .name = -1,
                              .deadline = WEIR_FOREVER};
        model.kept[model.flow_count++] = flow;
        return flow;
}

void
model_flow_let_go(struct flow *flow)
{
        if (--flow->kept > 0)
                return;
        flow->place = FLOW_NOWHERE;
        model.kept[flow->index] = model.kept[--model.flow_count];
        model.kept[flow->index]->index = flow->index;
}

void
model_freed(struct task *task)
{
        unsigned i = 0;

        while (model.alive[i] != task)
                i++;
        memmove(&model.alive[i], &model.alive[i + 1], (--model.alive_count - i) * sizeof *model.alive);
        set_place(task, NOWHERE);
        if (task->own)
                model_freed(task->own);
}

static void
let_children_go(struct task *parallel)
{
        for (struct flow *child = parallel->children, *next; child; child = next) {
                next = child->sibling;
                model_flow_let_go(child);
        }
        parallel->children = NULL;
}

static void
drop(struct task *task, const struct flow *by)
{
        set_place(task, DROPPED);
        task->flow = NULL;
        task->dropped_by = by;
        for (struct flow *child = task->children; child; child = child->sibling)
                model_drop_flow(child, by);
        let_children_go(task);
}

static void
drop_queue(struct flow *flow, const struct flow *by)
{
        for (struct task *task = flow->first, *next; task; task = next) {
                next = task->next;
                drop(task, by);
        }
        flow->first = flow->last = NULL;
}

void
model_drop_flow(struct flow *flow, const struct flow *by)
{
        drop_queue(flow, by);
        flow->dropped_by = by;
        flow->place = FLOW_ENDED;
        flow->parallel = NULL;
        model_flow_let_go(flow);
}

void
model_drop(struct task *task)
{
        drop(task, NULL);
}

/* -- deadlines -- */

weir_nsec
model_put_off(weir_nsec instant, weir_nsec by)
{
        if (instant == WEIR_FOREVER || (by > 0 && instant > WEIR_FOREVER - by))
                return WEIR_FOREVER;
        return by < 0 && instant < INT64_MIN - by ? INT64_MIN : instant + by;
}

static weir_nsec
rounded(const struct task *task, weir_nsec deadline)
{
        if (deadline <= model.now || deadline > WEIR_FOREVER - task->granularity)
                return deadline;
        return deadline % task->granularity ? deadline + task->granularity - deadline % task->granularity : deadline;
}

/* One that was due may have been about to begin: it gets its deadline when a worker comes to it, and is rounded then, unless that
 * has passed meanwhile. */
static void
set_deadline(struct task *task, weir_nsec earliest, weir_nsec latest, bool unsure)
{
        weir_nsec before = task->earliest;

        task->latest = rounded(task, latest);
        task->earliest = unsure ? earliest : task->latest;
        if (model.stopping && task->place == PENDING && before < task->earliest)
                task->earliest = before;
        task->order = ++model.orders;
        task->set_at = model.now;
        task->vague = model.starting > 0;
        task->waits_for_jump = unsure ? model.jumps + 1 : 0;
}

/* A deadline is not brought further back than to the present. */
static weir_nsec
moved(weir_nsec deadline, weir_nsec by)
{
        weir_nsec moved_to = model_put_off(deadline, by), least = deadline < model.now ? deadline : model.now;

        return moved_to > least ? moved_to : least;
}

/* Whether it may wait for a worker, because it is due or was. */
static bool
may_be_ready(const struct task *task)
{
        return task->earliest <= model.now || task->waits_for_jump > model.jumps;
}

static void
pend(struct task *task, weir_nsec due)
{
        task->due = due;
        set_deadline(task, due, due, false);
        set_place(task, PENDING);
}

void
model_reset(struct task *task, weir_nsec after)
{
        weir_nsec deadline = after > 0 ? model_put_off(model.now, after) : model.now;

        task->touched |= model.stopping && task->place != HELD && task->place != QUEUED;
        if (task->kind == TICKER && after > 0)
                task->period = after;
        if (task->place == PENDING) {
                set_deadline(task, deadline, deadline, may_be_ready(task));
                task->due = deadline;
        } else if (task->ticking) {
                task->was_reset = true;
                task->reset = deadline;
                task->shift = 0;
        } else {
                task->after = after;
        }
}

void
model_extend(struct task *task, weir_nsec by)
{
        task->touched |= model.stopping && task->place != HELD && task->place != QUEUED;
        if (task->place == PENDING) {
                bool unsure = task->earliest != task->latest || may_be_ready(task);
                weir_nsec due = moved(task->due, by);

                if (task->kind == TICKER)
                        set_deadline(task, due, due, unsure);
                else
                        set_deadline(task, moved(task->earliest, by), moved(task->latest, by), unsure);
                task->due = due;
        } else if (task->ticking) {
                task->shift = model_put_off(task->shift, by);
        } else {
                task->after = model_put_off(task->after, by);
        }
}

/* -- starting -- */

static void begin_flow(struct flow *flow);
static void begin_fiber(struct task *fiber);
static void step_fiber(struct task *fiber);

static void
enter(struct task *task)
{
        switch (task->kind) {
        case TIMER:
        case TICKER:
                if (task->called_off)
                        set_place(task, SOON);
                else
                        pend(task, task->after > 0 ? model_put_off(model.now, task->after) : model.now);
                return;
        case EMPTY: set_place(task, SOON); return;
        case PARALLEL:
        case RACE:
        case MODULE:
                set_place(task, task->waits_for ? WAITING : SOON);
                task->starting = task->waits_for > 0;
                model.starting += task->starting;
                for (struct flow *child = task->children; child; child = child->sibling)
                        begin_flow(child);
                return;
        case FIBER: begin_fiber(task);
        }
}

/* Its function is to be called. */
static void
begin_fiber(struct task *fiber)
{
        struct flow *inner = fiber->children;

        set_place(fiber, WAITING);
        inner->place = FLOW_RUNNING;
        inner->deadline_set_at = model.now;
        model_fiber_wait(fiber, EMPTY, 0);
}

static void
start_first(struct flow *flow)
{
        struct task *task = flow->first;

        flow->first = task->next;
        if (!flow->first)
                flow->last = NULL;
        flow->current = task;
        enter(task);
}

static void
begin_flow(struct flow *flow)
{
        flow->place = FLOW_RUNNING;
        flow->deadline_set_at = model.now;
        if (!model_cause(flow) && flow->deadline <= model.now)
                flow->cause = -ETIMEDOUT, flow->was_late = true;
        if (!model_cause(flow) && flow->first) {
                start_first(flow);
                return;
        }
        drop_queue(flow, flow);
        flow->stepping = true;
        model.soon++;
}

void
model_start(struct task *task)
{
        enter(task);
}

void
model_start_flow(struct flow *flow)
{
        begin_flow(flow);
}

void
model_push(struct flow *flow, struct task *task, bool front)
{
        set_place(task, QUEUED);
        task->flow = flow;
        task->next = front ? flow->first : NULL;
        if (front)
                flow->first = task;
        else
                *(flow->last ? &flow->last->next : &flow->first) = task;
        if (!front || !flow->last)
                flow->last = task;
}

void
model_add(struct task *parallel, struct flow *child)
{
        struct flow **end = &parallel->children;

        while (*end)
                end = &(*end)->sibling;
        *end = child;
        child->place = FLOW_ADDED;
        child->parallel = parallel;
        child->child = parallel->added++;
        child->takes_last_status = parallel->kind == RACE && !child->wraps;
        child->kept++;
        parallel->waits_for++;
}

struct flow *
model_flow_of(struct task *running)
{
        if (running->flow)
                return running->flow;
        struct flow *flow = model_flow();
        if (!flow)
                return NULL;
        flow->place = FLOW_RUNNING;
        flow->current = running;
        running->flow = flow;
        return flow;
}

/* -- cancelling -- */

int
model_cause(const struct flow *flow)
{
        for (; flow; flow = flow->parallel ? flow->parallel->flow : NULL) {
                if (flow->cause)
                        return flow->cause;
                if (flow->parallel && flow->parallel->won)
                        return -ECANCELED;
        }
        return 0;
}

int
model_known_cause(const struct flow *flow)
{
        return flow->place == FLOW_RUNNING ? model_cause(flow) : flow->cause;
}

void
model_call_off(struct task *task)
{
        task->called_off = true;
        if (task->place == PENDING)
                set_place(task, SOON);
}

static void end_current(struct flow *flow, bool unsure);

static void
end_group(struct task *group)
{
        for (struct flow *child = group->children; child; child = child->sibling)
                if (child->place == FLOW_RUNNING)
                        end_current(child, false);
}

/* A task within something that is being started may not have been started yet: it is dropped then. */
static void
end_current(struct flow *flow, bool unsure)
{
        struct task *task = flow->current;

        if (flow->fed && flow->parallel && flow->parallel->group)
                end_group(flow->parallel->group);
        if (!task)
                return;
        if (task->place == PENDING)
                set_place(task, SOON);
        task->unsure |= unsure && (task->place == SOON || task->place == WAITING);
        for (struct flow *child = task->children; child; child = child->sibling)
                if (child->place == FLOW_RUNNING)
                        end_current(child, unsure || task->starting);
}

bool
model_stop_flow(struct flow *flow, int cause)
{
        if (flow->place == FLOW_ENDED || flow->place == FLOW_ENDING || model_known_cause(flow))
                return false;
        flow->cause = cause;
        if (flow->place == FLOW_RUNNING)
                end_current(flow, false);
        return true;
}

/* -- names and deadlines of series -- */

void
model_set_name(struct flow *flow, int name)
{
        flow->name = name;
        flow->name_order = ++model.name_orders;
}

void
model_set_deadline(struct flow *flow, weir_nsec from_now)
{
        if (from_now <= 0) {
                model_stop_flow(flow, -ETIMEDOUT);
                return;
        }
        if (flow->deadline <= model.now) /* a worker may be about to look at it */
                flow->deadline_waits_for_jump = model.jumps + 1;
        flow->deadline = model_put_off(model.now, from_now);
        flow->deadline_set_at = model.now;
}

bool
model_is_open(const struct flow *flow)
{
        return flow->place == FLOW_RUNNING && flow->deadline <= model.now && !model_cause(flow);
}

bool
model_is_vague(const struct flow *flow)
{
        if ((flow->stepping && flow->deadline <= model.now) || (flow->dropped_by && flow->dropped_by->stepping))
                return true;
        if (flow->place != FLOW_RUNNING)
                return flow->place == FLOW_ADDED && !flow->cause && model_cause(flow);
        for (; flow; flow = flow->parallel ? flow->parallel->flow : NULL)
                if ((flow->current && flow->current->unsure) || (flow->parallel && flow->parallel->starting && model_cause(flow)))
                        return true;
        return false;
}

weir_nsec
model_time_left(const struct flow *flow)
{
        weir_nsec nearest = flow->deadline;

        if (model_known_cause(flow) == -ETIMEDOUT)
                return 0;
        while (flow->place == FLOW_RUNNING && flow->parallel && (flow = flow->parallel->flow))
                nearest = flow->deadline < nearest ? flow->deadline : nearest;
        return nearest == WEIR_FOREVER ? nearest : nearest <= model.now ? 0 : nearest - model.now;
}

const struct flow *
model_earlier_deadline(weir_nsec instant)
{
        for (unsigned i = 0; i < model.flow_count; i++) {
                const struct flow *flow = model.kept[i];

                if (model_is_open(flow) && flow->deadline < instant && flow->deadline_set_at < instant &&
                    flow->deadline_waits_for_jump <= model.jumps)
                        return flow;
        }
        return NULL;
}

const struct task *
model_earlier_than(const struct flow *flow)
{
        for (unsigned i = 0; i < model.alive_count; i++) {
                const struct task *task = model.alive[i];

                if (task->place == PENDING && task->latest < flow->deadline && task->set_at < flow->deadline &&
                    task->waits_for_jump <= model.jumps)
                        return task;
        }
        return NULL;
}

/* -- ending -- */

/* If something else ends the race early already, that is why the others end. */
static void
win(struct task *race, const struct flow *winner)
{
        race->winner = (int)winner->child;
        if (model_cause(race->flow))
                return;
        race->won = true;
        for (struct flow *child = race->children; child; child = child->sibling)
                if (child->place == FLOW_RUNNING)
                        end_current(child, race->starting);
}

static void
flow_over(struct flow *flow)
{
        struct task *parallel = flow->parallel;

        flow->place = FLOW_ENDED;
        if (!flow->has_status)
                flow->status = flow->cause ? flow->cause : flow->poison;
        else if (!flow->status)
                flow->status = flow->poison;
        if (!flow->status && flow->takes_last_status)
                flow->status = flow->last_status;
        flow->parallel = NULL;
        if (parallel && parallel->kind == RACE && parallel->winner < 0 && flow->status == 0)
                win(parallel, flow);
        if (parallel && parallel->is_group && !parallel->result)
                parallel->result = flow->status;
        if (parallel && --parallel->waits_for == 0)
                set_place(parallel, SOON);
        model_flow_let_go(flow);
}

/* The next task, or the end. */
static void
step(struct flow *flow)
{
        int cause = model_cause(flow);

        if (flow->fed) {
                step_fiber(flow->parallel);
                return;
        }
        if (!cause && model.stopping)
                cause = -ESHUTDOWN;
        if (!flow->cause)
                flow->cause = cause;
        if (!cause && flow->first) {
                start_first(flow);
                return;
        }
        drop_queue(flow, flow);
        if (flow->has_callback) {
                flow->place = FLOW_ENDING;
                model.soon++;
                return;
        }
        flow_over(flow);
}

static void
was_started(struct task *combinator)
{
        model.starting -= combinator->starting;
        combinator->starting = false;
}

void
model_began(struct task *task)
{
        for (; task; task = task->flow ? task->flow->parallel : NULL)
                task->unsure = false;
}

/* As it was before it was started. */
static void
restore(struct task *task)
{
        was_started(task);
        for (struct flow *child = task->children; child; child = child->sibling) {
                struct task *current = child->current;

                if (child->fed) {
                        set_place(task->own, IDLE);
                        child->current = NULL;
                        continue;
                }
                model.soon -= child->stepping;
                child->stepping = false;
                if (child->was_late)
                        child->cause = 0, child->was_late = false;
                if (!current)
                        continue;
                restore(current);
                child->current = NULL;
                set_place(current, QUEUED);
                current->next = child->first;
                child->first = current;
                if (!child->last)
                        child->last = current;
        }
}

void
model_was_not_started(struct task *unsure)
{
        struct flow *flow = unsure->flow;

        restore(unsure);
        drop(unsure, flow);
        model_freed(unsure);
        if (unsure->guard)
                was_started(flow->parallel);
        flow->current = NULL;
        step(flow);
}

void
model_callback_over(struct task *task)
{
        struct flow *flow = task->flow;

        set_place(task, ENDED);
        let_children_go(task);
        if (task->guard)
                was_started(flow->parallel);
        if (!flow)
                return;
        task->flow = NULL;
        flow->current = NULL;
        if (flow->fed && !flow->parallel->wish && !flow->parallel->returned) /* it goes on in that callback */
                return;
        if (flow->wraps && !flow->has_status) {
                flow->has_status = true;
                flow->status = task->status;
        }
        flow->last_status = task->status;
        step(flow);
}

int
model_flow_callback(struct flow *flow, int status)
{
        int cause = model_cause(flow);

        /* The parallel around it was ended while it was being started: it is not known which of the two came first. */
        if (flow->stepping && flow->was_late && flow->parallel && (status == -ECANCELED || status == -ETIMEDOUT)) {
                flow->cause = 0;
                cause = model_cause(flow) == status ? status : -ETIMEDOUT;
        }
        if (flow->stepping) {
                if (flow->parallel && flow->parallel->kind == MODULE) /* whose guard was dropped */
                        was_started(flow->parallel);
                flow->stepping = false;
                flow->place = FLOW_ENDING;
                flow->cause = cause ? cause : model.stopping ? -ESHUTDOWN : 0;
        }
        return flow->cause ? flow->cause : flow->poison;
}

bool
model_has_dropped_all(const struct flow *flow)
{
        for (unsigned i = 0; i < model.alive_count && model.soon > 1; i++)
                if (model.alive[i]->place == DROPPED && model.alive[i]->dropped_by == flow)
                        return false;
        return true;
}

void
model_flow_callback_over(struct flow *flow)
{
        model.soon--;
        flow_over(flow);
}

/* The instants of its ticks that are due when the callback of one has returned, one after the other. */
static weir_nsec
next_tick(struct task *task)
{
        weir_nsec next = model_put_off(task->due, task->period);
        uint64_t behind = 0;

        if (task->policy == WEIR_TICK_DELAY)
                return model_put_off(model.now, task->period);
        if (next <= model.now)
                behind = (uint64_t)(model.now - next) / (uint64_t)task->period + 1;
        if (task->policy == WEIR_TICK_BURST)
                behind = behind > WEIR_TICK_BURST_MOST ? behind - WEIR_TICK_BURST_MOST : 0;
        if (behind)
                next += (weir_nsec)behind * task->period; /* not later than now, or a period behind it */
        task->next_missed = behind;
        return next;
}

void
model_tick_over(struct task *task)
{
        task->ticking = false;
        if (task->stopped || task->count == task->limit || task->called_off || model_cause(task->flow)) {
                task->over = true;
                set_place(task, SOON);
                return;
        }
        bool was_changed = task->was_reset || task->shift;
        weir_nsec next = task->was_reset ? task->reset : next_tick(task);
        next = moved(next, task->shift);
        task->was_reset = false;
        task->shift = 0;
        pend(task, next);
        task->vague |= was_changed; /* its place may be that of the reset, or of the end of the tick */
}

/* -- fibers -- */

bool
model_make_fiber(struct task *fiber)
{
        fiber->own = model_task(EMPTY);
        struct flow *inner = model_flow();
        if (!fiber->own || !inner)
                return false;
        set_place(fiber->own, IDLE);
        inner->fed = true;
        fiber->scope = inner;
        model_add(fiber, inner);
        return true;
}

void
model_fiber_wait(struct task *fiber, enum kind kind, weir_nsec after)
{
        struct task *own = fiber->own;

        own->kind = kind;
        own->after = after;
        own->unsure = false;
        model_fiber_await(fiber, own);
}

void
model_fiber_await(struct task *fiber, struct task *task)
{
        set_place(task, IDLE);
        fiber->wish = task;
        step_fiber(fiber);
}

void
model_fiber_refuse(struct task *fiber, struct task *task)
{
        set_place(task, IDLE);
        fiber->refused = task;
}

void
model_fiber_give_back(struct task *fiber)
{
        if (fiber->refused)
                drop(fiber->refused, NULL);
        fiber->refused = NULL;
}

void
model_fiber_go_on(struct task *fiber)
{
        set_place(fiber->own, IDLE);
        fiber->scope->current = NULL;
}

/* Behind a shield no cause comes down. */
bool
model_fiber_shield(struct task *fiber, bool on)
{
        struct flow *shield = on ? model_flow() : fiber->scope;

        if (!shield)
                return false;
        shield->fed = true;
        shield->place = FLOW_RUNNING;
        fiber->scope = on ? shield : fiber->children;
        if (!on)
                model_flow_let_go(shield);
        model.shields += on ? 1 : -1;
        return true;
}

bool
model_open_group(struct task *fiber)
{
        struct task *group = model_task(PARALLEL);

        if (!group)
                return false;
        set_place(group, IDLE);
        group->is_group = true;
        group->flow = fiber->children;
        group->waits_for = 1; /* for the fiber, until it closes the group */
        fiber->group = group;
        return true;
}

void
model_group_start(struct task *group, struct task *task)
{
        struct flow *child = model_flow();

        child->wraps = true;
        model_push(child, task, false);
        model_add(group, child);
        begin_flow(child);
}

void
model_group_cancel(struct task *group)
{
        group->won = true;
        end_group(group);
}

bool
model_group_close(struct task *fiber)
{
        struct task *group = fiber->group;

        fiber->may_leave = group->waits_for == 1;
        if (fiber->may_leave)
                group->waits_for = 0;
        else
                model_fiber_await(fiber, group);
        return !fiber->may_leave;
}

void
model_group_over(struct task *fiber)
{
        struct task *group = fiber->group;

        fiber->group = NULL;
        fiber->may_leave = false;
        let_children_go(group);
        model_freed(group);
}

static void
end_fiber(struct task *fiber)
{
        struct flow *inner = fiber->children;
        int cause = model_cause(inner);

        if (!inner->cause)
                inner->cause = cause ? cause : model.stopping ? -ESHUTDOWN : 0;
        if (!fiber->result)
                fiber->result = inner->cause ? inner->cause : inner->poison;
        inner->has_status = true;
        inner->status = fiber->result;
        flow_over(inner);
}

static void
grant(struct task *fiber, struct task *wish)
{
        struct flow *flow = fiber->scope;
        int cause = model_cause(flow);

        if (wish->is_group) {
                set_place(wish, --wish->waits_for ? WAITING : SOON);
                return;
        }
        wish->flow = flow;
        flow->current = wish;
        enter(wish);
        if (cause && cause != -ESHUTDOWN && wish->place == PENDING) /* it came when others ran, and the wait ends at once */
                set_place(wish, SOON);
}

/* What is queued will not be started, if there is a cause. */
static void
drop_behind_cause(struct flow *flow)
{
        int cause = model_cause(flow);

        if (!cause && model.stopping)
                cause = -ESHUTDOWN;
        if (cause)
                drop_queue(flow, flow);
}

/* What was pushed into its series, then what it waits for, or its end.  Nothing is pushed into that of a shield. */
static void
step_fiber(struct task *fiber)
{
        struct task *wish = fiber->wish;
        struct flow *inner = fiber->children;

        if (!fiber->is_shielded || fiber->scope == inner) {
                drop_behind_cause(inner);
                if (inner->first) {
                        start_first(inner);
                        return;
                }
        }
        fiber->wish = NULL;
        fiber->is_shielded = fiber->scope != inner;
        if (fiber->returned)
                end_fiber(fiber);
        else
                grant(fiber, wish);
}

void
model_fiber_drops(struct task *fiber)
{
        drop_behind_cause(fiber->children);
}

void
model_fiber_over(struct task *fiber, int result)
{
        fiber->result = result;
        fiber->returned = true;
        step_fiber(fiber);
}

void
model_fiber_never_begins(struct task *fiber)
{
        model_fiber_go_on(fiber);
        model_fiber_over(fiber, 0);
}

/* -- questions -- */

bool
model_is_listed(const struct task *task)
{
        return task->name >= 0 && !task->called_off;
}

bool
model_can_cancel(const struct task *task)
{
        return !task->called_off && (task->kind == TIMER || task->kind == TICKER) && task->place != ENDED &&
               (task->place != RUNNING || task->ticking);
}

/* A timer that ends by its series or by the shutdown is not counted; if it does so only after this call, it may be. */
bool
model_can_reset(const struct task *task, bool *may)
{
        bool ends = model_cause(task->flow);

        *may = false;
        if (!model_can_cancel(task))
                return false;
        if (task->place == HELD)
                return true;
        *may = task->place == SOON || task->place == DROPPED || ends || (model.stopping && task->place != QUEUED) ||
               (task->ticking && (task->stopped || task->count == task->limit));
        return !*may;
}

static bool
had_to_come_before(const struct task *other, const struct task *task)
{
        if (other->place != PENDING || other == task)
                return false;
        if (other->waits_for_jump > model.jumps) /* a worker may come to it only behind what has become due meanwhile */
                return false;
        if (other->latest < task->earliest)
                return other->set_at < task->earliest;
        return other->latest == task->earliest && other->earliest == other->latest && task->earliest == task->latest &&
               other->order < task->order && !other->vague && !task->vague;
}

const struct task *
model_earlier(const struct task *task)
{
        for (unsigned i = 0; i < model.alive_count; i++)
                if (had_to_come_before(model.alive[i], task))
                        return model.alive[i];
        return NULL;
}

const struct task *
model_next(void)
{
        const struct task *next = NULL;

        for (unsigned i = 0; i < model.alive_count; i++)
                if (model.alive[i]->place == PENDING && (!next || model.alive[i]->latest < next->latest))
                        next = model.alive[i];
        return next;
}

weir_nsec
model_next_instant(void)
{
        const struct task *next = model_next();
        weir_nsec instant = next ? next->latest : WEIR_FOREVER;

        for (unsigned i = 0; i < model.flow_count; i++) {
                const struct flow *flow = model.kept[i];

                if (flow->deadline < instant && flow->place == FLOW_RUNNING && !model_cause(flow) && !model.shields)
                        instant = flow->deadline;
        }
        return instant;
}

int
model_combinator_status(const struct task *combinator)
{
        if (combinator->kind == FIBER)
                return combinator->result;
        if (combinator->winner >= 0)
                return 0;
        for (const struct flow *child = combinator->children; child; child = child->sibling)
                if (child->status)
                        return child->status;
        return combinator->kind == RACE ? -ENOENT : 0;
}
