/* net/upstream/upstream.c: the life of upstreams, their names and their list.
 *
 * Threads: any.
 * Locks:   that of a name's shard, and under it that of the list, a leaf.
 *
 * The name is in a map of names as long as there is a reference.  An upstream without one is about to be freed, and is not
 * found. */
#include <errno.h>
#include <string.h>

#include "factory/flow/budget.h"
#include "factory/names/names.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/data/ascii.h"
#include "kernel/data/count.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/config.h"
#include "net/upstream/member.h"

static struct weir__lock list_lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF);
static struct weir__list list; /* of all upstreams, in the order in which they were made; guarded by list_lock */

static struct weir_upstream *
bearer_of(struct weir__name *name)
{
        return weir__container_of(name, struct weir_upstream, name);
}

static struct weir_upstream *
listed(struct weir__link *link)
{
        return link ? weir__container_of(link, struct weir_upstream, link) : NULL;
}

/* -- forks: the threads that had locks are not in the child -- */

static void
before_fork(void)
{
        weir__lock_hold(&list_lock);
}

static void
after_fork(void)
{
        weir__unlock(&list_lock);
}

static void
become_child(void)
{
        for (struct weir__link *link = weir__list_first(&list); link; link = weir__list_next(&list, link)) {
                weir__lock_init(&listed(link)->changes, WEIR__RANK_WAITABLE);
                weir__lock_init(&listed(link)->lock, WEIR__RANK_LEAF);
        }
        after_fork();
}

WEIR__STEPS_OF(WEIR__MODULE_UPSTREAMS, [WEIR__STEP_BEFORE_FORK] = before_fork, [WEIR__STEP_AFTER_FORK] = after_fork,
               [WEIR__STEP_IN_CHILD] = become_child);

/* -- the config -- */

static const char *
wrong_field(const struct weir_upstream_config *config)
{
        const struct {
                bool is_wrong;
                const char *expected;
        } fields[] = {
                {(int)config->policy < WEIR_UPSTREAM_TWO_CHOICES || config->policy > WEIR_UPSTREAM_FUNCTION,
                 "policy: expected an enum weir_upstream_policy"},
                {config->window < 0, "window: expected 0 or more"},
                {config->ejection < 0, "ejection: expected 0 or more"},
                {config->max_ejection < 0, "max_ejection: expected 0 or more"},
                {config->hash_bound && config->hash_bound <= 100, "hash_bound: expected more than 100, or 0"},
                {config->hedge_percent > 100, "hedge_percent: expected 0 to 100"},
                {config->hedge_percentile > 99, "hedge_percentile: expected 1 to 99, or 0"},
                {config->reserved, "reserved: expected 0"},
                {config->policy == WEIR_UPSTREAM_FUNCTION && !config->choose, "choose: expected the function of the policy"},
        };

        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                if (fields[i].is_wrong)
                        return fields[i].expected;
        return NULL;
}

static weir_nsec
time_or(weir_nsec given, weir_nsec otherwise)
{
        return given ? given : otherwise;
}

static unsigned
number_or(unsigned given, unsigned otherwise)
{
        return given ? given : otherwise;
}

static int
read_config(struct weir_upstream_config *to, const struct weir_upstream_config *from)
{
        *to = (struct weir_upstream_config)WEIR_UPSTREAM_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        const char *expected = failed ? WEIR__CONFIG_EXPECTED("weir_upstream_config", "WEIR_UPSTREAM_CONFIG_DEFAULT")
                                      : wrong_field(to);
        if (expected)
                return weir__log_refusal("weir_upstream_new: %s", expected);
        to->failures_in_row = number_or(to->failures_in_row, 5);
        to->window_percent = number_or(to->window_percent, 50);
        to->window_requests = number_or(to->window_requests, 20);
        to->window = time_or(to->window, WEIR_SEC(10));
        to->window = to->window < WEIR__WINDOW_PARTS ? WEIR__WINDOW_PARTS : to->window;
        to->ejection = time_or(to->ejection, WEIR_SEC(30));
        to->max_ejection = time_or(to->max_ejection, WEIR_SEC(300));
        to->max_ejection = to->max_ejection < to->ejection ? to->ejection : to->max_ejection;
        to->hash_bound = number_or(to->hash_bound, 125);
        to->hedge_percentile = number_or(to->hedge_percentile, 95);
        return 0;
}

/* -- names -- */

static bool
is_of_name(char byte)
{
        return weir__is_digit(byte) || (byte >= 'a' && byte <= 'z') || strchr("-._", byte);
}

