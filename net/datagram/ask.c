/* net/datagram/ask.c: tasks that ask, ask again, and wait for the reply.
 *
 *     try: added to the table, sent --the reply, an error, the last wait is over, a cancel--> the question is OVER
 *              ^                \
 *              '----its alarm----'
 *
 * Threads: as in io/base/io_task.h.
 * Locks:   none. */
#include "net/datagram/tasks.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/series.h"
#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/random.h"
#include "kernel/socket/sockets.h"

#ifndef IPV6_RECVERR
#define IPV6_RECVERR 25
#endif

#define DEFAULT_ATTEMPTS 4
#define DEFAULT_WAIT     WEIR_SEC(1)
#define DEFAULT_MAX_WAIT WEIR_SEC(60)
#define DEFAULT_JITTER   50 /* percent */

struct ask {
        struct weir__udp_task base; /* first; linked in `senders` while `is_blocked` */
        struct weir__datagram *request;
        struct weir__question *question; /* the ask's until it is in the table; NULL: it is OVER */
        weir_nsec wait, max_wait, limit;
        weir_nsec until; /* WEIR_FOREVER: there is no limit */
        int attempts, most, jitter;
        bool is_blocked; /* there was no room to send */
};

/* -- the owner of the poller -- */

static void
leave_senders(struct ask *ask)
{
        if (ask->is_blocked)
                weir__link_remove(&ask->base.link);
        ask->is_blocked = false;
}

/* The question is OVER. */
static void
retire(struct ask *ask)
{
        struct weir__question *question = ask->question;

        leave_senders(ask);
        ask->question = NULL;
        if (question->is_alarm_out && weir__alarm_clear(weir__udp_poller(ask->base.udp), &question->alarm))
                question->is_alarm_out = false;
        weir__table_retire(ask->base.udp->asks, question, weir__clock_now());
}

static void
end(struct ask *ask, int status)
{
        retire(ask);
        weir__io_complete(&ask->base.io, status);
}

static bool
push(struct weir__udp_task *task)
{
        struct ask *ask = (struct ask *)task;

        ask->is_blocked = false;
        int failed = weir__udp_send_one(task->udp, ask->request);
        if (!ask->question) /* what was reported of an earlier datagram has ended it */
                return true;
        ask->is_blocked = failed == -EAGAIN && weir__udp_family(task->udp) != AF_UNIX;
        if (ask->is_blocked)
                return false;
        if (failed && failed != -ENOBUFS && failed != -EAGAIN) /* these count as lost on the way */
                end(ask, failed);
        return true;
}

static weir_nsec
with_jitter(const struct ask *ask, weir_nsec wait)
{
        return weir__clock_after(wait, (weir_nsec)weir__random_up_to((uint64_t)(wait / 100) * (uint64_t)ask->jitter));
}

static void
set_alarm(struct ask *ask)
{
        weir_nsec next = weir__clock_after(weir__clock_now(), with_jitter(ask, ask->wait));

        ask->wait = ask->wait > ask->max_wait / 2 ? ask->max_wait : ask->wait * 2;
        next = next < ask->until ? next : ask->until;
        ask->question->is_alarm_out = weir__alarm_set(weir__udp_poller(ask->base.udp), &ask->question->alarm, next);
        if (!ask->question->is_alarm_out)
                end(ask, -ESHUTDOWN);
}

static void
send_request(struct ask *ask)
{
        ask->attempts++;
        if (!push(&ask->base))
                weir__udp_await_room(&ask->base);
        if (ask->question)
                set_alarm(ask);
}

static void
on_alarm(struct weir__work *work)
{
        struct weir__question *question = weir__container_of(work, struct weir__question, alarm.work);
        struct ask *ask = question->asker;

        question->is_alarm_out = false;
        if (question->is_gone) {
                weir__question_free(question);
                return;
        }
        if (!ask)
                return;
        leave_senders(ask);
        if (ask->attempts == ask->most || weir__clock_now() >= ask->until)
                end(ask, -ETIMEDOUT);
        else
                send_request(ask);
}

static const struct weir__work_ops alarm_ops = {.run = on_alarm};

