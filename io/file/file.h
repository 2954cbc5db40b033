/* io/file/file.h: open files, and the tasks that work on files.
 *
 *     NEW --start--> READY --the owner hands it over--> PENDING --its end--> READY --> the callback
 *      \                                                  \--cancel: the work is a message to the owner--> READY
 *       \--start, to the queue--> PENDING, a job of the executor --its end or a cancel--> READY --> the callback
 *
 * The work of a PENDING task is in no list.  A cancel sets its flag.  If the task is PENDING and in the hands of a ring, the
 * cancel delivers the work once, and its owner asks the kernel to let go.  The callback comes when the kernel has.  A task in the
 * queue that no thread has taken is taken back at once; one that a thread has ends with that thread. */
#ifndef WEIR_IO_FILE_H
#define WEIR_IO_FILE_H

#include <weir/file.h>

#include "factory/task/series.h"
#include "kernel/base/list.h"
#include "kernel/executor/jobs.h"

struct weir_file {
        _Atomic uint64_t word; /* references; operations under way; whether it is closed: see below */

        /* Constant once it is open. */
        int descriptor;
        bool is_stream; /* it has no offsets, and may never be ready: a pipe, a terminal, a socket */

        struct weir__job job; /* its close, after the last reference */
        char path[];          /* that it was opened by; "": it was adopted */
};

#define WEIR__FILE_REFERENCE UINT64_C(1)
#define WEIR__FILE_OPERATION (UINT64_C(1) << 32)
#define WEIR__FILE_CLOSED    (UINT64_C(1) << 63)

/* A file that is not open yet, with a reference.  NULL when out of memory. */
struct weir_file *weir__file_new(const char *path);

/* It is open by that descriptor.  Before any other thread knows it. */
void weir__file_set_open(struct weir_file *file, int descriptor);

/* An operation begins, and ends.  Result: 0, or -EBADF once the file is closed.  Any thread. */
int weir__file_enter(struct weir_file *file);
void weir__file_leave(struct weir_file *file);

/* Closes the descriptor, unless operations are under way.  Result: 0, -EBUSY, -EBADF, or what close(2) says.  May block. */
int weir__file_close(struct weir_file *file);

enum weir__file_kind {
        WEIR__FILE_READ = 0,
        WEIR__FILE_WRITE,
        WEIR__FILE_APPEND,
        WEIR__FILE_SYNC,
        WEIR__FILE_OPEN, /* those up to here may be done by a ring */
        WEIR__FILE_CLOSE,
        WEIR__FILE_TRUNCATE,
        WEIR__FILE_STAT,
        WEIR__FILE_LIST,
        WEIR__FILE_RENAME,
        WEIR__FILE_UNLINK,
        WEIR__FILE_MKDIR,
        WEIR__FILE_RMDIR,
};

enum weir__file_stage {
        WEIR__FILE_FRESH = 0, /* nobody has it yet */
        WEIR__FILE_IN_RING,   /* its poller's ring has it */
        WEIR__FILE_IN_QUEUE,  /* the executor has it */
        WEIR__FILE_ENDED,     /* its status is there */
};

#define WEIR__FILE_PART (1u << 30) /* bytes that are read or written at once, at most */

struct weir__file_list;

struct weir__file_task {
        struct weir_task task; /* first; its word: see above */

        /* Constant. */
        struct weir_file *file; /* a reference; NULL: it needs no open file.  Of OPEN: the one that will be open */
        char *path, *other;     /* memory of the task's own, or NULL */
        uint8_t kind;           /* enum weir__file_kind */
        bool has_entered;       /* it counts among the operations of the file; set by its start */
        bool uses_ring;         /* a ring has it; set before it is PENDING */
        bool lends;             /* READ: it makes the memory, for its callback */
        bool copies;            /* WRITE, APPEND: `data` is memory of its own */
        bool is_data_only;      /* SYNC: as fdatasync(2) */
        bool follows_links;     /* STAT: by a path */
        int flags;              /* OPEN */
        unsigned mode;          /* OPEN, MKDIR */
        int64_t offset;         /* READ, WRITE; TRUNCATE: the size */
        size_t size;            /* READ, WRITE, APPEND: of all parts */

        /* Its maker's, then whoever has it: the owner of the poller or a thread of the executor; then its callback's. */
        uint8_t stage;       /* enum weir__file_stage */
        bool is_notified;    /* the message of its cancel has come */
        bool is_unwanted;    /* the kernel is asked to let go */
        bool is_in_kernel;   /* its request was handed over */
        bool needs_poll;     /* a stream was not ready: the next request waits until it is */
        unsigned submitter;  /* the number of the worker that handed it over */
        size_t count;        /* bytes done; LIST: entries */
        char *data;          /* READ, WRITE, APPEND without parts; its first byte */
        struct iovec *parts; /* else: a copy of the array; the first ones shrink as they are done */
        size_t part_count;
        union {
                struct weir__link link; /* IN_RING */
                struct weir__job job;   /* IN_QUEUE */
        };
        union {
                struct stat *stat;            /* STAT */
                struct weir__file_list *list; /* LIST; NULL: nothing yet */
        };
};

/* NULL if it is a task of another kind. */
struct weir__file_task *weir__file_task_of(const weir_task *task);

/* A task of that kind; the second one is poisoned without a file.  NULL when out of memory. */
struct weir__file_task *weir__file_task_new(enum weir__file_kind kind, struct weir_file *file, weir_task_fn *done, void *context);
struct weir__file_task *weir__file_task_of_file(enum weir__file_kind kind, struct weir_file *file, weir_task_fn *done,
                                                void *context);

/* One that has a copy of a path; poisoned, with a line in the log, without one.  `call` is the function of the program. */
weir_task *weir__file_task_by_path(enum weir__file_kind kind, const char *call, const char *path, weir_task_fn *done,
                                   void *context);

/* Dismisses a task whose making fails, and returns NULL. */
weir_task *weir__file_task_drop(struct weir__file_task *task);

/* Whether nobody wants its end any more: 0, or the status it has then.  By whoever has it. */
int weir__file_obstacle(const struct weir__file_task *task);

/* -- by whoever has it: the system's answer, and what comes next -- */

/* Before the first request: memory for a read that lends it.  Result: 0 or -ENOMEM. */
int weir__file_prepare(struct weir__file_task *task);

/* Notes what a request has said: a number, or a negative errno.  Returns whether the task has ended, with its status set.  Else
 * another request follows. */
bool weir__file_note(struct weir__file_task *task, int64_t result);

/* What is left of a read or write begins here.  Of at most WEIR__FILE_PART bytes. */
static inline void *weir__file_at(const struct weir__file_task *task)
{
        return task->data + task->count;
}

static inline unsigned weir__file_left(const struct weir__file_task *task)
{
        size_t left = task->size - task->count;

        return left < WEIR__FILE_PART ? (unsigned)left : WEIR__FILE_PART;
}

/* A task that nobody else has has ended: its work is delivered. */
void weir__file_end(struct weir__file_task *task, int status);

/* The same for one that a ring has, on the owner of its poller.  If it was cancelled just now, the message finds the end. */
void weir__file_end_in_ring(struct weir__file_task *task, int status);

#endif