/* The name in lower case, with its key, whose text is `text`.  Result: 0, -EINVAL, -ENAMETOOLONG. */
static int
read_name(const char *name, char text[WEIR_UPSTREAM_NAME_MAX + 1], struct weir__name_key *key)
{
        size_t size = name ? strlen(name) : 0;

        if (size == 0 || size > WEIR_UPSTREAM_NAME_MAX)
                return size == 0 ? -EINVAL : -ENAMETOOLONG;
        for (size_t i = 0; i < size; i++) {
                text[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
                if (!is_of_name(text[i]))
                        return -EINVAL;
        }
        text[size] = 0;
        *key = weir__name_key(text, size);
        return 0;
}

/* The one of that name which is not about to be freed, with a reference.  Under the shard's lock. */
static struct weir_upstream *
find(struct weir__names_shard *shard, const struct weir__name_key *key)
{
        for (struct weir__name *name = weir__names_find(shard, key); name; name = name->newer)
                if (weir__count_add_unless_zero(&bearer_of(name)->references))
                        return bearer_of(name);
        return NULL;
}

weir_upstream *
weir_upstream_find(const char *name)
{
        char text[WEIR_UPSTREAM_NAME_MAX + 1];
        struct weir__name_key key;

        if (weir__phase_is_forked() || read_name(name, text, &key) != 0)
                return NULL;
        struct weir__names_shard *shard = weir__names_lock(&weir__upstream_names, key.hash);
        struct weir_upstream *found = find(shard, &key);
        weir__names_unlock(shard);
        return found;
}

/* -- life -- */

static size_t
size_of(const struct weir__name_key *key)
{
        return WEIR__NAME_SIZE(offsetof(struct weir_upstream, name), key->size);
}

/* Frees an upstream that is in no map and no list. */
static void
drop(struct weir_upstream *upstream)
{
        struct weir__name_key key = weir__name_key_of(&upstream->name);

        for (size_t i = 0; i < upstream->count; i++)
                weir__member_free(upstream->members[i]);
        weir__table_drop(upstream);
        weir__follow_drop(upstream);
        if (upstream->latencies)
                weir__free(upstream->latencies, sizeof *upstream->latencies);
        weir_retry_budget_free(upstream->config.budget);
        weir__free(upstream, size_of(&key));
}

static struct weir_upstream *
make(const struct weir__name_key *key, const struct weir_upstream_config *config)
{
        struct weir_upstream *upstream = weir__alloc(size_of(key));

        if (!upstream)
                return NULL;
        memset(upstream, 0, offsetof(struct weir_upstream, name));
        weir__names_init(&upstream->name, key);
        upstream->config = *config;
        upstream->config.budget = weir__budget_ref(config->budget);
        upstream->next_probe = WEIR_FOREVER;
        atomic_init(&upstream->next_look, WEIR_FOREVER);
        atomic_init(&upstream->hedge_after, WEIR_FOREVER);
        atomic_init(&upstream->references, 1);
        weir__lock_init(&upstream->changes, WEIR__RANK_WAITABLE);
        weir__lock_init(&upstream->lock, WEIR__RANK_LEAF);
        if (config->hedge_percent == 0)
                return upstream;
        upstream->latencies = weir__alloc(sizeof *upstream->latencies);
        if (!upstream->latencies) {
                drop(upstream);
                return NULL;
        }
        memset(upstream->latencies, 0, sizeof *upstream->latencies);
        return upstream;
}

/* The upstream is in the list before it can be found, because a finder may look for the next one in the list. */
static void
enlist(struct weir_upstream *upstream)
{
        weir__lock(&list_lock);
        weir__list_append(&list, &upstream->link);
        weir__unlock(&list_lock);
}

/* Result: 0, -EEXIST, -ENOMEM. */
static int
publish(struct weir_upstream *upstream, const struct weir__name_key *key)
{
        struct weir__names_shard *shard = weir__names_lock(&weir__upstream_names, key->hash);
        struct weir_upstream *found = find(shard, key);
        bool is_put = !found && weir__names_put(shard, &upstream->name);

        if (is_put)
                enlist(upstream);
        weir__names_unlock(shard);
        weir_upstream_unref(found);
        return is_put ? 0 : found ? -EEXIST : -ENOMEM;
}

weir_upstream *
weir_upstream_new(const char *name, const struct weir_upstream_config *config)
{
        char text[WEIR_UPSTREAM_NAME_MAX + 1];
        struct weir__name_key key;
        struct weir_upstream_config own;
        int failed = read_name(name, text, &key);

        if (failed)
                weir__log_refusal("weir_upstream_new: expected a name of 1 to %d letters, digits, '.', '-' and '_'",
                                  WEIR_UPSTREAM_NAME_MAX);
        else
                failed = weir__phase_is_forked() ? -ECHILD : read_config(&own, config);
        struct weir_upstream *upstream = failed ? NULL : make(&key, &own);
        if (!failed)
                failed = upstream ? publish(upstream, &key) : -ENOMEM;
        if (!failed)
                return upstream;
        if (upstream)
                drop(upstream);
        errno = -failed;
        return NULL;
}

weir_upstream *
weir_upstream_ref(weir_upstream *upstream)
{
        weir__memory_expect(upstream);
        if (upstream)
                atomic_fetch_add_explicit(&upstream->references, 1, memory_order_relaxed);
        return upstream;
}

void
weir_upstream_unref(weir_upstream *upstream)
{
        weir__memory_expect(upstream);
        if (!upstream || atomic_fetch_sub_explicit(&upstream->references, 1, memory_order_acq_rel) > 1)
                return;
        weir__names_remove(&weir__upstream_names, &upstream->name);
        weir__lock(&list_lock);
        weir__link_remove(&upstream->link);
        weir__unlock(&list_lock);
        drop(upstream);
}

/* -- the list -- */

struct weir_upstream *
weir__upstream_next(struct weir_upstream *before)
{
        weir__lock(&list_lock);
        struct weir_upstream *next = listed(before ? weir__list_next(&list, &before->link) : weir__list_first(&list));
        while (next && !weir__count_add_unless_zero(&next->references))
                next = listed(weir__list_next(&list, &next->link));
        weir__unlock(&list_lock);
        weir_upstream_unref(before);
        return next;
}

const char *
weir__upstream_name(const struct weir_upstream *upstream)
{
        return upstream->name.text;
}
