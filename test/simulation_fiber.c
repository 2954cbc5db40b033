/* test/simulation_fiber.c: the function of fibers: it acts in each stretch, and between them it sleeps, yields and awaits tasks of
 * all kinds.  The model says what each of these returns.
 *
 * Nothing is pushed into the series of a fiber: what a push there does is the matter of other suites.
 *
 * Threads: the worker. */
#include "test/simulation_driver.h"

#include <errno.h>
#include <inttypes.h>

static int
cause_of(const struct task *fiber)
{
        int cause = model_cause(fiber->children);

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
sleep_some(struct task *fiber)
{
        weir_nsec duration = simulation_draw_duration();
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

/* Behind a shutdown it leaves the stack. */
static void
yield(struct task *fiber)
{
        int cause = model_cause(fiber->children);

        if (!cause && model.stopping)
                return;
        simulation_note('w', "yields", (int64_t)fiber->serial, cause, 0);
        model_fiber_give_back(fiber);
        if (!cause)
                model_fiber_wait(fiber, EMPTY, 0);
        int status = weir_fiber_yield();
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
        struct task *task = simulation_make_task(actor, 2);
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
                switch (below(4)) {
                case 0: sleep_some(fiber); break;
                case 1: yield(fiber); break;
                default: await(fiber, &actor);
                }
        }
        simulation_act_some(&actor, 1);
        simulation_see_deadlines();
        int result = one_in(4) ? -EIO : 0;
        simulation_note('w', "fiber returns", (int64_t)fiber->serial, result, 0);
        model_fiber_give_back(fiber);
        model_fiber_over(fiber, result);
        return result;
}
