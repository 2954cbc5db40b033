/* net/upstream/addresses.c: members that are the addresses of a name.
 *
 * Threads: any.
 * Locks:   `changes` of the upstream throughout, `lock` when all is ready: so picks see the list before or the list after.
 *
 * A member is known by its address and its origin.  What is in both lists stays as it is: its requests in flight, its breaker and
 * its counts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/memory/memory.h"
#include "net/upstream/member.h"

/* What comes and what goes. */
struct difference {
        struct weir_member **come; /* NULL where the address is there */
        size_t coming, going;
};

static bool
is_listed(const struct weir_member *member, const uint64_t *hashes, const char *const *addresses, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (hashes[i] == member->hash && strcmp(addresses[i], member->address) == 0)
                        return true;
        return false;
}

static bool
is_of(const struct weir_member *member, const char *origin)
{
        return member->origin && strcmp(member->origin, origin) == 0;
}

static bool
is_repeated(const uint64_t *hashes, const char *const *addresses, size_t index)
{
        for (size_t i = 0; i < index; i++)
                if (hashes[i] == hashes[index] && strcmp(addresses[i], addresses[index]) == 0)
                        return true;
        return false;
}

/* Takes those of the origin that are not listed out of the table, and puts them at `gone`.  Under the lock. */
static size_t
take_gone(struct weir_upstream *upstream, const char *origin, const uint64_t *hashes, const char *const *addresses, size_t count,
          struct weir_member **gone)
{
        size_t going = 0;

        for (size_t i = upstream->count; i-- > 0;) {
                struct weir_member *member = upstream->members[i];

                if (!is_of(member, origin) || is_listed(member, hashes, addresses, count))
                        continue;
                weir__table_take(upstream, i);
                member->is_removed = true;
                if (weir__member_is_over(member))
                        gone[going++] = member;
        }
        return going;
}

static void
free_all(struct weir_member **members, size_t count)
{
        for (size_t i = 0; i < count; i++)
                weir__member_free(members[i]);
}

/* Makes the members of new addresses.  Returns false, and has made none, when out of memory. */
static bool
make(struct weir_upstream *upstream, const char *origin, const uint64_t *hashes, const char *const *addresses, size_t count,
     const struct weir_member_config *config, struct weir_member **made, size_t *ret_made)
{
        *ret_made = 0;
        for (size_t i = 0; i < count; i++) {
                if (weir__member_find(upstream, addresses[i]) != SIZE_MAX || is_repeated(hashes, addresses, i))
                        continue;
                made[*ret_made] = weir__member_new(upstream, addresses[i], origin, config);
                if (!made[*ret_made]) {
                        free_all(made, *ret_made);
                        return false;
                }
                ++*ret_made;
        }
        return true;
}

/* Under `changes`.  `list` has room for all that come and all that go. */
static int
change(struct weir_upstream *upstream, const char *origin, const uint64_t *hashes, const char *const *addresses, size_t count,
       const struct weir_member_config *config, struct weir_member **list)
{
        size_t made;

        if (weir__table_reserve(upstream, upstream->count + count) != 0 ||
            !make(upstream, origin, hashes, addresses, count, config, list, &made))
                return -ENOMEM;
        struct weir_member **gone = list + made;
        weir__lock(&upstream->lock);
        size_t going = take_gone(upstream, origin, hashes, addresses, count, gone);
        for (size_t i = 0; i < made; i++)
                weir__table_append(upstream, list[i]);
        weir__table_settle(upstream);
        weir__unlock(&upstream->lock);
        free_all(gone, going);
        return 0;
}

int
weir__addresses_set(struct weir_upstream *upstream, const char *origin, const char *const *addresses, size_t count,
                    const struct weir_member_config *config)
{
        size_t room = count + upstream->count;
        uint64_t *hashes = weir__alloc((count + 1) * sizeof *hashes);
        struct weir_member **list = weir__alloc((room + 1) * sizeof *list);
        int failed = hashes && list ? 0 : -ENOMEM;

        for (size_t i = 0; i < count && !failed; i++)
                hashes[i] = weir__choose_hash(addresses[i], strlen(addresses[i]));
        if (!failed)
                failed = change(upstream, origin, hashes, addresses, count, config, list);
        if (hashes)
                weir__free(hashes, (count + 1) * sizeof *hashes);
        if (list)
                weir__free(list, (room + 1) * sizeof *list);
        return failed;
}

void
weir__addresses_clear(struct weir_upstream *upstream, const char *origin)
{
        for (size_t i = upstream->count; i-- > 0;)
                if (is_of(upstream->members[i], origin))
                        weir__member_remove(upstream, i);
}

int
weir__upstream_set_addresses(struct weir_upstream *upstream, const char *origin, const char *const *addresses, size_t count,
                             const struct weir_member_config *config)
{
        struct weir_member_config own;
        int failed = weir__upstream_fault(upstream);

        for (size_t i = 0; i < count && !failed; i++)
                failed = weir__member_check("the addresses of an upstream", addresses[i], config, &own);
        if (failed)
                return failed;
        weir__lock(&upstream->changes);
        failed = weir__addresses_set(upstream, origin, addresses, count, &own);
        weir__unlock(&upstream->changes);
        return failed;
}