/* The system is to say which destinations have refused a datagram. */
static void
ask_for_reports(struct weir_udp *udp)
{
        if (udp->reports || weir__udp_family(udp) == AF_UNIX)
                return;
        udp->reports = true;
        weir__socket_enable(udp->source.fd, IPPROTO_IP, IP_RECVERR);
        if (weir__udp_family(udp) == AF_INET6)
                weir__socket_enable(udp->source.fd, IPPROTO_IPV6, IPV6_RECVERR);
}

static int
add_question(struct ask *ask)
{
        struct weir_udp *udp = ask->base.udp;
        struct weir__question *question = ask->question;

        if (!udp->asks)
                udp->asks = weir__table_new();
        if (!udp->asks)
                return -ENOMEM;
        question->peer = ask->request->name;
        if (!question->peer.size)
                weir__udp_address_set(&question->peer, &udp->peer);
        if (!question->peer.size)
                return -EDESTADDRREQ;
        weir__datagram_unmap(&question->peer);
        question->asker = ask;
        return weir__table_add(udp->asks, question);
}

static int
try(struct weir__io_task *io)
{
        struct ask *ask = (struct ask *)io;
        struct weir_udp *udp = ask->base.udp;
        int failed = weir__udp_register(udp);

        failed = failed ? failed : add_question(ask);
        if (failed)
                return failed;
        io->task.is_linked = true;
        ask->until = weir__clock_after(weir__clock_now(), ask->limit);
        ask_for_reports(udp);
        send_request(ask);
        if (udp->may_read)
                udp->ops->read(udp);
        return io->task.is_linked ? 0 : io->task.status;
}

static void
withdraw(struct weir__io_task *io)
{
        retire((struct ask *)io);
}

bool
weir__ask_take(struct weir_udp *udp, struct weir__datagram *datagram)
{
        struct weir__question *question = udp->asks ? weir__table_find(udp->asks, datagram, weir__clock_now()) : NULL;
        struct ask *ask = question ? question->asker : NULL;

        if (!question)
                return false;
        if (!ask) {
                atomic_fetch_add_explicit(&udp->dropped, 1, memory_order_relaxed);
                weir__datagram_free(datagram);
                return true;
        }
        weir__datagrams_append(&ask->base.datagrams, datagram);
        ask->base.at = datagram;
        ask->base.count = 1;
        end(ask, 0);
        return true;
}

/* -- errors -- */

/* Others, such as a host that cannot be reached, may be over at the next attempt.  Source: RFC 1122, section 4.1.3.3. */
static bool
is_final(int error)
{
        return error == -ECONNREFUSED || error == -ENOPROTOOPT;
}

static bool
end_at(struct weir_udp *udp, const struct weir_udp_address *peer, int error)
{
        bool has_ended = false;

        for (struct weir__question *each = weir__table_first(udp->asks), *next; each; each = next) {
                next = weir__table_next(udp->asks, each);
                if (weir_udp_address_compare(&each->peer, peer) != 0)
                        continue;
                end(each->asker, error);
                has_ended = true;
        }
        return has_ended;
}

int
weir__ask_note_errors(struct weir_udp *udp)
{
        struct weir_udp_address to;
        int error, rest = 0;

        while (weir__datagram_error(udp->source.fd, &to, &error))
                if (is_final(error) && !end_at(udp, &to, error))
                        rest = error;
        return rest;
}

void
weir__ask_end_all(struct weir_udp *udp, int status)
{
        while (weir__asks_are_live(udp))
                end(weir__table_first(udp->asks)->asker, status);
}

/* -- any thread -- */

static void
release(struct weir_task *task, bool is_discarded)
{
        struct ask *ask = (struct ask *)task;

        weir__datagram_free(ask->request);
        if (ask->question)
                weir__question_free(ask->question);
        weir__udp_task_release(task, is_discarded);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct ask *ask = (const struct ask *)task;
        char address[WEIR_UDP_ADDRESS_TEXT];

        if (ask->request->name.size)
                weir_udp_address_write(&ask->request->name, address, sizeof address);
        else
                weir__address_print(&ask->base.udp->peer, address, sizeof address);
        snprintf(out, room, "a reply from %s", address);
}

