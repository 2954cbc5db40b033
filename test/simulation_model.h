/* test/simulation_model.h: the promises of the headers and docs/contract.md about timers, tickers, series, parallels, races,
 * modules and fibers, as plain arrays that are searched from one end to the other.
 *
 * The model uses nothing of the library but its types.  Where the contract leaves something open, the model holds the allowed
 * results: a range of instants, or of counts.  Threads: one at a time; the simulation ensures that. */
#ifndef WEIR_TEST_SIMULATION_MODEL_H
#define WEIR_TEST_SIMULATION_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#define MODEL_TASKS 4096
#define MODEL_FLOWS 4096
#define MODEL_NAMES 12

enum kind { TIMER, TICKER, EMPTY, PARALLEL, RACE, MODULE, FIBER };

enum place {
        NOWHERE, /* freed */
        HELD,    /* made, and the simulation's */
        QUEUED,  /* in a series or a parallel, not started */
        PENDING, /* it has a deadline, which may have come */
        SOON,    /* its callback is to run before time goes on */
        WAITING, /* a parallel, a race or a module, for its children; a fiber, for its function */
        RUNNING, /* in its callback */
        DROPPED, /* to be freed without a callback, before time goes on */
        ENDED,   /* its callback has returned, to be freed at once */
        IDLE,    /* a fiber's: its own, by which it does not wait; one that it has awaited in vain; or that is to be started */
};

struct flow;

struct task {
        enum kind kind;
        enum place place;
        uint64_t serial;
        int name;        /* an index; -1: none */
        bool called_off; /* cancelled by name, prefix or id */
        bool pulse;      /* keeps the simulation alive */
        bool guard;      /* its callback shows that all children of its parent have been started */
        bool starting;   /* that has not come */
        bool unsure;     /* it ends early, and may not have been started: then it is dropped */
        bool touched;    /* reset while the runtime was ending: it may have been too late */
        bool id_unsure;  /* not started when the runtime ended: its id may find it or not */
        int status;      /* which its callback saw, or what is wrong with it */
        weir_task *handle;
        weir_timer_id id;
        struct flow *flow; /* the series it is in */
        const struct flow *dropped_by;
        struct task *next; /* in the queue of the series */

        weir_nsec after;             /* before its start: how long it lasts */
        weir_nsec granularity;       /* its deadlines are multiples */
        weir_nsec earliest, latest;  /* its deadline: the same, but for one that was reset when it was due already */
        weir_nsec set_at;            /* when it got that */
        uint64_t order;              /* among all that got one */
        uint64_t waits_for_jump;     /* it was due when it got that: so many jumps later it is in its place; 0: at once */
        bool vague;                  /* started by a parallel: it is not known when among others */

        enum weir_tick_policy policy;
        weir_nsec period, due, shift, reset;
        bool was_reset, stopped, ticking, over;
        uint64_t limit, count, missed, next_missed;

        struct flow *children; /* in order of adding */
        unsigned waits_for, added;
        int winner; /* of a race: which child; -1: none yet */
        bool won;   /* and that is why the others end */

        struct task *own; /* of a fiber: by which it begins, yields and sleeps.  Its only child is the series within it */
        struct flow *scope;   /* in which it waits: the series within it, or one behind a shield */
        struct task *wish;    /* what it waits for when all has run that was pushed into its series before; NULL: none */
        bool is_shielded;     /* so was its last wait: what is pushed meanwhile runs when it waits without the shield */
        bool returned;        /* its function has */
        bool may_leave;       /* by a call that need not wait it may leave its stack: then what was pushed is dropped */
        struct task *group;   /* its open one, a parallel that has no callback; NULL: none */
        weir_group *handle_of_group;
        bool is_group;        /* its `result` is that of the child that failed first */
        struct task *refused; /* which a fiber has awaited in vain, until its next wait */
        bool begun;
        int result; /* of the function */
};

struct flow {
        /* ENDING: its callback is to come. */
        enum { FLOW_NOWHERE, FLOW_HELD, FLOW_ADDED, FLOW_RUNNING, FLOW_ENDING, FLOW_ENDED } place;
        uint64_t serial;
        int cause, poison, status; /* once it has ended */
        bool wraps;                /* made for one child of a parallel, whose status it has */
        bool fed;                  /* within a fiber, which decides what comes next */
        bool takes_last_status;                /* in a race: its status is that of its last task, unless it ends early */
        int last_status;
        bool has_callback;
        bool stepping;  /* it was started with nothing to do: a worker will see */
        bool has_status;
        unsigned index; /* in model.kept */
        unsigned kept;  /* by its life, its parallel, and the simulation's reference */
        struct task *first, *last, *current;
        struct task *parallel;
        struct flow *sibling;
        unsigned child;            /* its number among those of its parallel */
        int name;                  /* an index; -1: none */
        uint64_t name_order;
        weir_nsec deadline;        /* WEIR_FOREVER: none */
        bool was_late;             /* when it was started */
        weir_nsec deadline_set_at; /* or from when on it counts, because the series was started then */
        uint64_t deadline_waits_for_jump; /* as a task's */
        const struct flow *dropped_by; /* with a task that was in it */
        weir_series *handle; /* a reference; NULL: none */
};

