/* weir/mailbox.h: one message, for a task that waits for it.
 *
 * A message is a pointer.  A mailbox is used up: it brings one message to one task.
 *
 * With a name, the mailbox and the task that waits for its message are made in one: who sends knows the name only, and reaches as
 * many as it wants with the same message. */
#ifndef WEIR_MAILBOX_H
#define WEIR_MAILBOX_H

#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

typedef struct weir_mailbox weir_mailbox;

/* An empty mailbox.  `drop` gets the message in the end if nobody has taken it: because nobody received it, or who did left it;
 * it may be NULL, and is not called for a message that is NULL.  It runs on a worker, or on the thread whose call gave the
 * message up.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory, which all that takes a mailbox accepts.
 * Threads: any. */
WEIR_API weir_mailbox *weir_mailbox_new(weir_free_fn *drop);

/* Another reference, and one less; tasks that are to receive have theirs.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_mailbox *weir_mailbox_ref(weir_mailbox *mailbox);
WEIR_API void weir_mailbox_unref(weir_mailbox *mailbox);

/* Puts the message in: for the first of those who wait to receive, or for the first to come.
 *
 * Owner:   the message is given away if the result is 0, else it stays the caller's.
 * Result:  0; -EALREADY when it has had one; -ENOMEM for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_mailbox_send(weir_mailbox *mailbox, void *message);

/* A task that receives the message, waiting for it.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts; for a mailbox that is NULL the task's start, run or push
 *          reports -ENOMEM.  The task's status: 0; -EPIPE: another task has received the message, and there will be no other; or
 *          why its series ended before: -ECANCELED, -ETIMEDOUT; -ESHUTDOWN.  Once it has received the message it is 0, though the
 *          series may be cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_mailbox_receive_new(weir_mailbox *mailbox, weir_task_fn *done, void *context);

/* A mailbox with a name (bytes other than NUL, 1 to WEIR_NAME_MAX of them; copied), and the task that waits for its message.  It
 * is found by its name from now on, before it is started as well, until it has its message, was cancelled, or the task is gone.
 * Any number may share a name.
 *
 * Owner:   the caller, until it is consumed.
 * Result:  NULL when out of memory, which every consumer accepts; for a name that is none the task's start, run or push reports
 *          -EINVAL, for one that is too long -ENAMETOOLONG.  The task's status: as above, but for -EPIPE.
 * Threads: any. */
WEIR_API weir_task *weir_mailbox_new_named(const char *name, weir_task_fn *done, void *context);

/* Gives the message to at most `max` mailboxes of that name, oldest first; WEIR_ALL is no limit.  Each gets it once, and is found
 * no more.
 *
 * Owner:   the sender keeps the message, which has to be there until those who got it are done with it: they share it.  It is
 *          never dropped.
 * Result:  how many got it.  With 0 the message reached nobody: it is not kept for those to come.  One that got it before its
 *          start, and then is dismissed, was counted.
 * Threads: any.  Never blocks. */
WEIR_API size_t weir_mailbox_send_named(const char *name, void *message, size_t max);

/* The message that a task has received.
 *
 * Owner:   of the first: borrowed until the callback returns, then it is dropped; of the second: yours.  But a message that was
 *          sent by name is the sender's in any case.
 * Result:  NULL when there is none, or it was taken, and for a task of another kind.
 * Threads: inside the task's callback. */
WEIR_API void *weir_mailbox_message(const weir_task *task);
WEIR_API void *weir_mailbox_take_message(weir_task *task);

WEIR_END

#endif
