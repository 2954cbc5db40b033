/* database/redis/command.c: a command as a task.
 *
 *     its begin: a direct request --answered--> the promise ends
 *           \                  \--it may be sent again--> a series: pause --> ask ...
 *            \--its node is not known to answer--> a series: ask ...
 *
 * A cancel of the promise cancels the series.  A direct request has none, which would cost a third of all: it goes out at once,
 * and its reply is thrown away if the promise has ended.
 *
 * Threads: made on any thread; the rest one after the other, but for the cancel. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <weir/flow.h>
#include <weir/timer.h>

#include "database/redis/redis.h"

#define RETRY_PAUSE_FIRST WEIR_MSEC(20)
#define RETRY_PAUSE_LAST  WEIR_SEC(2)
#define WORD_MOST         40 /* bytes of an argument in a dump */
#define REDIRECTS         5

static void send_again(weir_task *pause, void *context);
static void answered(weir_task *ask, void *context);
static weir_task *ask_new(struct weir__redis_command *command, weir_task_fn *done);
static int send_to_node(struct weir__redis_command *command);

/* -- the end -- */

/* Counts a command, unless it is of a session or a transaction, which have connections of their own. */
static __attribute__((cold, noinline)) void
count(const struct weir__redis_command *command, _Atomic uint64_t *total)
{
        if (!command->session && command->size)
                atomic_fetch_add_explicit(total, 1, memory_order_relaxed);
}

static inline void
end(struct weir__redis_command *command, int status)
{
        command->is_over = true;
        bool is_first = weir_promise_end_with(command->promise, status, command, NULL) == 0; /* or a cancel was */
        if (__builtin_expect(status != 0, 0) && is_first && !command->fault) /* with a fault there may be no client */
                count(command, &command->redis->failed);
}

static void
give_up_link(struct weir__redis_command *command)
{
        struct weir__redis_link *link = command->link;

        command->link = NULL;
        if (link && command->tree.root)
                weir__redis_link_give(link);
        else
                weir__redis_link_drop(link);
}

static void
set_node(struct weir__redis_command *command, struct weir__redis_node *node)
{
        atomic_store_explicit(&command->node, node, memory_order_relaxed);
}

void
weir__redis_command_fail(struct weir__redis_command *command, int status)
{
        end(command, status);
        weir_promise_unref(command->promise);
}

/* The same for one that was sent. */
static void
finish(struct weir__redis_command *command)
{
        weir_redis_session *session = command->session ? weir_redis_session_ref(command->session) : NULL;

        if (__builtin_expect(command->link != NULL, 0))
                give_up_link(command);
        weir_promise_unref(command->promise); /* the command may be gone */
        if (__builtin_expect(!session, 1))
                return;
        weir__redis_session_next(session);
        weir_redis_session_unref(session);
}

static void
series_over(weir_series *series, void *context)
{
        struct weir__redis_command *command = context;

        if (!command->is_over)
                end(command, weir_series_status(series));
        finish(command);
}

/* -- failures and errors -- */

static const char *const stages[] = {"wait for a connection to", "connect to", "greet", "send to",
                                     "wait for the reply of",    "hear"};

static void
note_failure(struct weir__redis_command *command, enum weir_ask_stage stage, int status)
{
        struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);
        char why[WEIR__REDIS_TEXT] = "", text[128];

        if (status == -ENOTCONN)
                snprintf(why, sizeof why, "the connection was lost before");
        else if (stage == WEIR_ASK_HELLO)
                weir__redis_node_problem(node, why);
        snprintf(command->problem, sizeof command->problem, "%s redis %s: %s", stages[stage], node->address,
                 *why             ? why
                 : status > -4096 ? strerror_r(-status, text, sizeof text)
                                  : "TLS has failed");
}

/* Whether the server cannot have executed it, or may do so twice. */
static bool
may_repeat(const struct weir__redis_command *command, enum weir_ask_stage stage)
{
        return stage <= WEIR_ASK_SENDING || command->is_repeatable ||
               (command->traits & WEIR__REDIS_READS && !(command->traits & WEIR__REDIS_WAITS));
}

