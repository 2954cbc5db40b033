/* net/upstream/follow.c: names whose addresses are members.
 *
 *     followed, or a pick finds that a look is due --> the look-up, a task --> its callback sets the members
 *
 * A name is looked up when a request comes, and LOOK_INTERVAL has passed since the last answer.  The resolver keeps answers by
 * their TTL, so most looks cost a search in its cache.  Without requests nothing runs, and time on the virtual clock can end.
 *
 * A look-up has a reference to the upstream.  One that fails leaves the members as they are.
 *
 * Threads: any; the callback runs on a worker.
 * Locks:   `changes` of the upstream guards the names. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/promise.h>
#include <weir/resolve.h>

#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/socket/address.h"
#include "net/upstream/member.h"

#define LOOK_INTERVAL WEIR_SEC(5)

/* A name, under `changes`. */
struct weir__followed {
        struct weir__link link; /* in the upstream */
        struct weir_member_config config;
        bool is_looking; /* a look-up is under way, which frees it if it is gone by then */
        bool is_gone;
        weir_nsec next_look;
        in_port_t port;
        char host[WEIR__HOST_BYTES + 1];
        char origin[]; /* as it was given */
};

/* A look-up that is under way. */
struct look {
        struct weir_upstream *upstream; /* a reference */
        struct weir__followed *followed;
        weir_task *promise; /* a reference, of the task of the program; or NULL */
};

static size_t
size_of(const struct weir__followed *followed)
{
        return sizeof *followed + strlen(followed->origin) + 1;
}

static void
free_followed(struct weir__followed *followed)
{
        weir__free(followed, size_of(followed));
}

/* Picks see the earliest look.  Under `changes`. */
static void
publish(struct weir_upstream *upstream)
{
        weir_nsec next = WEIR_FOREVER;

        for (struct weir__link *link = weir__list_first(&upstream->followed); link;
             link = weir__list_next(&upstream->followed, link)) {
                const struct weir__followed *followed = weir__container_of(link, struct weir__followed, link);

                if (!followed->is_looking && followed->next_look < next)
                        next = followed->next_look;
        }
        atomic_store_explicit(&upstream->next_look, next, memory_order_relaxed);
}

/* -- the answer -- */

struct text {
        char address[WEIR_RESOLVE_TEXT + 10]; /* with brackets and the port */
};

