/* net/upstream/pick.c: a member for a request, and how the request has ended.
 *
 * Threads: any.
 * Locks:   the upstream's; no function of the program runs under it.
 *
 * In this order: a main member that the request has not tried; a backup; a main member that it has tried; a backup. */
#include <errno.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/worker/user.h"
#include "net/upstream/member.h"

/* -- picks -- */

/* What a pick tries, one after another. */
static const struct {
        enum weir_member_tier tier;
        bool avoids_tried;
} rounds[] = {{WEIR_MEMBER_MAIN, true}, {WEIR_MEMBER_BACKUP, true}, {WEIR_MEMBER_MAIN, false}, {WEIR_MEMBER_BACKUP, false}};

static unsigned
rounds_of(const struct weir__wish *wish)
{
        return wish->tried_count && !wish->must_differ ? 4 : 2;
}

/* Under the lock. */
static void
wake(struct weir_upstream *upstream)
{
        if (__builtin_expect(upstream->next_probe != WEIR_FOREVER, 0))
                weir__breaker_wake(upstream, weir__clock_now());
}

/* The member gets the request.  Under the lock. */
static void
take(struct weir_upstream *upstream, struct weir_member *member, const struct weir__wish *wish, struct weir__picked *picked)
{
        atomic_store_explicit(&member->in_flight, weir__member_in_flight(member) + 1, memory_order_relaxed);
        member->requests++;
        *picked = (struct weir__picked){member, member->epoch, weir__breaker_picked(upstream, member)};
        if (!wish->tried_count)
                weir__hedge_deposit(upstream);
}

/* Why there is no member.  Under the lock.  One that is enabled may be used by its breaker, in a panic at the latest. */
static int
explain(const struct weir_upstream *upstream, const struct weir__wish *wish, const char **reason)
{
        bool is_enabled = upstream->enabled[WEIR_MEMBER_MAIN] + upstream->enabled[WEIR_MEMBER_BACKUP] > 0;

        if (upstream->count == 0)
                *reason = "the upstream has no members";
        else if (!is_enabled)
                *reason = "all members of the upstream are disabled";
        else if (wish->must_differ)
                *reason = "no other member of the upstream may be used";
        else
                *reason = "all members of the upstream have as many requests in flight as they may have";
        return is_enabled && !wish->must_differ ? -EBUSY : -ENETUNREACH;
}

static int
pick(struct weir_upstream *upstream, const struct weir__wish *wish, struct weir__picked *picked, const char **reason)
{
        struct weir_member *member = NULL;

        weir__lock(&upstream->lock);
        wake(upstream);
        for (unsigned i = 0; i < rounds_of(wish) && !member; i++)
                member = weir__choose(upstream, rounds[i].tier, wish, rounds[i].avoids_tried && wish->tried_count);
        int failed = member ? 0 : explain(upstream, wish, reason);
        if (member)
                take(upstream, member, wish, picked);
        weir__unlock(&upstream->lock);
        return failed;
}

/* -- a function of the program chooses -- */

#define MEMBERS_INLINE 64 /* that need no memory */

/* Those that it may choose from, with a hold on each.  `at` has room for `room`.  Returns how many there are. */
static size_t
hold(struct weir_upstream *upstream, const struct weir__wish *wish, struct weir_member **at, size_t room)
{
        size_t count = 0;

        wake(upstream);
        for (unsigned i = 0; i < rounds_of(wish) && !count; i++) {
                weir__choose_search(upstream, rounds[i].tier, wish, rounds[i].avoids_tried && wish->tried_count);
                count = upstream->found.count;
        }
        if (count > room)
                return count;
        for (size_t i = 0; i < count; i++) {
                at[i] = upstream->found.at[i];
                at[i]->holds++;
        }
        return count;
}

/* Under the lock.  Those that were removed meanwhile are left in `at`, to be freed; the others become NULL. */
static void
release(struct weir_member **at, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                at[i]->holds--;
                if (!weir__member_is_over(at[i]))
                        at[i] = NULL;
        }
}

static size_t
call(const struct weir_upstream *upstream, const struct weir__wish *wish, struct weir_member **at, size_t count)
{
        static const struct weir__callee callee = {"the choose function of", "an upstream", "a choose function"};
        struct weir__user_call call = weir__user_begin_as(&callee, NULL, (weir__function *)upstream->config.choose);
        void *fiber = weir__user_hide_fiber();
        size_t index = upstream->config.choose((const weir_member *const *)at, count, wish->key, wish->key_size,
                                               upstream->config.context);

        weir__user_show_fiber(fiber);
        weir__user_end_as(call);
        return index;
}

/* The member may have been removed during the call.  It gets the request all the same: that is as if it had been removed after.
 * Result: -EAGAIN when it has got as many other requests meanwhile as it may have. */
static int
choose_among(struct weir_upstream *upstream, const struct weir__wish *wish, struct weir_member **at, size_t count,
             struct weir__picked *picked, const char **reason)
{
        size_t index = call(upstream, wish, at, count);

