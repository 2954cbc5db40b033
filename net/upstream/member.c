/* net/upstream/member.c: members come, change and go, as the program says.
 *
 * Threads: any.
 * Locks:   `changes` of the upstream, and under it `lock` for what picks see.
 *
 * A member that is removed lives on until its requests in flight are reported. */
#include <errno.h>
#include <string.h>

#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/base/clock.h"
#include "kernel/runtime/config.h"
#include "kernel/socket/address.h"
#include "net/upstream/member.h"

int
weir__upstream_fault(const struct weir_upstream *upstream)
{
        weir__memory_expect(upstream);
        if (weir__phase_is_forked())
                return -ECHILD;
        return upstream ? 0 : -ENOMEM;
}

/* -- what a member is made of -- */

static const char *
wrong_field(const struct weir_member_config *config)
{
        if ((int)config->tier < WEIR_MEMBER_MAIN || config->tier > WEIR_MEMBER_BACKUP)
                return "tier: expected an enum weir_member_tier";
        if (config->weight > WEIR_MEMBER_WEIGHT_MAX)
                return "weight: expected 1 to WEIR_MEMBER_WEIGHT_MAX, or 0";
        return NULL;
}

static int
read_config(const char *call, struct weir_member_config *to, const struct weir_member_config *from)
{
        *to = (struct weir_member_config)WEIR_MEMBER_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        const char *expected = failed ? WEIR__CONFIG_EXPECTED("weir_member_config", "WEIR_MEMBER_CONFIG_DEFAULT")
                                      : wrong_field(to);
        if (expected)
                return weir__log_refusal("%s: %s", call, expected);
        to->weight = to->weight ? to->weight : 1;
        to->max_in_flight = to->max_in_flight ? to->max_in_flight : SIZE_MAX;
        return 0;
}

static int
check_address(const char *call, const char *address)
{
        struct weir__address parsed;
        const char *reason = NULL;
        size_t size = address ? strlen(address) : 0;

        if (size == 0 || size >= WEIR_MEMBER_ADDRESS_ROOM)
                return weir__log_refusal("%s: the address is %s: expected one of 1 to %d bytes", call,
                                         !address ? "NULL"
                                         : !size  ? "empty"
                                                  : "too long",
                                         WEIR_MEMBER_ADDRESS_ROOM - 1);
        int failed = weir__address_parse_peer(address, size, &parsed, &reason);
        if (failed == -EINVAL)
                return weir__log_refusal("%s: \"%s\": expected %s", call, address, reason ? reason : "host:port or unix:path");
        return failed;
}

int
weir__member_check(const char *call, const char *address, const struct weir_member_config *given,
                   struct weir_member_config *config)
{
        int failed = read_config(call, config, given);

        return failed ? failed : check_address(call, address);
}

/* -- life -- */

struct weir_member *
weir__member_new(struct weir_upstream *upstream, const char *address, const char *origin, const struct weir_member_config *config)
{
        size_t text = strlen(address) + 1, origin_text = origin ? strlen(origin) + 1 : 0,
               size = sizeof(struct weir_member) + text + origin_text;
        struct weir_member *member = weir__alloc(size);

        if (!member)
                return NULL;
        memset(member, 0, sizeof *member);
        memcpy(member->address, address, text);
        if (origin)
                member->origin = memcpy(member->address + text, origin, origin_text);
        member->id = ++upstream->ids;
        member->hash = weir__choose_hash(address, text - 1);
        member->max_in_flight = config->max_in_flight;
        member->tier = config->tier;
        member->size = (uint32_t)size;
        member->is_enabled = true;
        atomic_init(&member->in_flight, 0);
        atomic_init(&member->weight, config->weight);
        return member;
}

void
weir__member_free(struct weir_member *member)
{
        weir__free(member, member->size);
}

size_t
weir__member_find(const struct weir_upstream *upstream, const char *address)
{
        uint64_t hash = weir__choose_hash(address, strlen(address));

        for (size_t i = 0; i < upstream->count; i++)
                if (upstream->members[i]->hash == hash && strcmp(upstream->members[i]->address, address) == 0)
                        return i;
        return SIZE_MAX;
}

void
weir__member_remove(struct weir_upstream *upstream, size_t index)
{
        struct weir_member *member = upstream->members[index];

        weir__lock(&upstream->lock);
        weir__table_take(upstream, index);
        weir__table_settle(upstream);
        member->is_removed = true;
        bool is_over = weir__member_is_over(member);
        weir__unlock(&upstream->lock);
        if (is_over)
                weir__member_free(member);
}

/* -- the public face -- */

