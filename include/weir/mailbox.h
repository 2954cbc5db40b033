/* weir/mailbox.h: one message for one task.
 *
 * A message is a pointer.  A mailbox is used once: it brings one message to one task.
 *
 * With a name, one call makes the mailbox and the task that waits for its message.  The sender
 * needs to know the name only, and can send the same message to many. */
#ifndef WEIR_MAILBOX_H
#define WEIR_MAILBOX_H

#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

/* A mailbox.  It lives as long as anybody has a reference. */
typedef struct weir_mailbox weir_mailbox;

/* Makes an empty mailbox.  `drop` gets the message if nobody takes it: no task receives it, or its
 * receiver leaves it.  `drop` may be NULL and is not called for a NULL message.  It runs on a
 * worker, or on the thread whose call gave up the message.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when out of memory.  Every function that takes a mailbox accepts NULL.
 * Threads: any. */
WEIR_API weir_mailbox *weir_mailbox_new(weir_free_fn *drop);

/* Takes and drops a reference.  Tasks that are to receive have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_mailbox *weir_mailbox_ref(weir_mailbox *mailbox);
WEIR_API void weir_mailbox_unref(weir_mailbox *mailbox);

/* Takes and drops a reference as a sender.  When the last sender is gone and the mailbox has had no
 * message, none will come: tasks that wait, and later ones, end with -EPIPE.  A mailbox that never
 * had such a reference waits for a message for ever.
 *
 * Take the reference for each sender before the first of them drops its own.  The same reference
 * also keeps the mailbox.  Both accept NULL.
 *
 * Result:  the mailbox.  Dropping more than were taken aborts with the reason.
 * Threads: any. */
WEIR_API weir_mailbox *weir_mailbox_sender_ref(weir_mailbox *mailbox);
WEIR_API void weir_mailbox_sender_unref(weir_mailbox *mailbox);

/* Puts the message in.  The first task that waits gets it, or the first one that comes.
 *
 * Owner:   the message is given away if the result is 0; otherwise it stays the caller's.
 * Result:  0; -EALREADY when it has had a message; -EPIPE when its last sender has gone; -ENOMEM
 *          for NULL; -ECHILD in a forked child.
 * Threads: any.  Never blocks. */
WEIR_API int weir_mailbox_send(weir_mailbox *mailbox, void *message);

/* Makes a task that waits for the message and receives it.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For a NULL mailbox the task's
 *          start, run or push reports -ENOMEM.  The task's status: 0; -EPIPE: another task has
 *          received the message, or the last sender has gone, so none will come; -ECANCELED,
 *          -ETIMEDOUT or -ESHUTDOWN if its series ended before.  Once the message is received the
 *          status is 0, even if the series is cancelled before the callback begins.
 * Threads: any. */
WEIR_API weir_task *weir_mailbox_receive_new(weir_mailbox *mailbox, weir_task_fn *done, void *context);

/* Makes a mailbox with a name, and the task that waits for its message.  A name has 1 to
 * WEIR_NAME_MAX bytes, none of them NUL, and is copied.  The mailbox can be found by its name from
 * now on, also before the task is started, until it has its message, was cancelled, or the task is
 * gone.  Any number may share a name.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  NULL when out of memory; every consumer accepts NULL.  For an invalid name the task's
 *          start, run or push reports -EINVAL, for one that is too long -ENAMETOOLONG.  The task's
 *          status: as for weir_mailbox_receive_new, except -EPIPE.
 * Threads: any. */
WEIR_API weir_task *weir_mailbox_new_named(const char *name, weir_task_fn *done, void *context);

/* Gives the message to at most `max` mailboxes of that name, oldest first; WEIR_ALL is no limit.
 * Each of them gets it once and cannot be found any more.
 *
 * Owner:   the sender keeps the message, which all receivers share.  It must exist until all of
 *          them are done with it.  It is never dropped.
 * Result:  how many got it.  With 0 nobody got the message, and it is not kept for later mailboxes.
 *          A mailbox that got it before the start of its task, and whose task is then dismissed,
 *          was counted.
 * Threads: any.  Never blocks. */
WEIR_API size_t weir_mailbox_send_named(const char *name, void *message, size_t max);

/* The message that a task has received.
 *
 * Owner:   weir_mailbox_message: borrowed until the callback returns; then the message is dropped.
 *          weir_mailbox_take_message: the message is yours.  A message that was sent by name always
 *          belongs to the sender.
 * Result:  NULL when there is none or it was taken, and for another kind of task.
 * Threads: inside the task's callback. */
WEIR_API void *weir_mailbox_message(const weir_task *task);
WEIR_API void *weir_mailbox_take_message(weir_task *task);

WEIR_END

#endif
