/* factory/fiber/select.c: a fiber waits at several channels.
 *
 * Threads: a fiber, on its stack.
 * Locks:   those of channels, for what is possible at once.
 *
 * The cases are tried first, one after the other.  One that becomes possible behind that look may be passed by a later one, as if
 * the select had begun a little earlier.  If none is possible, a select is awaited, which looks again at all of them in one
 * step. */
#include <errno.h>

#include "factory/fiber/fiber.h"
#include "kernel/observe/log.h"

/* 0, or what is wrong with the cases. */
static int
check(const struct weir_case *cases, size_t count)
{
        size_t possible = 0;

        if (count > WEIR_SELECT_MAX)
                return -E2BIG;
        for (size_t i = 0; i < count; i++) {
                if (cases[i].is_off)
                        continue;
                if (cases[i].receive && cases[i].send)
                        return weir__log_refusal("weir_fiber_select: case %zu has two channels: expected one", i);
                if (!cases[i].receive && !cases[i].send)
                        return -ENOMEM;
                possible++;
        }
        return possible ? 0 : weir__log_refusal("weir_fiber_select: no case can happen: expected one that is not off");
}

/* Returns the index of the winner; -EAGAIN: no case is possible; -ECHILD. */
static int
try_all(struct weir_case *cases, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                void *received = NULL;
                int outcome = cases[i].is_off ? -EAGAIN
                              : cases[i].send ? weir_channel_post(cases[i].send, cases[i].message)
                                              : weir_channel_poll(cases[i].receive, &received);

                if (outcome == -EAGAIN)
                        continue;
                if (outcome == -ECHILD)
                        return outcome;
                if (cases[i].receive)
                        cases[i].message = received;
                cases[i].status = outcome;
                return (int)i;
        }
        return -EAGAIN;
}

static weir_task *
make(const struct weir_case *cases, size_t count)
{
        weir_task *select = weir_select_new(NULL, NULL);

        for (size_t i = 0; i < count; i++)
                if (cases[i].is_off)
                        weir_select_never(select);
                else if (cases[i].send)
                        weir_select_send(select, cases[i].send, cases[i].message);
                else
                        weir_select_receive(select, cases[i].receive);
        return select;
}

/* Behind the await: takes from the select what it has received, and what it has not sent, which would be dropped with it.
 * Returns the index of the winner, or the status. */
static int
take_outcome(weir_task *select, struct weir_case *cases, size_t count, int status)
{
        int winner = weir_select_winner(select);

        for (size_t i = 0; i < count; i++)
                if (cases[i].send)
                        (void)weir_select_take_message(select, (int)i);
        if (winner < 0)
                return status;
        if (cases[winner].receive)
                cases[winner].message = weir_select_take_message(select, winner);
        cases[winner].status = status;
        return winner;
}

static int
select_within(struct weir_case *cases, size_t count, weir_nsec limit, void *at)
{
        struct weir__fiber *fiber;
        int outcome = weir__fiber_may_wait(&fiber);

        if (!outcome)
                outcome = check(cases, count);
        if (!outcome)
                outcome = try_all(cases, count);
        if (outcome != -EAGAIN)
                return outcome;
        if (limit <= 0)
                return -ETIMEDOUT;
        weir_task *select = make(cases, count);
        return take_outcome(select, cases, count, weir__fiber_await_within(fiber, select, limit, at));
}

int
weir_fiber_select(struct weir_case *cases, size_t count)
{
        return select_within(cases, count, WEIR_FOREVER, WEIR__FIBER_AT);
}

int
weir_fiber_select_within(struct weir_case *cases, size_t count, weir_nsec limit)
{
        return select_within(cases, count, limit, WEIR__FIBER_AT);
}
