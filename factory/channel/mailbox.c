/* factory/channel/mailbox.c: mailboxes: one message each.
 *
 * Threads: any.
 * Locks:   the object's; `drop` is called without.
 *
 *     EMPTY --send--> FULL --receive--> EMPTIED
 *         `--send, somebody waits-------^
 *
 * Where it is, who owes a message to `drop`: the mailbox that is FULL, or the wait of the task that has received it.  One with a
 * name (factory/channel/oneshot.h) only shows its task where a message is, which stays the sender's. */
#include <weir/mailbox.h>

#include <errno.h>

#include "factory/channel/oneshot.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/sched/user.h"

enum state {
        EMPTY = 0,
        FULL,
        EMPTIED,
};

struct weir_mailbox {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock. */
        struct weir__wait_list waits; /* of those that receive, while it is EMPTY */
        void *message;                /* while it is FULL */
        enum state state;

        weir_free_fn *drop; /* constant */
};

static void
drop(const struct weir_mailbox *mailbox, void *message)
{
        if (message && mailbox && mailbox->drop)
                weir__user_call(mailbox->drop, message);
}

static void
drop_kept(struct weir__waitable *object)
{
        struct weir_mailbox *mailbox = (struct weir_mailbox *)object;

        drop(mailbox, mailbox->message);
}

static const struct weir__waitable_ops mailbox_ops = {
        .kind = WEIR__MAILBOX, .noun = "mailbox", .size = sizeof(struct weir_mailbox), .lists = 1, .drop = drop_kept};

static const struct weir__waitable_ops named_mailbox_ops = WEIR__ONESHOT_OPS(WEIR__MAILBOX, "mailbox");

weir_mailbox *
weir_mailbox_new(weir_free_fn *drop_fn)
{
        struct weir_mailbox *mailbox = (struct weir_mailbox *)weir__waitable_new(&mailbox_ops);

        if (mailbox)
                mailbox->drop = drop_fn;
        return mailbox;
}

weir_mailbox *
weir_mailbox_ref(weir_mailbox *mailbox)
{
        return (weir_mailbox *)weir__waitable_ref((struct weir__waitable *)mailbox);
}

void
weir_mailbox_unref(weir_mailbox *mailbox)
{
        weir__waitable_unref((struct weir__waitable *)mailbox);
}

/* Under the lock, which is let go meanwhile: who waits behind the receiver would wait in vain. */
static void
hand_over(struct weir_mailbox *mailbox, struct weir__wait *receiver, void *message)
{
        mailbox->state = EMPTIED;
        receiver->message = message;
        weir__unlock(&mailbox->object.lock);
        weir__wait_deliver(receiver->task);
        weir__lock(&mailbox->object.lock);
        weir__wait_end_all(&mailbox->object, &mailbox->waits, -EPIPE);
}

int
weir_mailbox_send(weir_mailbox *mailbox, void *message)
{
        if (!mailbox || weir__phase_is_forked())
                return mailbox ? -ECHILD : -ENOMEM;
        weir__waitable_lock(&mailbox->object);
        bool used = mailbox->state != EMPTY;
        struct weir__wait *receiver = used ? NULL : weir__wait_pop(&mailbox->waits);
        if (receiver) {
                hand_over(mailbox, receiver, message);
        } else if (!used) {
                mailbox->message = message;
                mailbox->state = FULL;
        }
        weir__unlock(&mailbox->object.lock);
        return used ? -EALREADY : 0;
}

size_t
weir_mailbox_send_named(const char *name, void *message, size_t max)
{
        return weir__oneshot_count_named(&named_mailbox_ops, name, max, message);
}

/* -- tasks -- */

static void
start(struct weir_task *task)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        struct weir_mailbox *mailbox = (struct weir_mailbox *)self->wait.object;

        weir__lock(&mailbox->object.lock);
        bool granted = mailbox->state == FULL && !weir__wait_is_over(self);
        if (granted) {
                self->wait.message = mailbox->message;
                mailbox->message = NULL;
                mailbox->state = EMPTIED;
        }
        int refused = !granted && mailbox->state == EMPTIED ? -EPIPE : 0;
        enum weir__wait_begun begun = weir__wait_begin(self, &mailbox->waits, granted, refused);
        weir__unlock(&mailbox->object.lock);
        if (begun != WEIR__WAIT_LINKED)
                weir__wait_deliver(self);
}

static void
release(struct weir_task *task, bool discarded)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;

        drop((struct weir_mailbox *)self->wait.object, self->wait.message);
        weir__wait_release(task, discarded);
}

static const struct weir__task_ops receive_ops = WEIR__WAIT_TASK_OPS("a receive", start, release,
                                                                     .describe = weir__wait_describe);
static const struct weir__task_ops named_ops = WEIR__WAIT_TASK_OPS("a mailbox", weir__oneshot_start, weir__oneshot_release,
                                                                   .describe = weir__wait_describe);

weir_task *
weir_mailbox_receive_new(weir_mailbox *mailbox, weir_task_fn *done, void *context)
{
        struct weir__wait_task *self = weir__alloc(sizeof *self);

        if (self)
                weir__wait_task_init(self, &receive_ops, sizeof *self, (struct weir__waitable *)mailbox, done, context);
        return self ? &self->task : NULL;
}

weir_task *
weir_mailbox_new_named(const char *name, weir_task_fn *done, void *context)
{
        return (weir_task *)weir__oneshot_new_named(&named_ops, &named_mailbox_ops, name, 1, done, context);
}

static struct weir__wait *
wait_of(const struct weir_task *task)
{
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
        struct weir__wait *wait = wait_of(task);
        void *message = wait ? wait->message : NULL;

        if (wait)
                wait->message = NULL;
        return message;
}