/* Failures that pass by themselves. */
static bool
may_pass(int status)
{
        switch (status) {
        case -ECONNREFUSED:
        case -ECONNRESET:
        case -ECONNABORTED:
        case -EPIPE:
        case -ENOENT: /* a Unix socket of a server that starts */
        case -EHOSTUNREACH:
        case -ENETUNREACH:
        case -EAGAIN: return true;
        default: return false;
        }
}

/* Goes on with that task in the series of the command, which begins with it if there is none.  Result: 0 or a negative errno. */
static int
go_on(struct weir__redis_command *command, weir_task *task)
{
        weir_series *series = atomic_load_explicit(&command->series, memory_order_relaxed);

        if (series)
                return weir_series_push(series, task);
        series = weir_series_ref(weir_series_new(series_over, command));
        int failed = weir_series_push(series, task);
        if (!failed) {
                atomic_store(&command->series, series);
                if (atomic_load(&command->is_cancelled))
                        weir_series_cancel(series);
                return weir_series_start(series); /* if it fails it stays, for a cancel may look at it now */
        }
        weir_series_dismiss(series);
        weir_series_unref(series);
        return failed;
}

bool
weir__redis_command_pause(struct weir__redis_command *command)
{
        weir_nsec pause = RETRY_PAUSE_FIRST << (command->tries < 8 ? command->tries : 8);

        if (command->tries >= command->redis->settings->config.retries)
                return false;
        command->tries++;
        count(command, &command->redis->repeated);
        return go_on(command, weir_timer_new(pause < RETRY_PAUSE_LAST ? pause : RETRY_PAUSE_LAST, send_again, command)) == 0;
}

/* Sends it once more after a while; not where what was said before on its connection is lost.  Returns whether that will be. */
static bool
try_again(struct weir__redis_command *command)
{
        return !command->session && !command->link && weir__redis_command_pause(command);
}

static bool
is_loading(const char *text)
{
        return strncmp(text, "LOADING ", 8) == 0 || strncmp(text, "TRYAGAIN ", 9) == 0 ||
               strncmp(text, "CLUSTERDOWN ", 12) == 0 || strncmp(text, "MASTERDOWN ", 11) == 0;
}

static void
drop_tree(struct weir__redis_command *command)
{
        free(command->tree.memory);
        command->tree = (struct weir__redis_tree){0};
}

/* -- an answer -- */

/* In front of a command or a transaction that goes where a cluster told to ask.  Its reply is thrown away. */
static const char asking[] = "*1\r\n$6\r\nASKING\r\n";

static bool
put_asking(struct weir__redis_command *command)
{
        size_t size = command->other ? command->other_size : command->size;
        char *bytes = malloc(size + sizeof asking);

        if (!bytes)
                return false;
        memcpy(bytes, asking, sizeof asking - 1);
        memcpy(bytes + sizeof asking - 1, command->other ? command->other : command->bytes, size);
        free(command->other);
        command->other = bytes;
        command->other_size = size + sizeof asking - 1;
        return true;
}

/* A server that does not know the script gets all of it.  Result: 0: it does; -ENOMEM; other errors of a start; or the status. */
static int
send_whole(struct weir__redis_command *command, int status)
{
        size_t size;

        if (status != -ENOENT || !command->script || command->is_whole)
                return status;
        char *whole = weir__redis_script_whole(command->script, command->bytes, command->size, &size);
        if (!whole)
                return -ENOMEM;
        free(command->other);
        command->other = whole;
        command->other_size = size;
        command->is_whole = true;
        int failed = command->is_asking && !put_asking(command) ? -ENOMEM : 0;
        failed = failed ? failed : go_on(command, ask_new(command, answered));
        if (!failed)
                drop_tree(command);
        return failed;
}

