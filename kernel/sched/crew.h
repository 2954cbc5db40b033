/* kernel/sched/crew.h: the workers as a whole: those that own pollers, those that have lost theirs, and the spares. */
#ifndef WEIR_KERNEL_CREW_H
#define WEIR_KERNEL_CREW_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/runtime.h>

#include "kernel/sched/worker.h"

/* Starts a worker for each of so many pollers.
 * Result:  0 or what pthread_create reports, negative, or -ENOMEM: some may be left, to be told to leave and joined. */
int weir__crew_start(unsigned pollers, const struct weir_config *config);

/* Makes a thread as all of the library's are: signals blocked, the stack as configured.  Result: 0 or negative.  Any thread. */
int weir__crew_make_thread(pthread_t *thread, void *(*main)(void *), void *argument);

/* Keeps the calling thread on the CPU of that poller, if that is configured; or, the second, on none. */
void weir__crew_keep_on_cpu(unsigned index);
void weir__crew_free_of_cpu(void);

/* A worker that is to be called: an idle one, or a new one.  NULL: there are as many as may be, or no thread can be had.  Any
 * thread, with no lock held. */
struct weir__worker *weir__crew_take(void);

/* Gives it a poller that it owns already, and which function has lost it to another worker; or puts it back. */
void weir__crew_call(struct weir__worker *worker, struct weir__poller *poller, enum weir__call call, weir__function *blocked);
void weir__crew_put_back(struct weir__worker *worker);

/* By a worker that has no poller: becomes a spare, and waits until it is called. */
enum weir__call weir__crew_wait(struct weir__worker *worker);

/* At the end of the runtime, when nobody takes any more: tells the spares to leave.  The others do when they come back. */
void weir__crew_dismiss(void);

/* Waits for all of them but `self`, until then.  Returns whether they have gone. */
bool weir__crew_join(const struct weir__worker *self, weir_nsec until);

/* Forgets them when all have gone, and returns what they have counted. */
int64_t weir__crew_forget(void);

/* The sum of what workers have counted in `live`, also those that have ended. */
int64_t weir__crew_live(void);

/* In the child of a fork which may use the library anew: no worker had been there. */
void weir__crew_forked(void);

/* What a worker is at. */
struct weir__worker_sight {
        unsigned number;
        int poller;                /* that it owns; -1: none */
        bool in_user;              /* code of the program runs */
        const char *kind;          /* whose; NULL: not known */
        weir__function *function;  /* which; NULL: not known */
        weir_nsec since;           /* for how long it has, at least; negative: not known */
};

#define WEIR__SIGHTS_MAX (WEIR__POLLERS_MAX + 256)

/* Looks at all of them, `room` at most; returns how many.  Any thread, no lock held. */
unsigned weir__crew_show(struct weir__worker_sight sights[], unsigned room);

/* How many there are, and how many of these are spares that wait. */
void weir__crew_count(unsigned *workers, unsigned *spares);

#endif
