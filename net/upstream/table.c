/* net/upstream/table.c: the members of an upstream, and those that may be used.
 *
 * Threads: any.
 * Locks:   the upstream's.
 *
 * A pick looks only at members that may be used, by their breaker and the program.  So these are listed when one of them changes,
 * which is rare beside picks:
 *
 *     disabled               not listed
 *     CLOSED                 listed
 *     OPEN                   not listed
 *     HALF_OPEN              listed until its probe is in flight
 *     no member works        all that are enabled are listed: panic
 *
 * A member works if it is CLOSED and not failing. */
#include <errno.h>
#include <string.h>

#include "kernel/memory/memory.h"
#include "net/upstream/member.h"

#define LISTS 4 /* members, two of those that are ready, and what a search finds */

/* -- memory -- */

static size_t
size_of(size_t room)
{
        return room * (LISTS * sizeof(struct weir_member *) + (LISTS - 1) * sizeof(uint64_t));
}

static void
lay_out(struct weir_upstream *upstream, void *memory, size_t room)
{
        struct weir_member **members = memory;
        uint64_t *sums = (uint64_t *)(members + LISTS * room);
        struct weir__choices *lists[] = {&upstream->ready[WEIR_MEMBER_MAIN], &upstream->ready[WEIR_MEMBER_BACKUP],
                                         &upstream->found};

        if (upstream->count)
                memcpy(members, upstream->members, upstream->count * sizeof *members);
        upstream->members = members;
        for (size_t i = 0; i < LISTS - 1; i++)
                *lists[i] = (struct weir__choices){.at = members + (i + 1) * room, .sums = sums + i * room};
}

int
weir__table_reserve(struct weir_upstream *upstream, size_t count)
{
        size_t room = upstream->room ? upstream->room : 4, former_room = upstream->room;
        void *former = upstream->memory;

        if (count <= former_room)
                return 0;
        while (room < count)
                room *= 2;
        void *memory = weir__alloc(size_of(room));
        if (!memory)
                return -ENOMEM;
        weir__lock(&upstream->lock);
        lay_out(upstream, memory, room);
        upstream->memory = memory;
        upstream->room = room;
        weir__table_settle(upstream);
        weir__unlock(&upstream->lock);
        if (former)
                weir__free(former, size_of(former_room));
        return 0;
}

void
weir__table_drop(struct weir_upstream *upstream)
{
        if (upstream->memory)
                weir__free(upstream->memory, size_of(upstream->room));
}

void
weir__table_append(struct weir_upstream *upstream, struct weir_member *member)
{
        upstream->members[upstream->count++] = member;
        upstream->is_shuffled = false;
}

void
weir__table_take(struct weir_upstream *upstream, size_t index)
{
        upstream->count--;
        memmove(&upstream->members[index], &upstream->members[index + 1], (upstream->count - index) * sizeof *upstream->members);
        upstream->is_shuffled = false;
}

/* -- who may be used -- */

void
weir__choices_add(struct weir__choices *ready, struct weir_member *member)
{
        uint32_t weight = weir__member_weight(member);

        ready->is_even = !ready->count || (ready->is_even && weight == weir__member_weight(ready->at[0]));
        ready->sums[ready->count] = weir__choices_weight(ready) + weight;
        ready->at[ready->count++] = member;
}

static bool
may_be_used(const struct weir_upstream *upstream, const struct weir_member *member)
{
        return upstream->is_panicking || member->state == WEIR_MEMBER_CLOSED ||
               (member->state == WEIR_MEMBER_HALF_OPEN && !member->is_probed);
}

void
weir__table_settle(struct weir_upstream *upstream)
{
        size_t working = 0;

        upstream->next_probe = WEIR_FOREVER;
        for (size_t tier = 0; tier < WEIR__TIERS; tier++)
                upstream->ready[tier].count = upstream->enabled[tier] = 0;
        for (size_t i = 0; i < upstream->count; i++) {
                const struct weir_member *member = upstream->members[i];

                if (!member->is_enabled)
                        continue;
                upstream->enabled[member->tier]++;
                working += member->state == WEIR_MEMBER_CLOSED && !member->is_failing;
                if (member->state == WEIR_MEMBER_OPEN && member->ejected_until < upstream->next_probe)
                        upstream->next_probe = member->ejected_until;
        }
        upstream->is_panicking = working == 0;
        for (size_t i = 0; i < upstream->count; i++)
                if (upstream->members[i]->is_enabled && may_be_used(upstream, upstream->members[i]))
                        weir__choices_add(&upstream->ready[upstream->members[i]->tier], upstream->members[i]);
}