static int
add(struct weir_upstream *upstream, const char *address, const struct weir_member_config *config)
{
        struct weir_member *member = NULL;

        if (weir__member_find(upstream, address) != SIZE_MAX)
                return -EEXIST;
        if (weir__table_reserve(upstream, upstream->count + 1) != 0 ||
            !(member = weir__member_new(upstream, address, NULL, config)))
                return -ENOMEM;
        weir__lock(&upstream->lock);
        weir__table_append(upstream, member);
        weir__table_settle(upstream);
        weir__unlock(&upstream->lock);
        return 0;
}

int
weir_upstream_add(weir_upstream *upstream, const char *address, const struct weir_member_config *config)
{
        struct weir_member_config own;
        int fault = weir__upstream_fault(upstream);

        if (!fault)
                fault = weir__member_check("weir_upstream_add", address, config, &own);
        if (fault)
                return fault;
        weir__lock(&upstream->changes);
        int failed = add(upstream, address, &own);
        weir__unlock(&upstream->changes);
        return failed;
}

/* What is done to a member that is found.  Under `changes`. */
typedef void act_fn(struct weir_upstream *upstream, size_t index, unsigned value);

static int
act_on(struct weir_upstream *upstream, const char *address, act_fn *act, unsigned value)
{
        int fault = weir__upstream_fault(upstream);

        if (fault)
                return fault;
        weir__lock(&upstream->changes);
        size_t index = address ? weir__member_find(upstream, address) : SIZE_MAX;
        if (index != SIZE_MAX)
                act(upstream, index, value);
        weir__unlock(&upstream->changes);
        return index == SIZE_MAX ? -ENOENT : 0;
}

static void
act_remove(struct weir_upstream *upstream, size_t index, unsigned value)
{
        (void)value;
        weir__member_remove(upstream, index);
}

static void
act_enable(struct weir_upstream *upstream, size_t index, unsigned value)
{
        struct weir_member *member = upstream->members[index];

        weir__lock(&upstream->lock);
        if (member->is_enabled != value) {
                member->is_enabled = value;
                weir__breaker_reset(member);
                weir__table_settle(upstream);
        }
        weir__unlock(&upstream->lock);
}

static void
act_weight(struct weir_upstream *upstream, size_t index, unsigned value)
{
        weir__lock(&upstream->lock);
        atomic_store_explicit(&upstream->members[index]->weight, value, memory_order_relaxed);
        weir__table_settle(upstream);
        weir__unlock(&upstream->lock);
}

int
weir_upstream_remove(weir_upstream *upstream, const char *address)
{
        return act_on(upstream, address, act_remove, 0);
}

int
weir_upstream_disable(weir_upstream *upstream, const char *address)
{
        return act_on(upstream, address, act_enable, false);
}

int
weir_upstream_enable(weir_upstream *upstream, const char *address)
{
        return act_on(upstream, address, act_enable, true);
}

int
weir_upstream_weight(weir_upstream *upstream, const char *address, unsigned weight)
{
        if (weight == 0 || weight > WEIR_MEMBER_WEIGHT_MAX)
                return weir__log_refusal("weir_upstream_weight: %u: expected 1 to %d", weight, WEIR_MEMBER_WEIGHT_MAX);
        return act_on(upstream, address, act_weight, weight);
}

/* Under the lock. */
static void
describe(const struct weir_member *member, struct weir_member_info *info)
{
        strcpy(info->address, member->address);
        info->tier = member->tier;
        info->state = member->is_enabled ? member->state : WEIR_MEMBER_DISABLED;
        info->weight = weir__member_weight(member);
        info->is_failing = member->is_failing;
        info->max_in_flight = member->max_in_flight == SIZE_MAX ? 0 : member->max_in_flight;
        info->in_flight = weir__member_in_flight(member);
        info->requests = member->requests;
        info->failures = member->failures;
        info->ejections = member->ejections;
        info->ejected_until = info->state == WEIR_MEMBER_OPEN ? member->ejected_until : 0;
}

int
weir_upstream_member(weir_upstream *upstream, size_t index, struct weir_member_info *info)
{
        struct weir_member_info own = {.size = sizeof own};
        int fault = weir__upstream_fault(upstream);

        if (fault)
                return fault;
        if (!info || !weir__config_has_size(info))
                return weir__log_refusal("weir_upstream_member: %s", WEIR__SIZE_EXPECTED("weir_member_info"));
        weir__lock(&upstream->lock);
        weir__breaker_wake(upstream, weir__clock_now());
        bool is_there = index < upstream->count;
        if (is_there)
                describe(upstream->members[index], &own);
        weir__unlock(&upstream->lock);
        if (!is_there)
                return -ENOENT;
        weir__config_write(info, sizeof own, &own);
        return 0;
}

const char *
weir_member_address(const weir_member *member)
{
        return member ? member->address : NULL;
}

unsigned
weir_member_weight(const weir_member *member)
{
        return member ? weir__member_weight(member) : 0;
}

size_t
weir_member_in_flight(const weir_member *member)
{
        return member ? weir__member_in_flight(member) : 0;
}
