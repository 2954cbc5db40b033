/* weir/durable.h: named timers that outlive the process, and that several processes share.  The
 * library libweir-durable.
 *
 *     weir_durable *store = weir_durable_open("sqlite:timers.db");
 *
 *     weir_durable_on(store, "session", end_session, NULL);
 *     weir_task_start(weir_durable_set_after_new(store, "session/17", WEIR_SEC(1800), "session", "17", 2, on_set, NULL));
 *
 *     static void
 *     end_session(weir_task *delivery, void *context)
 *     {
 *             remove_session(weir_durable_payload(delivery, NULL));
 *     }
 *
 * A timer has a name, a due time, a topic and a payload.  An engine keeps it: a database that
 * survives the process.  Each process that has opened the engine is a node.  Any node may set or
 * cancel the timer by its name.  When it is due, one of the nodes with a handler for the topic
 * delivers it.
 *
 * - Each set makes a new generation of the timer.  A cancel and a delivery of a generation exclude
 *   each other.
 * - A delivery is repeated until a handler has succeeded: at least once.  A program that writes
 *   something uses the token of the delivery to make its writes idempotent.
 * - A node has a lease for each delivery, and renews it while the handler runs.  While it holds, no
 *   other node delivers the timer.
 * - Time is that of the engine.  The clocks of the nodes may be wrong.
 *
 * docs/durable.md has the promises, and which engine to take. */
#ifndef WEIR_DURABLE_H
#define WEIR_DURABLE_H

#include <weir/task.h>

WEIR_BEGIN

/* -- stores -- */

/* A node's way to an engine, with the node's handlers. */
typedef struct weir_durable weir_durable;

/* The longest name and topic, and the largest payload, in bytes. */
#define WEIR_DURABLE_NAME_MAX    1024
#define WEIR_DURABLE_TOPIC_MAX   255
#define WEIR_DURABLE_PAYLOAD_MAX 1048576

/* How a node works.  Start from WEIR_DURABLE_CONFIG_DEFAULT; 0 in a field means its default.  Texts
 * are copied. */
struct weir_durable_config {
        size_t size;            /* of this struct when the program was compiled; set by WEIR_DURABLE_CONFIG_DEFAULT */
        const char *node;       /* a name of this node, for people; default: the host and the process */
        weir_nsec lease;        /* how long a delivery is this node's without a renewal, 100 ms or more; default: 30 s */
        weir_nsec look;         /* the longest time between two looks for due timers, 10 ms or more; default: 10 s */
        unsigned running;       /* deliveries of this node at one time; default: 256 */
        unsigned attempts;      /* failed attempts until a timer is dead; default: 10 */
        weir_nsec delay;        /* the wait after the first failed attempt; each later one is twice as long; default: 1 s */
        weir_nsec max_delay;    /* the longest wait; default: 1 hour */
        weir_nsec missed;       /* a due time of a schedule that is late by more was missed; default: 1 minute */
        weir_nsec close_limit;  /* how long weir_durable_close waits for handlers before it cancels them; default: 30 s */
};

/* The initial value of a struct weir_durable_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_DURABLE_CONFIG_DEFAULT {sizeof(struct weir_durable_config), 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_DURABLE_CONFIG_DEFAULT {.size = sizeof(struct weir_durable_config)}
#endif

/* Opens a store.  The URL says which engine:
 *
 *   sqlite:FILE   a file of SQLite, for processes of one machine; it is made if it does not exist
 *   postgresql://USER@HOST/DATABASE, or postgres://, as libpq takes it: a database of PostgreSQL, for
 *                 nodes on several machines; the tables are made if they do not exist
 *   redis://...   a server of Redis, for processes of many machines; also the other addresses of
 *                 weir_redis_new (rediss://, unix://, redis+cluster://, redis+sentinel://)
 *   memory:NAME   the memory of this process, for tests; all stores of that name share it, and it
 *                 ends with the last of them
 *
 * The engine is reached by the first operation that needs it.  If that fails the operation has the
 * failure, and the next one tries again.  Close a store before weir_shutdown: behind a shutdown it
 * delivers nothing any more.
 *
 * Owner:   the caller, until weir_durable_close.
 * Result:  NULL with errno EINVAL: the URL, or a value of the config; EPROTONOSUPPORT: an engine that
 *          this library was built without; ENOMEM; ECHILD in a forked child.
 * Threads: any.  Never blocks.  It works before the runtime has started. */