struct model {
        weir_nsec now;
        uint64_t serials, orders;
        unsigned shields;  /* behind which fibers wait: a deadline may come, and nothing ends */
        unsigned soon;     /* what is to come before time goes on */
        uint64_t name_orders;
        unsigned starting; /* parallels, races and modules of which it is not known whether all children have been started */
        bool stopping;     /* the runtime is ending */
        uint64_t jumps;    /* of time, to the next deadline */
        struct task tasks[MODEL_TASKS];
        struct flow flows[MODEL_FLOWS];
        unsigned next_task, next_flow; /* where to look for a free one */
        unsigned alive_count, flow_count;
        struct task *alive[MODEL_TASKS]; /* in order of making */
        struct flow *kept[MODEL_FLOWS];
};

extern struct model model;

void model_begin(void);

/* Whatever kind it is, it is HELD.  NULL: there are too many. */
struct task *model_task(enum kind kind);
struct flow *model_flow(void);
void model_flow_let_go(struct flow *flow); /* one of those that keep it does no longer */
void model_freed(struct task *task);

/* -- verbs; each comes before or after the call that does the same -- */

void model_start(struct task *task);             /* alone */
void model_start_flow(struct flow *flow);
void model_drop(struct task *task);              /* it will be freed, with all it holds */
void model_drop_flow(struct flow *flow, const struct flow *by); /* NULL: by whoever has it */
void model_push(struct flow *flow, struct task *task, bool front);
void model_add(struct task *parallel, struct flow *child);
void model_call_off(struct task *task);          /* by name, prefix or id */
bool model_stop_flow(struct flow *flow, int cause); /* whether that ends it early */
void model_set_deadline(struct flow *flow, weir_nsec from_now);
void model_set_name(struct flow *flow, int name);
void model_reset(struct task *task, weir_nsec after);
void model_extend(struct task *task, weir_nsec by);
struct flow *model_flow_of(struct task *running); /* made when it is first asked for */
bool model_make_fiber(struct task *fiber);        /* false: there is no room */
void model_fiber_wait(struct task *fiber, enum kind kind, weir_nsec after); /* by its own task */
void model_fiber_await(struct task *fiber, struct task *task);
void model_fiber_refuse(struct task *fiber, struct task *task);
void model_fiber_give_back(struct task *fiber);   /* what was refused */
void model_fiber_go_on(struct task *fiber);              /* its own task has ended: the next stretch */
bool model_fiber_shield(struct task *fiber, bool on);    /* false: there is no room */
bool model_open_group(struct task *fiber);               /* the same */
void model_group_start(struct task *group, struct task *task);
void model_group_cancel(struct task *group);
bool model_group_close(struct task *fiber);              /* whether it waits */
void model_group_over(struct task *fiber);
void model_fiber_drops(struct task *fiber);              /* what was pushed into its series */
void model_fiber_over(struct task *fiber, int result);   /* its function has returned */
void model_fiber_never_begins(struct task *fiber);

/* -- questions -- */

int model_cause(const struct flow *flow);                  /* of one that runs */
int model_known_cause(const struct flow *flow);            /* of any */
bool model_is_open(const struct flow *flow);               /* its deadline has come, and it may have ended by it */
bool model_is_vague(const struct flow *flow);              /* it is not known whether a worker has come to it */
weir_nsec model_time_left(const struct flow *flow);
const struct flow *model_earlier_deadline(weir_nsec instant); /* one that had to come before what is due then */
const struct task *model_earlier_than(const struct flow *flow); /* one that had to end before its deadline */
weir_nsec model_next_instant(void);                        /* the earliest deadline of tasks and series */
bool model_is_listed(const struct task *task);
bool model_can_cancel(const struct task *task);
bool model_can_reset(const struct task *task, bool *may); /* *may: it is left open */
const struct task *model_earlier(const struct task *task); /* one that had to come before this, which has expired */
const struct task *model_next(void);                       /* the pending one with the earliest deadline */
int model_combinator_status(const struct task *combinator);
weir_nsec model_put_off(weir_nsec instant, weir_nsec by);

/* -- events -- */

void model_began(struct task *task); /* so it, and what it is in, had been started */
void model_was_not_started(struct task *unsure); /* it is being freed */
void model_callback_over(struct task *task);
void model_tick_over(struct task *task);
int model_flow_callback(struct flow *flow, int status); /* begins: the status that it should see */
bool model_has_dropped_all(const struct flow *flow);
void model_flow_callback_over(struct flow *flow);

#endif
