/* factory/fiber/calls.c: what fibers take from objects.
 *
 * Threads: a fiber, on its stack.
 * Locks:   those of the objects, for what is there at once.
 *
 * What is there is taken without a task.  What a task was granted stays so, also if the fiber ends early at that time: the status
 * of the task is 0 then. */
#include <errno.h>

#include <weir/counter.h>
#include <weir/pool.h>
#include <weir/semaphore.h>

#include "factory/fiber/fiber.h"
#include "factory/sync/waitgroup.h"

int
weir_fiber_acquire_tokens(weir_semaphore *semaphore, uint64_t tokens)
{
        struct weir__fiber *fiber;
        int fault = weir__fiber_may_wait(&fiber);

        if (!fault)
                fault = weir_semaphore_try_acquire(semaphore, tokens);
        if (fault != -EAGAIN)
                return fault;
        return weir__fiber_await(fiber, weir_semaphore_acquire_new(semaphore, tokens, NULL, NULL), WEIR__FIBER_AT);
}

int
weir_fiber_take(weir_pool *pool, void **object)
{
        struct weir__fiber *fiber;
        int fault = weir__fiber_may_wait(&fiber);

        *object = fault ? NULL : weir_pool_try_take(pool);
        if (fault || *object)
                return fault;
        weir_task *take = weir_pool_take_new(pool, NULL, NULL);
        fault = weir__fiber_await(fiber, take, WEIR__FIBER_AT);
        *object = weir_pool_take_object(take);
        return fault;
}

int
weir_fiber_wait(weir_counter *counter)
{
        struct weir__fiber *fiber = weir__fiber_self();

        return fiber ? weir__fiber_await(fiber, weir_counter_wait_new(counter, NULL, NULL), WEIR__FIBER_AT) : -EDEADLK;
}

int
weir_fiber_wait_done(weir_waitgroup *group, weir_nsec limit)
{
        struct weir__fiber *fiber = weir__fiber_self();

        if (!fiber)
                return weir_waitgroup_wait(group, limit);
        int fault = weir__fiber_may_wait(&fiber);
        if (fault)
                return fault;
        fault = weir_waitgroup_wait(group, 0);
        if (fault != -ETIMEDOUT || limit <= 0)
                return fault;
        return weir__fiber_await_within(fiber, weir__waitgroup_wait_new(group), limit, WEIR__FIBER_AT);
}