WEIR_API weir_durable *weir_durable_open(const char *url);
WEIR_API weir_durable *weir_durable_open_with(const struct weir_durable_config *config, const char *url);

/* Closes a store.  No delivery begins any more.  The call waits for the handlers that run, for
 * config.close_limit at most; then their flows are cancelled.  Those that this ends are put back, and other
 * nodes deliver them at once; one that was at its last attempt is dead.  Ends that the engine does not
 * take are tried again for config.close_limit at most, and then their leases end.  Operations that were
 * started go on to their end, and later ones end with -EPIPE.
 *
 * A store has one owner and no references, unlike the pools of connections to databases: a reference that
 * somebody has forgotten would keep handlers running.
 *
 * On a worker the call does not wait: all of that happens behind it.  Accepts NULL.
 *
 * Owner:   takes the store over.
 * Threads: any that does not use the store any more. */
WEIR_API void weir_durable_close(weir_durable *store);

/* -- operations -- */

/* Makes a task that sets a timer: a new generation of the name.  A generation that was there before
 * is replaced, whatever its state: no node will claim it any more.  If a node has claimed it, its
 * handler may begin and runs on, and its end changes nothing.
 *
 * weir_durable_set_new is due at `wall`, an instant of the engine's clock.  An instant in the past is
 * due at once; WEIR_FOREVER never comes.  weir_durable_set_after_new is due `after` from now, by the
 * engine's clock.  It is right also if the clock of this machine is wrong.
 *
 * When the status is 0 the timer is kept, as docs/durable.md says for each engine.  A cancel or a
 * deadline ends the task at once; then it is unknown whether the timer is set.
 *
 * Owner:   the caller, until the task is consumed.  Name, topic and payload are copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status:
 *          0; -EINVAL: an empty name or topic, or NULL data with a size; -ENAMETOOLONG; -EMSGSIZE: the
 *            payload is too large;
 *          -EPIPE: the store is closed; -ENOMEM, also for a NULL store;
 *          what the engine reports (weir_durable_problem), and -ECONNREFUSED also for a file, host or
 *            database that is not there;
 *          -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.
 * Units:   nanoseconds; `wall` since 1970-01-01 00:00:00 UTC, as weir_wall_now.
 * Threads: any. */