        weir__lock(&upstream->lock);
        bool is_full = index < count && weir__member_in_flight(at[index]) >= at[index]->max_in_flight;
        if (index < count && !is_full)
                take(upstream, at[index], wish, picked);
        release(at, count);
        weir__unlock(&upstream->lock);
        for (size_t i = 0; i < count; i++)
                if (at[i])
                        weir__member_free(at[i]);
        if (index < count)
                return is_full ? -EAGAIN : 0;
        *reason = "the choose function of the upstream has chosen no member";
        return -ENETUNREACH;
}

/* Members with a hold, in memory of the caller or, if they are many, of their own. */
struct held {
        struct weir_member *few[MEMBERS_INLINE], **at;
        size_t count, room;
};

static void
free_many(struct held *held)
{
        if (held->at != held->few)
                weir__free(held->at, held->room * sizeof *held->at);
}

/* Result: 0; -ENOMEM; why there are none. */
static int
hold_all(struct weir_upstream *upstream, const struct weir__wish *wish, struct held *held, const char **reason)
{
        held->at = held->few;
        held->room = MEMBERS_INLINE;
        for (;;) {
                weir__lock(&upstream->lock);
                held->count = hold(upstream, wish, held->at, held->room);
                int failed = held->count ? 0 : explain(upstream, wish, reason);
                weir__unlock(&upstream->lock);
                if (held->count <= held->room)
                        return failed;
                free_many(held);
                held->room = held->count * 2;
                held->at = weir__alloc(held->room * sizeof *held->at);
                if (!held->at) {
                        *reason = "out of memory";
                        return -ENOMEM;
                }
        }
}

static int
pick_by_program(struct weir_upstream *upstream, const struct weir__wish *wish, struct weir__picked *picked, const char **reason)
{
        struct held held;
        int failed;

        do {
                failed = hold_all(upstream, wish, &held, reason);
                if (!failed)
                        failed = choose_among(upstream, wish, held.at, held.count, picked, reason);
                if (held.at)
                        free_many(&held);
        } while (failed == -EAGAIN);
        return failed;
}

bool
weir__upstream_calls_program(const struct weir_upstream *upstream)
{
        return upstream->config.policy == WEIR_UPSTREAM_FUNCTION;
}

/* Names whose addresses are members may have others by now: for the next request, this one has its member. */
static void
look(struct weir_upstream *upstream)
{
        weir_nsec next = atomic_load_explicit(&upstream->next_look, memory_order_relaxed);

        if (__builtin_expect(next == WEIR_FOREVER, 1))
                return;
        weir_nsec now = weir__clock_now();
        if (now >= next)
                weir__follow_look(upstream, now);
}

int
weir__upstream_pick(struct weir_upstream *upstream, const struct weir__wish *wish, struct weir__picked *picked,
                    const char **reason)
{
        static const struct weir__wish any = {0};
        const char *unread;

        int failed = (weir__upstream_calls_program(upstream) ? pick_by_program : pick)(upstream, wish ? wish : &any, picked,
                                                                                       reason ? reason : &unread);

        look(upstream);
        return failed;
}

const char *
weir__picked_address(const struct weir__picked *picked)
{
        return picked->member->address;
}

uint64_t
weir__picked_id(const struct weir__picked *picked)
{
        return picked->member->id;
}

/* -- reports -- */

/* The member may be gone: `address` is a copy. */
static void
say(const struct weir_upstream *upstream, const char *address, const struct weir__verdict *verdict)
{
        static struct weir__log_limit ejected, closed, all;
        const char *name = upstream->name.text;

        switch (verdict->kind) {
        case WEIR__VERDICT_EJECTED:
                weir__log_limited(&ejected, WEIR_LOG_WARNING, "upstream %s: %s fails: it gets no requests for %lld ms", name,
                                  address, (long long)(verdict->ejected_for / WEIR_MSEC(1)));
                break;
        case WEIR__VERDICT_CLOSED: weir__log_limited(&closed, WEIR_LOG_INFO, "upstream %s: %s works again", name, address); break;
        case WEIR__VERDICT_ALL_FAIL:
                weir__log_limited(&all, WEIR_LOG_ERROR, "upstream %s: all members fail, the last one is %s: all are used", name,
                                  address);
                break;
        case WEIR__VERDICT_NONE: break;
        }
}

void
weir__upstream_report(struct weir_upstream *upstream, const struct weir__picked *picked, enum weir__outcome outcome,
                      weir_nsec latency)
{
        struct weir_member *member = picked->member;
        struct weir__verdict verdict = {.kind = WEIR__VERDICT_NONE};
        weir_nsec now = outcome == WEIR__OUTCOME_CANCELLED ? 0 : weir__clock_now();
        char address[WEIR_MEMBER_ADDRESS_ROOM];

        weir__lock(&upstream->lock);
        atomic_store_explicit(&member->in_flight, weir__member_in_flight(member) - 1, memory_order_relaxed);
        weir__breaker_report(upstream, picked, outcome, now, &verdict);
        if (outcome == WEIR__OUTCOME_SUCCESS || outcome == WEIR__OUTCOME_OVERTAKEN)
                weir__hedge_note(upstream, latency, now);
        if (verdict.kind)
                strcpy(address, member->address);
        bool is_over = weir__member_is_over(member);
        weir__unlock(&upstream->lock);
        if (is_over)
                weir__member_free(member);
        if (verdict.kind)
                say(upstream, address, &verdict);
}
