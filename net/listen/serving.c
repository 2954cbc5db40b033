/* net/listen/serving.c: the servers that serve.
 *
 * Threads: the threads that start and stop servers change the list; any thread walks through it.
 * Locks:   `serving.lock` (a leaf) guards the list, and keeps the branches of the servers in it.  It is held while all counts are
 *          added up, some hundred for each poller of each server.  Only starts and stops wait for it.  No memory is allocated
 *          under it. */
#include "net/listen/serving.h"

#include <stdio.h>
#include <string.h>

#include "kernel/base/phase.h"
#include "kernel/worker/deliver.h"
#include "net/listen/server.h"

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__list list; /* of struct weir__serving, in the order of their starts */
        size_t count;           /* of its elements */
} serving = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* -- names -- */

/* Writes the path of a Unix socket, which may have any bytes, in visible ASCII. */
static void
write_path(const struct weir__socket_address *bound, char *out, size_t room)
{
        size_t size = bound->size - offsetof(struct sockaddr_un, sun_path);
        const char *path = bound->un.sun_path;
        bool is_abstract = size && !path[0];

        size = is_abstract ? size : strnlen(path, size);
        int length = snprintf(out, room, "unix:%s", is_abstract ? "@" : "");
        for (size_t i = is_abstract; i < size && (size_t)length + 1 < room; i++)
                out[length++] = (char)(path[i] > ' ' && path[i] < 0x7f ? path[i] : '?');
        out[length] = '\0';
}

static void
write_name(const struct weir__server *server, char *out, size_t room)
{
        struct weir__socket_address bound = {.size = 0};

        if (!server->sockets.count || !weir__socket_name(server->sockets.all[0].fd, &bound)) {
                snprintf(out, room, "unknown");
        } else if (bound.any.sa_family == AF_UNIX) {
                write_path(&bound, out, room);
        } else {
                struct weir__peer address = weir__peer_of(&bound.storage, bound.size);

                weir__peer_write(&address, true, out);
        }
}

/* -- the list -- */

static struct weir__server *
server_of(struct weir__link *link)
{
        return weir__container_of(link, struct weir__server, serving.link);
}

/* Whether a server has that name already.  The lock is held. */
static bool
is_taken(const char *protocol, const char *name, unsigned ordinal)
{
        for (struct weir__link *each = weir__list_first(&serving.list); each; each = weir__list_next(&serving.list, each)) {
                const struct weir__server *other = server_of(each);

                if (other->serving.ordinal == ordinal && strcmp(other->ops->protocol, protocol) == 0 &&
                    strcmp(other->serving.name, name) == 0)
                        return true;
        }
        return false;
}

/* -- the end of the runtime -- */

static void
disown_run(struct weir__work *work)
{
        struct weir__branch *branch = weir__container_of(work, struct weir__branch, disown);

        branch->server->ops->disown(branch);
        weir__users_remove(&branch->server->users);
}

static const struct weir__work_ops disown_ops = {.run = disown_run};

/* With the lock held: the branches are there.  Without a user there is no connection any more.  A server of an earlier runtime
 * has none, and its pollers may run no longer. */
static void
disown(struct weir__server *server)
{
        if (!server->ops->disown || server->generation != weir__phase_generation || server->serving.is_disowned)
                return;
        server->serving.is_disowned = true;
        for (unsigned i = 0; i < server->branch_count; i++) {
                struct weir__branch *branch = weir__server_branch(server, i);

                if (!weir__users_try_add(&server->users))
                        return;
                branch->disown.ops = &disown_ops;
                weir__deliver(branch->poller, &branch->disown);
        }
}

static void
disown_all(void)
{
        weir__lock(&serving.lock);
        for (struct weir__link *each = weir__list_first(&serving.list); each; each = weir__list_next(&serving.list, each))
                disown(server_of(each));
        weir__unlock(&serving.lock);
}

static void
before_fork(void)
{
        weir__lock_hold(&serving.lock);
}

static void
after_fork(void)
{
        weir__unlock(&serving.lock);
}

WEIR__STEPS_OF(WEIR__MODULE_SERVERS, [WEIR__STEP_SHUTDOWN] = disown_all, [WEIR__STEP_BEFORE_FORK] = before_fork,
               [WEIR__STEP_AFTER_FORK] = after_fork, [WEIR__STEP_IN_CHILD] = after_fork);

void
weir__serving_begin(struct weir__server *server)
{
        struct weir__serving *own = &server->serving;

        write_name(server, own->name, sizeof own->name);
        weir__lock(&serving.lock);
        for (own->ordinal = 1; is_taken(server->ops->protocol, own->name, own->ordinal); own->ordinal++)
                ;
        weir__list_append(&serving.list, &own->link);
        serving.count++;
        if (weir__phase_is_stopping()) /* the shutdown may have looked at the list before */
                disown(server);
        weir__unlock(&serving.lock);
}

void
weir__serving_end(struct weir__server *server)
{
        weir__lock(&serving.lock);
        weir__link_remove(&server->serving.link);
        serving.count--;
        weir__unlock(&serving.lock);
}

size_t
weir__serving_count(void)
{
        weir__lock(&serving.lock);
        size_t count = serving.count;
        weir__unlock(&serving.lock);
        return count;
}

void
weir__serving_walk(const char *protocol, bool (*fn)(const struct weir__server *server, void *context), void *context)
{
        bool is_over = false;

        weir__lock(&serving.lock);
        for (struct weir__link *each = weir__list_first(&serving.list); each && !is_over;
             each = weir__list_next(&serving.list, each))
                if (strcmp(server_of(each)->ops->protocol, protocol) == 0)
                        is_over = fn(server_of(each), context);
        weir__unlock(&serving.lock);
}

void
weir__serving_write_name(const struct weir__server *server, char out[WEIR__SERVING_NAME])
{
        const struct weir__serving *own = &server->serving;

        if (own->ordinal > 1)
                snprintf(out, WEIR__SERVING_NAME, "%s#%u", own->name, own->ordinal);
        else
                snprintf(out, WEIR__SERVING_NAME, "%s", own->name);
}
