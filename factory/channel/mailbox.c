/* factory/channel/mailbox.c: mailboxes: one message each.
 *
 * Threads: any.
 * Locks:   the object's; `drop` is called without.
 *
 *     EMPTY --send--> FULL --receive--> EMPTIED
 *       |\--send, a task waits----------^
 *       '--the last sender goes---------> ABANDONED
 *
 * The amount of the object is how many senders have a reference as such.
 *
 * A FULL mailbox owes its message to `drop`.  Then the wait of the task that has received it does.  A mailbox with a name
 * (factory/channel/oneshot.h) only shows its task where a message is.  The message stays the sender's. */
#include <weir/mailbox.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "factory/channel/oneshot.h"
#include "kernel/base/panic.h"

enum state {
        EMPTY = 0,
        FULL,
        EMPTIED,
        ABANDONED,
};

struct weir_mailbox {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__list waits; /* tasks wait only while it is EMPTY */
        void *message;           /* while it is FULL */
        enum state state;
};

static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        struct weir_mailbox *mailbox = (struct weir_mailbox *)wait->object;

        (void)claimed;
        if (mailbox->state != FULL)
                return mailbox->state == EMPTY ? -EAGAIN : -EPIPE;
        wait->message = mailbox->message;
        mailbox->message = NULL;
        mailbox->state = EMPTIED;
        return 0;
}

static void
clear(struct weir__waitable *object)
{
        weir__waitable_drop(object, ((struct weir_mailbox *)object)->message);
}

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        (void)wait;
        if (object->amount > 0)
                snprintf(out, room, "%" PRIu64 " sender%s", object->amount, object->amount == 1 ? "" : "s");
}

static const struct weir__waitable_ops mailbox_ops = {.kind = WEIR__MAILBOX,
                                                      .noun = "mailbox",
                                                      .size = sizeof(struct weir_mailbox),
                                                      .queues = 1,
                                                      .try = try,
                                                      .clear = clear,
                                                      .describe = describe};

static const struct weir__waitable_ops named_mailbox_ops = WEIR__ONESHOT_OPS(WEIR__MAILBOX, "mailbox", NULL);

weir_mailbox *
weir_mailbox_new(weir_free_fn *drop)
{
        return (weir_mailbox *)weir__waitable_new(&mailbox_ops, 0, 0, drop);
}

WEIR__WAITABLE_REFERENCES(weir_mailbox, weir_mailbox_ref, weir_mailbox_unref)

/* Tasks that wait behind the receiver would wait in vain, so they end. */
int
weir_mailbox_send(weir_mailbox *mailbox, void *message)
{
        struct weir__work_list claimed = {0};
        struct weir__wait *receiver = NULL;
        int failed = weir__waitable_fault((struct weir__waitable *)mailbox);

        if (failed)
                return failed;
        weir__waitable_lock(&mailbox->object);
        if (mailbox->state == EMPTY) {
                receiver = weir__wait_pop(&mailbox->waits, &claimed);
                mailbox->state = receiver ? EMPTIED : FULL;
                *(receiver ? &receiver->message : &mailbox->message) = message;
        } else {
                failed = mailbox->state == ABANDONED ? -EPIPE : -EALREADY;
        }
        weir__unlock(&mailbox->object.lock);
        weir__wait_deliver_all(&claimed);
        if (receiver) {
                weir__lock(&mailbox->object.lock);
                weir__wait_end_all(&mailbox->object, &mailbox->waits, -EPIPE);
                weir__unlock(&mailbox->object.lock);
        }
        return failed;
}

weir_mailbox *
weir_mailbox_sender_ref(weir_mailbox *mailbox)
{
        if (weir__waitable_fault((struct weir__waitable *)mailbox))
                return mailbox;
        weir__lock(&mailbox->object.lock);
        mailbox->object.amount++;
        weir__unlock(&mailbox->object.lock);
        return weir_mailbox_ref(mailbox);
}

void
weir_mailbox_sender_unref(weir_mailbox *mailbox)
{
        if (weir__waitable_fault((struct weir__waitable *)mailbox))
                return;
        weir__waitable_lock(&mailbox->object);
        if (mailbox->object.amount == 0)
                weir__panic("weir_mailbox_sender_unref: the mailbox has no sender");
        if (--mailbox->object.amount == 0 && mailbox->state == EMPTY) {
                mailbox->state = ABANDONED;
                weir__wait_end_all(&mailbox->object, &mailbox->waits, -EPIPE);
        }
        weir__unlock(&mailbox->object.lock);
        weir_mailbox_unref(mailbox);
}

size_t
weir_mailbox_send_named(const char *name, void *message, size_t max)
{
        return weir__oneshot_count_named(&named_mailbox_ops, name, max, message);
}

/* -- tasks -- */

static const struct weir__task_ops receive_ops = WEIR__WAIT_TASK_OPS("a receive", weir__wait_run, weir__wait_release);
static const struct weir__task_ops named_ops = WEIR__WAIT_TASK_OPS("a mailbox", weir__wait_run, weir__oneshot_release);

weir_task *
weir_mailbox_receive_new(weir_mailbox *mailbox, weir_task_fn *done, void *context)
{
        return (weir_task *)weir__wait_task_new(&receive_ops, (struct weir__waitable *)mailbox, 0, done, context);
}

weir_task *
weir_mailbox_new_named(const char *name, weir_task_fn *done, void *context)
{
        return (weir_task *)weir__oneshot_new_named(&named_ops, &named_mailbox_ops, name, 1, done, context);
}

static struct weir__wait *
wait_of(const struct weir_task *task)
{
        weir__memory_expect(task);
        const struct weir__task_ops *ops = task ? weir__task_ops(task) : NULL;

        return ops == &receive_ops || ops == &named_ops ? &((struct weir__wait_task *)task)->wait : NULL;
}

void *
weir_mailbox_message(const weir_task *task)
{
        const struct weir__wait *wait = wait_of(task);

        return wait ? wait->message : NULL;
}

void *
weir_mailbox_take_message(weir_task *task)
{
        return weir__wait_take_message(wait_of(task));
}