static void
write_address(const weir_task *resolve, unsigned index, in_port_t port, struct text *out)
{
        char host[WEIR_RESOLVE_TEXT];

        weir_resolve_write(resolve, index, host, sizeof host);
        snprintf(out->address, sizeof out->address, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

/* Sets the members to what was found.  Under `changes`. */
static int
take(struct weir_upstream *upstream, const struct weir__followed *followed, const weir_task *resolve)
{
        unsigned count = weir_resolve_count(resolve);
        size_t size = count * (sizeof(struct text) + sizeof(const char *));
        const char **addresses = weir__alloc(size ? size : 1);
        struct text *texts = (struct text *)(addresses + count);

        if (!addresses)
                return -ENOMEM;
        for (unsigned i = 0; i < count; i++) {
                write_address(resolve, i, followed->port, &texts[i]);
                addresses[i] = texts[i].address;
        }
        int failed = weir__addresses_set(upstream, followed->origin, addresses, count, &followed->config);
        weir__free(addresses, size ? size : 1);
        return failed;
}

static void
end_look(struct look *look, int status)
{
        if (look->promise)
                weir_promise_end(look->promise, status);
        weir_promise_unref(look->promise);
        weir_upstream_unref(look->upstream);
        weir__free(look, sizeof *look);
}

/* The look-up has come to that.  `resolve` may be NULL: it could not begin. */
static int
finish(struct look *look, const weir_task *resolve, int status)
{
        struct weir_upstream *upstream = look->upstream;
        struct weir__followed *followed = look->followed;

        weir__lock(&upstream->changes);
        if (!followed->is_gone && status == 0)
                status = take(upstream, followed, resolve);
        followed->is_looking = false;
        followed->next_look = weir__clock_after(weir__clock_now(), LOOK_INTERVAL);
        bool is_gone = followed->is_gone;
        publish(upstream);
        weir__unlock(&upstream->changes);
        if (is_gone)
                free_followed(followed);
        return status;
}

static void
answered(weir_task *resolve, void *context)
{
        static struct weir__log_limit limit;
        struct look *look = context;
        int status = weir_task_status(resolve);
        const char *problem = weir_resolve_problem(resolve);

        if (problem)
                weir__log_limited(&limit, WEIR_LOG_WARNING, "upstream %s keeps its members: %s", look->upstream->name.text,
                                  problem);
        status = finish(look, resolve, status);
        end_look(look, status);
}

/* -- looks -- */

/* `followed` is marked as looking.  Takes the reference to the promise. */
static int
begin(struct weir_upstream *upstream, struct weir__followed *followed, weir_task *promise)
{
        struct look *look = weir__alloc(sizeof *look), lost = {weir_upstream_ref(upstream), followed, promise};
        weir_task *resolve = look ? weir_resolve_new(followed->host, 0, answered, look) : NULL;

        if (look)
                *look = lost;
        int failed = weir_task_start(resolve);
        if (!failed)
                return 0;
        finish(&lost, NULL, failed);
        if (look)
                weir__free(look, sizeof *look);
        if (promise)
                weir_promise_end(promise, failed);
        weir_promise_unref(promise);
        weir_upstream_unref(upstream);
        return failed;
}

static struct weir__followed *
take_due(struct weir_upstream *upstream, weir_nsec now)
{
        for (struct weir__link *link = weir__list_first(&upstream->followed); link;
             link = weir__list_next(&upstream->followed, link)) {
                struct weir__followed *followed = weir__container_of(link, struct weir__followed, link);

                if (!followed->is_looking && followed->next_look <= now)
                        return followed;
        }
        return NULL;
}

void
weir__follow_look(struct weir_upstream *upstream, weir_nsec now)
{
        for (;;) {
                weir__lock(&upstream->changes);
                struct weir__followed *due = take_due(upstream, now);
                if (due) {
                        due->is_looking = true;
                        publish(upstream);
                }
                weir__unlock(&upstream->changes);
                if (!due)
                        return;
                begin(upstream, due, NULL);
        }
}

/* -- the public face -- */

static struct weir__followed *
find(struct weir_upstream *upstream, const char *origin)
{
        for (struct weir__link *link = weir__list_first(&upstream->followed); link;
             link = weir__list_next(&upstream->followed, link)) {
                struct weir__followed *followed = weir__container_of(link, struct weir__followed, link);

                if (strcmp(followed->origin, origin) == 0)
                        return followed;
        }
        return NULL;
}

/* Result: 0, -EEXIST, -EINVAL, -ENAMETOOLONG, -ENOMEM. */
static int
make(const char *name, const struct weir_member_config *given, struct weir__followed **ret_made)
{
        struct weir_member_config config;
        struct weir__address parsed;
        const char *reason;
        int failed = weir__member_check("weir_upstream_follow_new", name, given, &config);

        if (failed)
                return failed;
        (void)weir__address_parse_peer(name, strlen(name), &parsed, &reason);
        if (parsed.kind == WEIR__ADDRESS_UNIX)
                return weir__log_refusal("weir_upstream_follow_new: \"%s\": expected host:port", name);
        struct weir__followed *made = weir__alloc(sizeof *made + strlen(name) + 1);
        if (!made)
                return -ENOMEM;
        memset(made, 0, sizeof *made);
        made->config = config;
        made->port = parsed.port;
        made->is_looking = true;
        strcpy(made->host, parsed.host);
        strcpy(made->origin, name);
        *ret_made = made;
        return 0;
}

static int
add(struct weir_upstream *upstream, const char *name, const struct weir_member_config *config, struct weir__followed **ret_made)
{
        int failed = weir__upstream_fault(upstream);

        if (!failed)
                failed = make(name, config, ret_made);
        if (failed)
                return failed;
        weir__lock(&upstream->changes);
        bool is_there = find(upstream, name);
        if (!is_there)
                weir__list_append(&upstream->followed, &(*ret_made)->link);
        weir__unlock(&upstream->changes);
        if (is_there)
                free_followed(*ret_made);
        return is_there ? -EEXIST : 0;
}

weir_task *
weir_upstream_follow_new(weir_upstream *upstream, const char *name, const struct weir_member_config *config, weir_task_fn *done,
                         void *context)
{
        weir_task *promise = weir_promise_new(NULL, done, context);
        struct weir__followed *made;

        if (!promise)
                return NULL;
        int failed = add(upstream, name, config, &made);
        if (failed)
                weir_promise_end(promise, failed);
        else
                (void)begin(upstream, made, weir_promise_ref(promise));
        return promise;
}

int
weir_upstream_unfollow(weir_upstream *upstream, const char *name)
{
        int fault = weir__upstream_fault(upstream);

        if (fault)
                return fault;
        weir__lock(&upstream->changes);
        struct weir__followed *followed = name ? find(upstream, name) : NULL;
        bool is_free = followed && !followed->is_looking;
        if (followed) {
                weir__link_remove(&followed->link);
                followed->is_gone = true;
                weir__addresses_clear(upstream, name);
                publish(upstream);
        }
        weir__unlock(&upstream->changes);
        if (is_free)
                free_followed(followed);
        return followed ? 0 : -ENOENT;
}

void
weir__follow_drop(struct weir_upstream *upstream)
{
        for (struct weir__link *link; (link = weir__list_pop(&upstream->followed));)
                free_followed(weir__container_of(link, struct weir__followed, link));
}