static bool
ask_there(struct weir__redis_command *command, struct weir__redis_node *node)
{
        if (!put_asking(command))
                return false;
        command->replies = command->replies ? command->replies + 1 : 2;
        command->is_asking = true;
        set_node(command, node);
        return send_to_node(command) == 0;
}

/* What was in front of it is left out again. */
static void
ask_no_more(struct weir__redis_command *command)
{
        command->other_size -= sizeof asking - 1;
        memmove(command->other, command->other + sizeof asking - 1, command->other_size);
        command->replies = command->replies > 2 ? command->replies - 1 : 0;
        command->is_asking = false;
}

/* It goes out anew: on another link, if it has one, and without what was in front. */
static void
leave(struct weir__redis_command *command)
{
        give_up_link(command);
        if (command->is_asking)
                ask_no_more(command);
}

/* Another node of the cluster has the slot.  Returns whether it was sent there. */
static bool
redirect(struct weir__redis_command *command, const char *text)
{
        bool is_moved;
        struct weir__redis_node *from = atomic_load_explicit(&command->node, memory_order_relaxed),
                                *node = weir__redis_redirect(command->redis, from, text, &is_moved);

        if (!node || command->redirects >= REDIRECTS)
                return false;
        command->redirects++;
        if (command->session)
                return is_moved && weir__redis_session_move(command, node) == 0;
        leave(command);
        if (!is_moved)
                return ask_there(command, node);
        set_node(command, node);
        return send_to_node(command) == 0;
}

/* Errors that pass by themselves, of commands that were not executed. */
static bool
is_passing(struct weir__redis_command *command, const char *text)
{
        if (command->redis->settings->mode == WEIR__REDIS_SENTINEL && strncmp(text, "READONLY ", 9) == 0) {
                weir__redis_doubt(command->redis, atomic_load_explicit(&command->node, memory_order_relaxed));
                return true;
        }
        return is_loading(text);
}

/* The server has executed nothing of it, and may do so soon.  What has a link goes out anew, on another one, and to where its
 * slot was at first. */
static bool
may_come_back(struct weir__redis_command *command, const char *text)
{
        bool is_discarded = strncmp(text, "EXECABORT ", 10) == 0;

        if (!is_passing(command, is_discarded ? command->problem : text) || command->session)
                return false;
        leave(command);
        command->redirects = 0;
        return true;
}

static int
read_reply(struct weir__redis_command *command, const char *data, size_t size)
{
        int status = command->replies ? weir__redis_exec_read(data, size, command->replies, command)
                                      : weir__redis_build(data, size, command->room, sizeof command->room, &command->tree);

        if (command->tree.root)
                return status;
        snprintf(command->problem, sizeof command->problem, "the reply is %s",
                 status == -E2BIG    ? "too deep"
                 : status == -ENOMEM ? "too large for the memory"
                                     : "no valid one");
        return status;
}

/* Returns whether the command is over, and sets its status then. */
static bool
take_reply(struct weir__redis_command *command, const char *data, size_t size, int *ret_status)
{
        int status = read_reply(command, data, size);

        if (__builtin_expect(command->tree.root && command->tree.root->type == WEIR_REDIS_ERROR, 0)) {
                const char *text = command->tree.root->text;

                status = send_whole(command, weir__redis_status_of(strncmp(text, "EXECABORT ", 10) == 0 && *command->problem
                                                                           ? command->problem
                                                                           : text));
                if (!status)
                        return false;
                if (redirect(command, *command->problem ? command->problem : text) ||
                    (may_come_back(command, text) && try_again(command))) {
                        drop_tree(command);
                        *command->problem = '\0';
                        return false;
                }
        }
        if (command->session && status != -EAGAIN) /* which has done nothing */
                command->session->is_used = true;
        if (__builtin_expect(command->link != NULL, 0))
                give_up_link(command); /* before the program goes on, which may want one */
        *ret_status = status;
        return true;
}