const struct weir__io_ops weir__udp_ask_ops = {
        .task = WEIR__IO_TASK_OPS("an ask", weir__udp_start, release, describe),
        .try = try,
        .withdraw = withdraw,
};

/* -- the public face -- */

static int
check_config(const struct weir_udp_ask_config *config, size_t size)
{
        const char *expected = NULL;

        if (config->size < offsetof(struct weir_udp_ask_config, limit) || config->size > sizeof *config)
                expected = "to start from WEIR_UDP_ASK_CONFIG_DEFAULT";
        else if (config->id_size > WEIR__ID_MAX)
                expected = "an id of at most 32 bytes";
        else if (config->id_at > WEIR__DATAGRAM_MAX || config->reply_id_at >= WEIR__DATAGRAM_MAX)
                expected = "an id within a datagram";
        else if (config->id_at + config->id_size > size)
                expected = "a request that has its id";
        else if (config->attempts < 0 || config->wait < 0 || config->max_wait < 0 || config->limit < 0)
                expected = "attempts and waits of 0 or more";
        else if (config->jitter < -1 || config->jitter > 1000)
                expected = "a jitter of -1 to 1,000 percent";
        return expected ? weir__log_refusal("weir_udp_ask_new: expected %s", expected) : 0;
}

static void
configure(struct ask *ask, const struct weir_udp_ask_config *config)
{
        struct weir__question *question = ask->question;

        ask->most = config->attempts ? config->attempts : DEFAULT_ATTEMPTS;
        ask->max_wait = config->max_wait ? config->max_wait : DEFAULT_MAX_WAIT;
        ask->wait = config->wait ? config->wait : DEFAULT_WAIT;
        ask->wait = ask->wait < ask->max_wait ? ask->wait : ask->max_wait;
        ask->limit = config->limit ? config->limit : WEIR_FOREVER;
        ask->jitter = config->jitter < 0 ? 0 : config->jitter ? config->jitter : DEFAULT_JITTER;
        question->id_size = (uint8_t)config->id_size;
        question->id_at = (uint16_t)config->reply_id_at;
        memcpy(question->id, ask->request->data + config->id_at, config->id_size);
}

/* Returns false when out of memory. */
static bool
fill(struct ask *ask, const struct weir_udp_address *to, const void *data, size_t size, const struct weir_udp_ask_config *config)
{
        ask->request = weir__datagram_new(to, size ? data : "", size);
        ask->question = weir__alloc(sizeof *ask->question);
        if (!ask->request || !ask->question)
                return false;
        memset(ask->question, 0, sizeof *ask->question);
        ask->question->alarm.work.ops = &alarm_ops;
        configure(ask, config);
        ask->base.push = push;
        return true;
}

weir_task *
weir_udp_ask_new(weir_udp *udp, const char *to, const void *data, size_t size, const struct weir_udp_ask_config *config,
                 weir_task_fn *done, void *context)
{
        struct weir_udp_ask_config used = WEIR_UDP_ASK_CONFIG_DEFAULT;
        struct weir_udp_address address = {.size = 0};
        int fault = to ? weir__udp_address_parse(&address, to, "weir_udp_ask_new") : 0;

        fault = fault || !config ? fault : check_config(config, size);
        if (!fault && size && !data)
                fault = -EINVAL;
        if (config && !fault)
                memcpy(&used, config, config->size);
        struct ask *ask = (struct ask *)weir__udp_task_new(&weir__udp_ask_ops, udp, sizeof *ask, fault, done, context);
        if (!ask)
                return NULL;
        if (!fault && !fill(ask, &address, data, size, &used)) {
                weir_task_dismiss(&ask->base.io.task);
                return NULL;
        }
        return &ask->base.io.task;
}

int
weir_udp_attempts(const weir_task *ask)
{
        weir__memory_expect(ask);
        if (!ask)
                return -EINVAL;
        return ask->work.ops == &weir__udp_ask_ops.task.work ? ((const struct ask *)ask)->attempts : -EDOM;
}
