/* client/call/call.h: a call of the program: a request and a response whose bodies stream.
 *
 *     NEW --the first task--> SEEKING --a connection--> WIRED --the response is complete, or a failure--> OVER
 *
 * Two counts keep it.  `users` are the program's references and those of tasks; without them it ends.  `references` keep the
 * memory: all users together have one, and so has the queue or the connection that it is on, and an order. */
#ifndef WEIR_CLIENT_CALL_CALL_H
#define WEIR_CLIENT_CALL_CALL_H

#include <weir/http_call.h>

#include "client/origin/origin.h"
#include "client/draft/draft.h"
#include "client/draft/target.h"
#include "client/wire/call.h"
#include "io/base/io_task.h"
#include "kernel/loop/deadlines.h"

enum weir__call_state { WEIR__CALL_NEW, WEIR__CALL_SEEKING, WEIR__CALL_WIRED, WEIR__CALL_OVER };
enum weir__call_order { WEIR__CALL_BREAK = 1, WEIR__CALL_CLOSE = 2 };
enum weir__call_kind { WEIR__CALL_HEAD, WEIR__CALL_FIRST, WEIR__CALL_READ, WEIR__CALL_WRITE, WEIR__CALL_FINISH };

struct weir__call_task {
        struct weir__io_task io;      /* first */
        struct weir_http_call *owner; /* a use; NULL: the task is poisoned */
        uint8_t kind;                 /* enum weir__call_kind */
        bool is_last;                 /* of a read: no byte of the body follows */
        struct weir__link waiting;    /* in `heads` or `writers` */
        struct weir__writer writer;
        struct iovec pieces[3]; /* of the writer: the size of a chunk, the data, the end of the line */
        char line[24];
        char *data; /* a piece; or NULL */
        size_t size;
};

struct weir_http_call {
        _Atomic uint32_t users, references;

        /* Its maker's until the first task has started. */
        struct weir__draft draft;
        struct weir__client_target target;
        int fault;       /* of a function that has changed it */
        bool is_framed;  /* `framing` was said */
        uint8_t framing; /* enum weir__draft_framing */
        uint64_t length; /* LENGTH; then what may still be written */
        weir_nsec limit; /* of the whole */
        char *upgrade;   /* or NULL */
        _Atomic bool is_begun;

        struct weir__lock lock;    /* rank LEAF */
        uint8_t poller;            /* guarded by lock; constant once a task has started */
        uint8_t orders;            /* that `ordered` has not carried out; guarded by lock */
        struct weir__work ordered; /* with a reference */

        /* Owner. */
        struct weir__http_call call;
        struct weir__seeker seeker;
        struct weir__work granted; /* with the reference of the queue */
        struct weir__alarm late;   /* the limit of the whole while it seeks; with a reference */
        bool has_alarm;
        _Atomic(struct weir__origin *) origin;             /* a reference; or NULL */
        struct weir__origin *left[WEIR__TARGET_TRIES - 1]; /* whose connects have failed: a dump may still look at them */
        struct weir__client_target *choice;                /* malloc; what the program has chosen instead; or NULL */
        uint8_t state;
        int status;           /* OVER */
        _Atomic bool is_over; /* the state is OVER: nothing is to be ended.  Any thread reads it; relaxed, as a hint */
        bool has_head;
        bool is_cut;      /* the server takes no more of the body */
        bool is_finished; /* the body of the request has ended, or will behind the writers */
        bool is_given_up; /* the program has ended it */
        bool is_drained;  /* nobody wants the rest of the response: it is thrown away */
        size_t drained;
        struct weir__list heads, writers; /* struct weir__call_task */
        struct weir__call_task *reader;   /* or NULL */
        char *problem;                    /* guarded by lock; or NULL */
};

static inline struct weir_http_call *
weir__call_of(struct weir__http_call *call)
{
        return weir__container_of(call, struct weir_http_call, call);
}

/* -- call.c -- */

void weir__call_keep(struct weir_http_call *self);
void weir__call_drop(struct weir_http_call *self);
void weir__call_start_task(struct weir__call_task *task);

/* -- attach.c: owner -- */

/* Begins to seek a connection: it was NEW.  Result: 0; a negative errno, with which it is OVER. */
int weir__call_begin(struct weir_http_call *self);
void weir__call_end(struct weir_http_call *self, int status); /* from outside: a break */
void weir__call_close(struct weir_http_call *self);           /* nobody uses it any more */

/* -- tasks.c: owner -- */

/* It is OVER: all its tasks end. */
void weir__call_end_tasks(struct weir_http_call *self);
void weir__call_complete(struct weir__call_task *task, int status);

#endif