/* A transaction on a link of its own, which may have another one; or a command behind ASKING. */
static bool
is_unsent_on_link(const struct weir__redis_command *command, enum weir_ask_stage stage)
{
        return command->link && !command->session && stage <= WEIR_ASK_SENDING;
}

/* The same. */
static bool
take_failure(struct weir__redis_command *command, enum weir_ask_stage stage, int *ret_status)
{
        int status = *ret_status;
        struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);

        atomic_store_explicit(&node->is_flowing, false, memory_order_relaxed);
        if (may_pass(status) || status == -ETIMEDOUT)
                weir__redis_doubt(command->redis, node);
        if (is_unsent_on_link(command, stage)) {
                leave(command);
                status = status == -ENOTCONN ? -ECONNRESET : status; /* a link of the pool was closed meanwhile */
        }
        if (may_pass(status) && may_repeat(command, stage) && try_again(command))
                return false;
        note_failure(command, stage, status);
        *ret_status = status;
        return true;
}

/* Whether its connection has commands of others. */
static bool
is_shared(const struct weir__redis_command *command)
{
        return !(command->traits & WEIR__REDIS_WAITS) && !command->session && !command->link;
}

/* The end of the series does the rest. */
static void
answered(weir_task *ask, void *context)
{
        struct weir__redis_command *command = context;
        struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);
        int status = weir_task_status(ask);
        size_t size;
        const char *data = weir_ask_reply(ask, &size);

        if (!status && is_shared(command))
                atomic_store_explicit(&node->is_flowing, true, memory_order_relaxed);
        if (status ? take_failure(command, weir_ask_stage(ask), &status) : take_reply(command, data, size, &status))
                end(command, status);
}

static void
answered_directly(struct weir_direct_ask *ask, int status, const void *reply, size_t size)
{
        struct weir__redis_command *command = (void *)((char *)ask - offsetof(struct weir__redis_command, direct));

        if (!(status ? take_failure(command, weir_direct_stage(ask), &status) : take_reply(command, reply, size, &status)))
                return;
        if (__builtin_expect(status || command->session || command->link, 0)) {
                end(command, status);
                finish(command);
        } else {
                weir_promise_finish(command->promise, 0, command, NULL); /* the command may be gone */
        }
}

/* -- sending -- */

static weir_endpoint *
endpoint_of(const struct weir__redis_command *command)
{
        const struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);
        const struct weir__redis_link *link = command->session ? command->session->link : command->link;

        return link ? link->endpoint : command->traits & WEIR__REDIS_WAITS ? node->waits : node->commands;
}

/* The limit of a command on a link, whose endpoint has none: a session has commands that wait at the server, too. */
static weir_nsec
limit_of(const struct weir__redis_command *command)
{
        const struct weir_redis_config *config = &command->redis->settings->config;
        weir_nsec limit = config->command_limit, connect = config->connect_limit;

        if (is_shared(command) || command->traits & WEIR__REDIS_WAITS || limit == WEIR_FOREVER)
                return WEIR_FOREVER;
        if (weir_endpoint_connections(endpoint_of(command)))
                return limit;
        return connect < WEIR_FOREVER / 4 && limit < WEIR_FOREVER / 4 ? limit + 2 * connect : WEIR_FOREVER;
}

static weir_task *
ask_new(struct weir__redis_command *command, weir_task_fn *done)
{
        const char *bytes = command->other ? command->other : command->bytes;
        weir_nsec limit = limit_of(command);
        weir_task *ask = weir_ask_new(endpoint_of(command), bytes, command->other ? command->other_size : command->size, done,
                                      command);

        return limit == WEIR_FOREVER ? ask : weir_timeout_new(ask, limit);
}

static int
ask_directly(struct weir__redis_command *command)
{
        command->direct.data = command->other ? command->other : command->bytes;
        command->direct.size = command->other ? command->other_size : command->size;
        command->direct.done = answered_directly;
        return weir_ask_directly(endpoint_of(command), &command->direct);
}

