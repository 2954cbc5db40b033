/* test/simulation_fiber.c: the function of fibers: it acts in each stretch, and between them it sleeps, yields and awaits tasks
 * of all kinds, also behind a shield, and runs some beside itself in a group.  The model says what each of these returns.  What
 * others push into the series of a fiber, or the fiber itself, runs before what it waits for next, or before its end.
 *
 * Threads: the worker. */
#include "test/simulation_driver.h"

#include <errno.h>
#include <inttypes.h>

static int
cause_of(const struct task *fiber)
{
        int cause = model_cause(fiber->scope);

        return cause ? cause : model.stopping ? -ESHUTDOWN : 0;
}

/* What was due when the cause came may have ended by itself. */
static bool
fits(const struct task *fiber, int status)
{
        const struct task *own = fiber->own;
        int cause = cause_of(fiber);

        return status == cause || (status == 0 && own->kind == TIMER && own->earliest <= model.now);
}

/* Its own task has ended. */
static void
go_on(struct task *fiber, int status)
{
        struct task *own = fiber->own;

        simulation_arrive(own);
        simulation_note('w', "goes on", (int64_t)fiber->serial, status, own->kind);
        if (own->place != PENDING && own->place != SOON)
                simulation_differs("fiber %" PRIu64 " goes on in place %d", fiber->serial, own->place);
        if (!fits(fiber, status))
                simulation_differs("a wait of fiber %" PRIu64 " returned %d, should %d", fiber->serial, status, cause_of(fiber));
        if (own->place == PENDING && !model.stopping)
                simulation_check_expired(own);
        model_began(own);
        model_fiber_go_on(fiber);
}

static void
expect_refusal(const struct task *fiber, int status, int cause)
{
        simulation_note('w', "is refused", (int64_t)fiber->serial, status, 0);
        if (status != cause)
                simulation_differs("an await of fiber %" PRIu64 " returned %d, should %d", fiber->serial, status, cause);
}

static void
sleep_some(struct task *fiber, weir_nsec duration)
{
        int cause = cause_of(fiber);

        simulation_note('w', "sleeps", (int64_t)fiber->serial, duration, cause);
        simulation_grain(fiber->own, simulation.slack);
        model_fiber_give_back(fiber);
        if (!cause)
                model_fiber_wait(fiber, TIMER, duration);
        int status = weir_fiber_sleep(duration);
        if (cause)
                expect_refusal(fiber, status, cause);
        else
                go_on(fiber, status);
}

/* Behind a shutdown it leaves the stack, and while a cause is on its way down to the fiber. */
static void
yield(struct task *fiber)
{
        int cause = model_cause(fiber->scope);

        if (!cause && model.stopping)
                return;
        simulation_note('w', "yields", (int64_t)fiber->serial, cause, 0);
        model_fiber_give_back(fiber);
        if (!cause)
                model_fiber_wait(fiber, EMPTY, 0);
        fiber->may_leave = cause;
        int status = weir_fiber_yield();
        fiber->may_leave = false;
        if (cause)
                expect_refusal(fiber, status, cause);
        else
                go_on(fiber, status);
}

static void
await(struct task *fiber, const struct actor *actor)
{
        if (!simulation_has_room(20))
                return;
        struct task *task = simulation_make_task(actor,
                                                 fiber->scope->first ? 3 : 2); /* none that is being started behind others */
        int cause = cause_of(fiber);

        simulation_note('w', "awaits", (int64_t)fiber->serial, (int64_t)task->serial, cause);
        model_fiber_give_back(fiber);
        if (cause)
                model_fiber_refuse(fiber, task);
        else
                model_fiber_await(fiber, task);
        int status = weir_await(task->handle);
        if (cause)
                expect_refusal(fiber, status, cause);
        else if (simulation.unfreed != task || status != task->status)
                simulation_differs("the await of task %" PRIu64 " returned %d, should %d", task->serial, status, task->status);
}

/* -- shields: an early end of the fiber does not reach what it waits for there -- */

static void
wait_shielded(struct task *fiber)
{
        if (!model_fiber_shield(fiber, true))
                return;
        simulation_note('w', "shields", (int64_t)fiber->serial, 0, 0);
        simulation_expect("shield", weir_fiber_shield(true), 0, 0);
        for (uint64_t waits = below(3); waits > 0; waits--)
                if (one_in(2))
                        sleep_some(fiber, (weir_nsec)below(WEIR_SEC(1)));
                else
                        yield(fiber);
        simulation_note('w', "ends shield", (int64_t)fiber->serial, 0, 0);
        simulation_expect("shield", weir_fiber_shield(false), 0, 0);
        model_fiber_shield(fiber, false);
}

