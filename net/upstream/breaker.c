/* net/upstream/breaker.c: members that fail are left alone for some time.
 *
 *              too many failures                the time is over, and a pick looks
 *     CLOSED ---------------------> OPEN -------------------------------------------> HALF_OPEN
 *       ^ ^                          | ^                                               |   |
 *       | `--- success in a panic ---' `------------- the probe has failed ------------'   |
 *       `---------------------------------------------------- the probe has succeeded -----'
 *
 * A member that has failed too often stays CLOSED, and is marked as failing, where its ejection would leave less than half of
 * its tier.  If a tier has no member that works, and the other one has, all that fail are ejected: the other tier takes over.  If
 * no tier has one, all members are used, whatever their state, and one success is enough to be CLOSED: panic.
 *
 * A report counts only in the epoch of its pick: a request from before an ejection cannot end it, nor stand for a probe.
 *
 * Threads: any.
 * Locks:   the upstream's, which the callers hold.
 *
 * Source:  Nygard, Release It!, 2007; Envoy, "Outlier detection" and "Panic threshold". */
#include <string.h>

#include "kernel/base/clock.h"
#include "net/upstream/member.h"

/* -- the window -- */

static weir_nsec
part_length(const struct weir_upstream *upstream)
{
        return upstream->config.window / WEIR__WINDOW_PARTS;
}

/* Parts that have ended before `now` make room for a new one. */
static void
move_window(const struct weir_upstream *upstream, struct weir_member *member, weir_nsec now)
{
        weir_nsec length = part_length(upstream);

        if (now < member->part_ends)
                return;
        if (!member->part_ends || now - member->part_ends >= WEIR__WINDOW_PARTS * length) {
                memset(member->parts, 0, sizeof member->parts);
                member->part_ends = weir__clock_after(now, length);
                return;
        }
        while (now >= member->part_ends) {
                member->part = (member->part + 1) % WEIR__WINDOW_PARTS;
                member->parts[member->part] = (struct weir__window_part){0};
                member->part_ends += length;
        }
}

static void
count(const struct weir_upstream *upstream, struct weir_member *member, bool has_failed, weir_nsec now)
{
        move_window(upstream, member, now);
        member->parts[member->part].requests++;
        member->parts[member->part].failures += has_failed;
        member->failures_in_row = has_failed ? member->failures_in_row + (member->failures_in_row < UINT32_MAX) : 0;
}

static bool
fails_too_often(const struct weir_upstream *upstream, const struct weir_member *member)
{
        uint64_t requests = 0, failures = 0;

        if (member->failures_in_row >= upstream->config.failures_in_row && upstream->config.failures_in_row != UINT32_MAX)
                return true;
        for (unsigned i = 0; i < WEIR__WINDOW_PARTS; i++) {
                requests += member->parts[i].requests;
                failures += member->parts[i].failures;
        }
        return requests >= upstream->config.window_requests && failures * 100 >= requests * upstream->config.window_percent;
}

/* -- changes of the state -- */

static void
set_state(struct weir_member *member, enum weir_member_state state)
{
        member->state = state;
        member->epoch++;
        member->is_probed = false;
        member->is_failing = false;
}

void
weir__breaker_reset(struct weir_member *member)
{
        set_state(member, WEIR_MEMBER_CLOSED);
        member->failures_in_row = member->ejections_in_row = 0;
        member->part_ends = 0;
}

static void
close_again(struct weir_member *member, weir_nsec now)
{
        uint32_t ejections = member->ejections_in_row;

        weir__breaker_reset(member);
        member->ejections_in_row = ejections;
        member->closed_at = now;
}

/* The time of the next ejection. */
static weir_nsec
ejection_of(const struct weir_upstream *upstream, const struct weir_member *member)
{
        weir_nsec length = upstream->config.ejection;

        for (uint32_t i = 0; i < member->ejections_in_row && length < upstream->config.max_ejection; i++)
                length = weir__clock_after(length, length);
        return length < upstream->config.max_ejection ? length : upstream->config.max_ejection;
}

static void
eject(const struct weir_upstream *upstream, struct weir_member *member, weir_nsec now)
{
        if (member->state == WEIR_MEMBER_CLOSED && now - member->closed_at >= member->ejected_for)
                member->ejections_in_row = 0;
        member->ejected_for = ejection_of(upstream, member);
        member->ejected_until = weir__clock_after(now, member->ejected_for);
        member->ejections_in_row += member->ejections_in_row < UINT32_MAX;
        member->ejections++;
        set_state(member, WEIR_MEMBER_OPEN);
}

