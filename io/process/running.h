/* io/process/running.h: programs that run: their numbers, signals to them, and their ends. */
#ifndef WEIR_IO_RUNNING_H
#define WEIR_IO_RUNNING_H

#include <stdbool.h>
#include <sys/types.h>

#include "kernel/base/list.h"

/* A program that runs.  It is begun and ended by the task that has it. */
struct weir__running {
        /* Guarded by the lock of running.c. */
        struct weir__link link; /* in the list of all, while it is alive */
        pid_t pid;              /* 0: it was never begun */
        int pidfd;              /* -1: the system has none */
        bool is_alive;          /* nobody has waited for it, so its number is its own */
        bool has_group;         /* of its own, with the same number */
        bool is_abrupt;         /* SIGKILL ends it, without SIGTERM before */
        bool is_stopped;        /* it was told to end, */
        bool was_in_time;       /* and had not ended by itself */
};

/* How a program has ended.  Neither is known: both are -1. */
struct weir__ending {
        int code, signal;
        bool was_stopped; /* it was told to end before */
};

/* A thread is about to start a program: weir__running_begin or _renounce follows.  Result: 0; or -ESHUTDOWN: exit() was called,
 * and none may be started. */
int weir__running_announce(void);
void weir__running_renounce(void); /* it was not started */
void weir__running_begin(struct weir__running *running, pid_t pid, int pidfd);

/* As weir_process_pid and weir_process_kill.  Any thread. */
pid_t weir__running_pid(struct weir__running *running);
int weir__running_kill(struct weir__running *running, int signo);

/* Tells it and its group to end, once.  The second one: by SIGKILL.  Any thread. */
void weir__running_stop(struct weir__running *running);
void weir__running_destroy(struct weir__running *running);

/* Looks whether it has ended, and if so takes how.  From then on no signal is sent to it.  Never blocks.  Its task's. */
bool weir__running_reap(struct weir__running *running, struct weir__ending *ending);

/* Waits until it has ended, however long that takes.  Its task's. */
void weir__running_await(struct weir__running *running);

/* Closes the pidfd.  It has ended, and no poller watches it. */
void weir__running_close(struct weir__running *running);

#endif