/* -- groups -- */

static void
start_child(struct task *fiber, const struct actor *actor)
{
        if (!simulation_has_room(20))
                return;
        struct task *task = simulation_make_task(actor, 2);
        int cause = fiber->group->won ? -ECANCELED : model_cause(fiber->children);

        if (!cause && model.stopping)
                cause = -ESHUTDOWN;
        simulation_note('w', "starts child", (int64_t)fiber->serial, (int64_t)task->serial, cause);
        if (cause)
                model_drop(task);
        else
                model_group_start(fiber->group, task);
        simulation_expect("start of a child", weir_group_start(fiber->handle_of_group, task->handle), cause, cause);
}

/* A group without children is closed when nothing is queued: a walk may be on its way in the group. */
static void
close_group(struct task *fiber)
{
        struct task *group = fiber->group;

        while (group->waits_for == 1 && fiber->children->first && !cause_of(fiber))
                yield(fiber);
        simulation_note('w', "closes group", (int64_t)fiber->serial, group->waits_for - 1, group->won);
        model_fiber_give_back(fiber);
        bool waits = model_group_close(fiber);
        int status = weir_group_close(fiber->handle_of_group);
        if (waits) {
                simulation_arrive(group);
                simulation_note('w', "has joined", (int64_t)fiber->serial, status, group->place);
                if (group->place != SOON)
                        simulation_differs("fiber %" PRIu64 " goes on while %u children have not ended", fiber->serial,
                                           group->waits_for);
        }
        if (status != group->result)
                simulation_differs("the group of fiber %" PRIu64 " ended with %d, should with %d", fiber->serial, status,
                                   group->result);
        model_group_over(fiber);
}

static void
act_on_group(struct task *fiber, const struct actor *actor)
{
        if (fiber->group && one_in(3)) {
                close_group(fiber);
        } else if (fiber->group && one_in(4) && !cause_of(fiber)) { /* behind its end children may see either cause */
                simulation_note('w', "cancels group", (int64_t)fiber->serial, 0, 0);
                model_group_cancel(fiber->group);
                weir_group_cancel(fiber->handle_of_group);
        } else if (fiber->group) {
                start_child(fiber, actor);
        } else if (simulation_has_room(20) && model_open_group(fiber)) {
                fiber->handle_of_group = weir_group_open();
                start_child(fiber, actor);
        }
}

int
simulation_fiber(void *context)
{
        const struct actor actor = {.where = 'w'};
        struct task *fiber = context;
        struct flow *inner = fiber->children;

        simulation_arrive(fiber->own);
        simulation_note('w', "fiber begins", (int64_t)fiber->serial, 0, 0);
        if (fiber->begun || fiber->place != WAITING || fiber->own->place != SOON)
                simulation_differs("fiber %" PRIu64 " begins in place %d", fiber->serial, fiber->place);
        if (cause_of(fiber))
                simulation_differs("fiber %" PRIu64 " begins behind its end, %d", fiber->serial, cause_of(fiber));
        fiber->begun = true;
        model_began(fiber->own);
        model_fiber_go_on(fiber);
        inner->handle = weir_series_ref(weir_fiber_series());
        inner->kept++;
        for (uint64_t waits = below(5); waits > 0; waits--) {
                simulation_act_some(&actor, 2);
                simulation_see_deadlines();
                switch (below(8)) {
                case 0:
                case 1: sleep_some(fiber, simulation_draw_duration()); break;
                case 2: yield(fiber); break;
                case 3: wait_shielded(fiber); break;
                case 4:
                case 5: act_on_group(fiber, &actor); break;
                default: await(fiber, &actor);
                }
        }
        if (fiber->group)
                close_group(fiber);
        simulation_act_some(&actor, 1);
        simulation_see_deadlines();
        int result = one_in(4) ? -EIO : 0;
        simulation_note('w', "fiber returns", (int64_t)fiber->serial, result, 0);
        model_fiber_give_back(fiber);
        model_fiber_over(fiber, result);
        return result;
}