WEIR_API weir_task *weir_durable_set_new(weir_durable *store, const char *name, weir_nsec wall, const char *topic,
                                         const void *payload, size_t size, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_durable_set_after_new(weir_durable *store, const char *name, weir_nsec after, const char *topic,
                                               const void *payload, size_t size, weir_task_fn *done, void *context);

/* What happens to due times of a schedule that were missed: no node was there to deliver them, or the
 * delivery before took too long. */
enum weir_durable_missed_policy {
        WEIR_DURABLE_SKIP = 0, /* what is late by more than config.missed is dropped */
        WEIR_DURABLE_ONCE = 1, /* one delivery stands for all that have passed */
        WEIR_DURABLE_ALL = 2,  /* each one has its delivery, one after the other */
};

/* Makes a task that sets a timer which follows a schedule, as weir_ticker_new_at does.  Each due time
 * is a generation of its own, and is delivered once in all nodes together.  When its delivery is over,
 * the next due time follows.  One that has failed all its attempts is given up.
 *
 * If the name has the same schedule, zone, policy, topic and payload, nothing changes.  So each node
 * may set the schedule when it starts.  The zone is a file of the machine; NULL is its local one.
 *
 * Owner:   the caller, until the task is consumed.  The texts are copied.
 * Result:  as for weir_durable_set_new; also -EINVAL for an unknown policy, and an error of
 *          weir_ticker_check.
 * Threads: any; reads the file of the zone, so it may block. */
WEIR_API weir_task *weir_durable_schedule_new(weir_durable *store, const char *name, const char *cron, const char *zone,
                                              enum weir_durable_missed_policy policy, const char *topic, const void *payload,
                                              size_t size, weir_task_fn *done, void *context);

/* Makes a task that cancels the timer of that name.  weir_durable_cancelled tells the outcome: 1 only
 * if the timer will not be delivered.  The first claim of a node decides: a timer that a handler has,
 * or that waits for its next attempt, is not cancelled.  Such a timer is delivered until a handler
 * succeeds, or until it is dead.  A schedule is cancelled between two deliveries.
 *
 * Owner, Threads: as for weir_durable_set_new.
 * Result:  as for weir_durable_set_new; 0 also if there is no such timer. */
WEIR_API weir_task *weir_durable_cancel_new(weir_durable *store, const char *name, weir_task_fn *done, void *context);

/* Whether the cancel has cancelled the timer: no handler has begun for its generation, and none will.
 *
 * Result:  1 or 0; 0 also for another task, and if the status is not 0.
 * Threads: inside the task's callback. */
WEIR_API int weir_durable_cancelled(const weir_task *cancel);

/* Makes a task that moves the due time of the timer: to `after` from now by the engine's clock, or by
 * `by`, later or earlier.  The generation stays.  weir_durable_info tells what the timer is now, so one
 * step both finds a session and keeps it alive.
 *
 * Owner, Threads: as for weir_durable_set_new.
 * Result:  as for weir_durable_set_new; -ENOENT: there is no such timer, or a claim has decided.
 * Units:   nanoseconds. */
WEIR_API weir_task *weir_durable_reset_new(weir_durable *store, const char *name, weir_nsec after, weir_task_fn *done,
                                           void *context);
WEIR_API weir_task *weir_durable_extend_new(weir_durable *store, const char *name, weir_nsec by, weir_task_fn *done,
                                            void *context);

/* Makes a task that puts a dead timer back: it is due at once, as a new generation, which
 * weir_durable_generation tells.  weir_durable_forget_new removes a dead timer instead.
 *
 * Owner, Threads: as for weir_durable_set_new.
 * Result:  as for weir_durable_set_new; -ENOENT: there is no dead timer of that name. */
WEIR_API weir_task *weir_durable_put_back_new(weir_durable *store, const char *name, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_durable_forget_new(weir_durable *store, const char *name, weir_task_fn *done, void *context);

/* -- looking -- */

/* How far a timer has come. */
enum weir_durable_state {
        WEIR_DURABLE_PENDING = 0, /* it waits for its due time, a node, or its next attempt */
        WEIR_DURABLE_LEASED = 1,  /* a node delivers it */
        WEIR_DURABLE_DEAD = 2,    /* all attempts have failed */
};

/* A timer, as the engine has it. */
struct weir_durable_info {
        const char *name;    /* as it was set */
        const char *topic;   /* as it was set */
        const void *payload; /* as it was set; followed by a NUL that is not counted */
        size_t payload_size; /* in bytes */
        uint64_t generation; /* of the last set, or of the due time of the schedule */
        enum weir_durable_state state; /* at the moment of the look */
        unsigned attempt;    /* how many attempts have begun */
        uint64_t token;      /* of the last one; 0: none has begun */
        weir_nsec due;       /* the due time that was asked for */
        weir_nsec ready;     /* when the next attempt may begin; of a leased timer: when the lease ends */
        const char *node;    /* that has begun the last attempt; "": none */
        const char *problem; /* why the last attempt has failed; "": none has */
        const char *cron;    /* of a schedule; "": it has none */
        const char *zone;    /* of a schedule; "": the local one */
        enum weir_durable_missed_policy policy; /* of a schedule */
};

/* Makes a task that reads one timer, or a list of them in the order of their names (of their bytes).
 *
 * weir_durable_list_new lists the timers whose names begin with `prefix` and come behind `behind`, up
 * to `most` of them; "" is a prefix of all names, and NULL is before all.  To see all, list again
 * behind the last name.  weir_durable_dead_new lists the dead ones alone.
 *
 * Owner:   the caller, until the task is consumed.
 * Result:  as for weir_durable_set_new; weir_durable_get_new: -ENOENT: there is no such timer;
 *          -EINVAL: a NULL prefix, or a `most` of 0 or above 10,000; -ENAMETOOLONG: no name can begin with
 *          such a prefix.
 * Threads: any. */
WEIR_API weir_task *weir_durable_get_new(weir_durable *store, const char *name, weir_task_fn *done, void *context);
WEIR_API weir_task *weir_durable_list_new(weir_durable *store, const char *prefix, const char *behind, size_t most,
                                          weir_task_fn *done, void *context);
WEIR_API weir_task *weir_durable_dead_new(weir_durable *store, const char *prefix, const char *behind, size_t most,
                                          weir_task_fn *done, void *context);

/* The timers that such a task has found, and the one that a reset or an extension has moved; `index`
 * counts from 0.
 *
 * Owner:   the task.
 * Result:  NULL behind the last one, after a failure, and for another task.
 * Threads: inside the task's callback. */
WEIR_API const struct weir_durable_info *weir_durable_info(const weir_task *task, size_t index);

/* Makes a task that counts the timers whose names begin with `prefix`.  The engine may have to look at
 * each of them.
 *
 * Owner, Threads: as for weir_durable_set_new.
 * Result:  as for weir_durable_set_new. */
WEIR_API weir_task *weir_durable_count_new(weir_durable *store, const char *prefix, weir_task_fn *done, void *context);

/* How many timers such a task has counted, in one of the states.
 *
 * Result:  0 after a failure, and for another task.
 * Threads: inside the task's callback. */
WEIR_API uint64_t weir_durable_counted(const weir_task *count, enum weir_durable_state state);

/* Why the task has failed, for people: the engine's words; of other failures, what weir_strerror says.
 *
 * Owner:   the task.
 * Result:  NULL for another task, and if it has not failed.
 * Threads: inside the task's callback. */
WEIR_API const char *weir_durable_problem(const weir_task *task);

/* -- deliveries -- */

/* Sets the handler for a topic: from now on this node delivers timers of the topic.  `handler` is
 * called on a worker with a task for each delivery, up to config.running at one time.  Tasks that it
 * pushes into the series of that task, weir_series_of(task), run behind it.  The first handler of a
 * store starts the runtime, if nothing has done so before.
 *
 * The end of that series decides.  With the status 0 the delivery is acknowledged, and the timer is
 * over.  Otherwise the attempt has failed: the handler, or a later callback, calls
 * weir_series_fail(weir_series_of(task), status), or the series stops at failures.  Then the timer
 * waits, and is delivered again, by any node.  When all attempts have failed, it is dead.
 *
 * The series ends early
 *
 * - with -ETIMEDOUT when the lease is over and could not be renewed, because the engine was not
 *   reached;
 * - with -ESTALE when the lease was refused: the timer was set anew, or it was claimed by another
 *   node;
 * - with -ECANCELED when the store is closed and config.close_limit is over.
 *
 * Result:  0; -EINVAL: an empty topic, or no handler; -ENAMETOOLONG; -EEXIST: this store has a handler
 *          for the topic; -ENOMEM, also for a NULL store; -ECHILD in a forked child; an error of
 *          weir_task_start.
 * Threads: any. */
WEIR_API int weir_durable_on(weir_durable *store, const char *topic, weir_task_fn *handler, void *context);

/* What is delivered.
 *
 * - weir_durable_generation is that of the set.  It also tells the callback of a set its generation,
 *   that of a put-back the new one, and that of a cancel which one it has cancelled; 0: none.
 * - weir_durable_attempt counts from 1.
 * - weir_durable_token is greater than those of all former deliveries of the name.  A writer
 *   for a delivery writes its token as well, and refuses to write over a greater one.  So a node that was
 *   stopped, and whose lease has ended meanwhile, cannot undo what a later one has written.
 * - weir_durable_due is the due time that was asked for; with a policy of WEIR_DURABLE_ONCE, the last
 *   one that the delivery stands for.
 * - weir_durable_missed counts the due times of a schedule that the delivery stands for besides its own
 *   one, with WEIR_DURABLE_ONCE, up to 256.  Those that WEIR_DURABLE_SKIP has dropped are in the figures alone.
 *
 * Owner:   texts and payload are valid until the end of the series of the delivery.  The payload is
 *          followed by a NUL that is not counted.  `size` may be NULL.
 * Result:  NULL or 0 for another task.
 * Units:   due: nanoseconds since 1970-01-01 00:00:00 UTC.
 * Threads: inside the handler; generation: also inside the callback of a set, a put-back or a cancel. */
WEIR_API const char *weir_durable_name(const weir_task *delivery);
WEIR_API const char *weir_durable_topic(const weir_task *delivery);
WEIR_API const void *weir_durable_payload(const weir_task *delivery, size_t *size);
WEIR_API uint64_t weir_durable_generation(const weir_task *task);
WEIR_API unsigned weir_durable_attempt(const weir_task *delivery);
WEIR_API uint64_t weir_durable_token(const weir_task *delivery);
WEIR_API weir_nsec weir_durable_due(const weir_task *delivery);
WEIR_API unsigned weir_durable_missed(const weir_task *delivery);

/* -- figures -- */

/* What a store has done.  Start from WEIR_DURABLE_STATS_DEFAULT. */
struct weir_durable_stats {
        size_t size;           /* of this struct; set by WEIR_DURABLE_STATS_DEFAULT */
        uint64_t operations;   /* that the program has started: sets, cancels and so on */
        uint64_t failed;       /* of them: with an error of the engine */
        uint64_t claimed;      /* deliveries that this node has got */
        uint64_t acknowledged; /* deliveries that have succeeded */
        uint64_t retried;      /* deliveries that have failed and will be repeated */
        uint64_t dead;         /* deliveries that have failed for the last time */
        uint64_t put_back;     /* deliveries that a close has put back */
        uint64_t lost;         /* deliveries whose lease was over or refused */
        uint64_t skipped;      /* due times of schedules that were missed */
        uint64_t looks;        /* how often it has looked for due timers */
        uint64_t rings;        /* how often it was woken by a set of another node; with SQLite also of its own */
        uint64_t running;      /* deliveries now */
};

/* The initial value of a struct weir_durable_stats: its size, and 0 for all else. */
#ifdef __cplusplus
#define WEIR_DURABLE_STATS_DEFAULT {sizeof(struct weir_durable_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_DURABLE_STATS_DEFAULT {.size = sizeof(struct weir_durable_stats)}
#endif

/* Fills `stats`.
 *
 * Result:  0; -EINVAL for NULL, or a wrong size; -ENOMEM for a NULL store; -ECHILD in a forked child.
 * Threads: any, also inside a callback.  The numbers are of one instant. */
WEIR_API int weir_durable_stats(const weir_durable *store, struct weir_durable_stats *stats);

/* Writes the figures of all stores that this process has opened to a descriptor, in the text format of
 * weir_metrics_write.  Names begin with weir_durable_, and the label `store` has the URL without user, password
 * and query, with "#2" and so on behind it when several stores have the same one.
 *
 *     weir_metrics_add(weir_durable_metrics_write);
 *
 * puts them into the text of weir_metrics_write, and on the page of weir_http_debug.  How many timers the engine
 * has is not among them: weir_durable_count_new asks it.
 *
 * Result:  0; what write(2) reports, when some of the text may have been written; -ENOMEM; -ECHILD in a forked
 *          child that has opened no store: those of its parent are not its own.
 * Threads: any, also inside a callback, where a blocking descriptor delays its neighbours. */
WEIR_API int weir_durable_metrics_write(int fd);

/* -- a page -- */

/* Answers a request with a page for people: the figures of this node, how many timers there are in
 * each state, those that are ready next, and the dead ones with their problems.  It is a handler:
 *
 *     weir_http_router_add(router, "GET", "/debug/timers", weir_durable_page, store);
 *
 * ?format=json is the same as JSON.  ?limit= is the number of timers in each list, 1 to 1,000; the
 * default is 100.  Payloads are not shown.  With an engine that has no order of time, the list of those
 * that are next is one by name instead.
 *
 * The page reads the engine by three tasks in the series of the exchange, each within 3 s.  If one of
 * them fails the status is 503, and the page says why.  The counts and the dead ones may cost the engine
 * a look at each timer.
 *
 * weir_durable_page admits only clients on this machine, as weir_http_debug does without a
 * configuration; others get a 403.  A server whose proxies name their client in a field of another name
 * also needs them among its trusted_proxies.  weir_durable_page_trusted admits everybody: a handler calls
 * it when it has checked the right to read.
 *
 * Owner:   the store stays the caller's, and must be open until the exchange has ended.
 * Threads: inside a callback of the exchange's series. */
WEIR_API void weir_durable_page(weir_task *exchange, void *store);
WEIR_API void weir_durable_page_trusted(weir_task *exchange, void *store);

WEIR_END

#endif