void
weir__breaker_wake(struct weir_upstream *upstream, weir_nsec now)
{
        if (now < upstream->next_probe)
                return;
        for (size_t i = 0; i < upstream->count; i++)
                if (upstream->members[i]->state == WEIR_MEMBER_OPEN && upstream->members[i]->ejected_until <= now)
                        set_state(upstream->members[i], WEIR_MEMBER_HALF_OPEN);
        weir__table_settle(upstream);
}

bool
weir__breaker_picked(struct weir_upstream *upstream, struct weir_member *member)
{
        if (member->state != WEIR_MEMBER_HALF_OPEN || member->is_probed)
                return false;
        member->is_probed = true;
        weir__table_settle(upstream);
        return true;
}

/* -- who may be ejected -- */

struct tally {
        size_t ejected, working;
};

static void
tally(const struct weir_upstream *upstream, struct tally of[WEIR__TIERS])
{
        memset(of, 0, WEIR__TIERS * sizeof *of);
        for (size_t i = 0; i < upstream->count; i++) {
                const struct weir_member *member = upstream->members[i];

                if (!member->is_enabled)
                        continue;
                of[member->tier].ejected += member->state != WEIR_MEMBER_CLOSED;
                of[member->tier].working += member->state == WEIR_MEMBER_CLOSED && !member->is_failing;
        }
}

static void
eject_all(struct weir_upstream *upstream, enum weir_member_tier tier, weir_nsec now)
{
        for (size_t i = 0; i < upstream->count; i++) {
                struct weir_member *member = upstream->members[i];

                if (member->is_enabled && member->tier == tier && member->is_failing)
                        eject(upstream, member, now);
        }
}

/* A member is failing. */
static void
eject_if_possible(struct weir_upstream *upstream, struct weir_member *member, weir_nsec now)
{
        struct tally of[WEIR__TIERS];
        enum weir_member_tier other = member->tier == WEIR_MEMBER_MAIN ? WEIR_MEMBER_BACKUP : WEIR_MEMBER_MAIN;

        tally(upstream, of);
        if (of[member->tier].working == 0 && of[other].working > 0)
                eject_all(upstream, member->tier, now);
        else if ((of[member->tier].ejected + 1) * 2 <= upstream->enabled[member->tier])
                eject(upstream, member, now);
}

/* -- reports -- */

static void
report_closed(struct weir_upstream *upstream, struct weir_member *member, bool has_failed, weir_nsec now,
              struct weir__verdict *verdict)
{
        bool was_failing = member->is_failing, was_panicking = upstream->is_panicking;

        count(upstream, member, has_failed, now);
        if (has_failed || was_failing)
                member->is_failing = fails_too_often(upstream, member);
        if (has_failed && member->is_failing)
                eject_if_possible(upstream, member, now);
        if (member->state == WEIR_MEMBER_CLOSED && member->is_failing == was_failing)
                return;
        weir__table_settle(upstream);
        if (member->state == WEIR_MEMBER_OPEN)
                *verdict = (struct weir__verdict){WEIR__VERDICT_EJECTED, member->ejected_for};
        else if (upstream->is_panicking && !was_panicking)
                verdict->kind = WEIR__VERDICT_ALL_FAIL;
}

static void
report_ejected(struct weir_upstream *upstream, const struct weir__picked *picked, bool has_failed, weir_nsec now,
               struct weir__verdict *verdict)
{
        struct weir_member *member = picked->member;

        if (!has_failed) {
                close_again(member, now);
                verdict->kind = WEIR__VERDICT_CLOSED;
        } else if (member->state == WEIR_MEMBER_HALF_OPEN) {
                eject(upstream, member, now);
                *verdict = (struct weir__verdict){WEIR__VERDICT_EJECTED, member->ejected_for};
        }
        weir__table_settle(upstream);
}

void
weir__breaker_report(struct weir_upstream *upstream, const struct weir__picked *picked, enum weir__outcome outcome, weir_nsec now,
                     struct weir__verdict *verdict)
{
        struct weir_member *member = picked->member;

        member->failures += outcome == WEIR__OUTCOME_FAILURE;
        if (picked->epoch != member->epoch || member->is_removed)
                return;
        if (outcome != WEIR__OUTCOME_SUCCESS && outcome != WEIR__OUTCOME_FAILURE) {
                if (picked->is_probe) {
                        member->is_probed = false;
                        weir__table_settle(upstream);
                }
        } else if (member->state == WEIR_MEMBER_CLOSED) {
                report_closed(upstream, member, outcome == WEIR__OUTCOME_FAILURE, now, verdict);
        } else {
                report_ejected(upstream, picked, outcome == WEIR__OUTCOME_FAILURE, now, verdict);
        }
}