/* Sends it to its node. */
static int
send_to_node(struct weir__redis_command *command)
{
        struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);

        if (command->replies && !command->session && !command->link) {
                command->link = weir__redis_link_take(node);
                if (!command->link)
                        return -ENOMEM;
                atomic_store_explicit(&command->link->replies, command->replies, memory_order_relaxed);
        }
        if (is_shared(command) && atomic_load_explicit(&node->is_flowing, memory_order_relaxed) &&
            !atomic_load_explicit(&command->series, memory_order_relaxed))
                return ask_directly(command);
        return go_on(command, ask_new(command, answered));
}

/* Chooses its node, and sends it.  Sentinels may not have named one yet. */
static int
send_anywhere(struct weir__redis_command *command)
{
        struct weir__redis_node *node = weir__redis_route(command->redis->topology, command->slot);

        set_node(command, node);
        if (node)
                return send_to_node(command);
        weir__redis_look(command->redis);
        return try_again(command) ? 0 : -EHOSTUNREACH;
}

static void
send_again(weir_task *pause, void *context)
{
        struct weir__redis_command *command = context;
        int failed = 0;

        if (weir_task_status(pause) == 0)
                failed = command->session ? weir__redis_session_send(command) : send_anywhere(command);
        if (failed)
                end(command, failed);
}

/* On the connection of its session. */
int
weir__redis_command_send(struct weir__redis_command *command)
{
        set_node(command, command->session->link->node);
        return send_to_node(command);
}

static void
begin(weir_task *promise, void *own)
{
        struct weir__redis_command *command = own;

        command->promise = promise;
        int failed = command->fault;
        if (!failed)
                failed = command->session ? weir__redis_session_begin(command) : send_anywhere(command);
        if (!failed)
                return;
        give_up_link(command);
        weir__redis_command_fail(command, failed);
}

static void
cancel(weir_task *promise, void *own)
{
        struct weir__redis_command *command = own;

        (void)promise;
        count(command, &command->redis->cancelled);
        atomic_store(&command->is_cancelled, true);
        weir_series_cancel(atomic_load(&command->series));
}

/* -- its data -- */

static void
free_command(void *own)
{
        struct weir__redis_command *command = own;
        weir_series *series = atomic_load_explicit(&command->series, memory_order_relaxed);

        if (series)
                weir_series_unref(series);
        if (command->script)
                weir_redis_script_unref(command->script);
        if (command->session)
                weir_redis_session_unref(command->session);
        if (command->tree.memory)
                free(command->tree.memory);
        if (command->other)
                free(command->other);
        weir_redis_unref(command->redis);
        free(command);
}

/* Reads the next argument of the bytes. */
static const char *
next_word(const char *at, const char *end, int *size)
{
        const char *line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

        *size = line ? atoi(at + 1) : 0;
        return line ? line + 1 : end;
}

static void
describe(const void *own, char *out, size_t room)
{
        const struct weir__redis_command *command = own;
        const struct weir__redis_node *node = atomic_load_explicit(&command->node, memory_order_relaxed);
        const char *bytes = command->size ? command->bytes : "*1\r\n$5\r\nMULTI\r\n", *end = bytes + strlen(bytes);
        int count = atoi(bytes + 1), size, second = 0;
        const char *name = next_word(strchr(bytes, '\n') + 1, end, &size), *key = name;

        if (count > 1 && strncasecmp(name, "AUTH", 4) != 0) /* a password is not shown */
                key = next_word(name + size + 2, end, &second);
        snprintf(out, room, "%.*s%s%.*s (redis %s, %u under way)", size < WORD_MOST ? size : WORD_MOST, name, second ? " " : "",
                 second < WORD_MOST ? second : WORD_MOST, key, node ? node->address : "?",
                 node ? weir_endpoint_requests(node->commands) + weir_endpoint_requests(node->waits) : 0);
}

const struct weir_promise_kind weir__redis_kind = {
        .size = sizeof weir__redis_kind, .begin = begin, .cancel = cancel, .describe = describe, .free = free_command};
