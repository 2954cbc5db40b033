/* weir/upstream.h: a name for several servers, and who of them gets the next request.
 *
 *     weir_upstream *backend = weir_upstream_new("backend", NULL);
 *
 *     weir_upstream_add(backend, "10.0.0.1:8080", NULL);
 *     weir_upstream_add(backend, "10.0.0.2:8080", NULL);
 *
 * From then on the HTTP client takes "backend" as the host of a URL: http://backend/.  Each request
 * goes to one of the members.  Members may come and go at any time. */
#ifndef WEIR_UPSTREAM_H
#define WEIR_UPSTREAM_H

#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>
#include <weir/retry.h>
#include <weir/task.h>
#include <weir/time.h>

WEIR_BEGIN

/* A name with members.  It lives as long as anybody has a reference. */
typedef struct weir_upstream weir_upstream;

/* One server of an upstream. */
typedef struct weir_member weir_member;

/* Which member gets the next request, among those that may be used. */
enum weir_upstream_policy {
        WEIR_UPSTREAM_TWO_CHOICES = 0, /* of two random members, the one with fewer requests in flight for its weight */
        WEIR_UPSTREAM_ROUND_ROBIN = 1, /* by turns, spread evenly by weight, from a random member on */
        WEIR_UPSTREAM_RANDOM = 2,      /* at random, by weight */
        WEIR_UPSTREAM_HASH = 3,        /* by the key of the request: the same key, the same member */
        WEIR_UPSTREAM_FUNCTION = 4,    /* as a function of the program says */
};

/* When a member may be used. */
enum weir_member_tier {
        WEIR_MEMBER_MAIN = 0,   /* always */
        WEIR_MEMBER_BACKUP = 1, /* while no main member may be used */
};

/* What the breaker of a member says. */
enum weir_member_state {
        WEIR_MEMBER_CLOSED = 0,    /* it gets requests */
        WEIR_MEMBER_OPEN = 1,      /* it is ejected: it has failed, and gets none for some time */
        WEIR_MEMBER_HALF_OPEN = 2, /* that time is over: it gets one request, the probe, which decides */
        WEIR_MEMBER_DISABLED = 3,  /* weir_upstream_disable was called */
};

/* Chooses one of `count` members, all of which may be used.  `key` is that of the request; NULL: it has
 * none.  It returns an index; `count` or more: none, and the request fails with -ENETUNREACH.
 *
 * It is called again for the same request when the connect to its member has failed, and for a hedge, with
 * the members that the request has not had.  If it chooses none then, the request fails as the connect
 * did, or has no hedge.
 *
 * Owner:   members and key are borrowed until it returns.
 * Threads: the one that starts the request or makes the call; a worker's, when it is called again.  Several
 *          at once.  It must not block. */
typedef size_t weir_upstream_choose_fn(const weir_member *const *members, size_t count, const void *key, size_t key_size,
                                       void *context);

/* How an upstream works.  Start from WEIR_UPSTREAM_CONFIG_DEFAULT; 0 in a field means its default.
 *
 * A member is ejected when `failures_in_row` requests have failed one after another, or when
 * `window_percent` of at least `window_requests` have failed within `window`.  It is ejected for
 * `ejection`, and for twice as long each further time, up to `max_ejection`.  Then a probe decides.
 * The time is `ejection` again when the member was in use for as long as it was ejected last.  At most
 * half of the members of a tier are ejected, unless the other tier takes over. */
struct weir_upstream_config {
        size_t size;                      /* set by WEIR_UPSTREAM_CONFIG_DEFAULT */
        enum weir_upstream_policy policy; /* default: WEIR_UPSTREAM_TWO_CHOICES */
        unsigned failures_in_row;         /* default: 5; UINT_MAX: never */
        unsigned window_percent;          /* default: 50; above 100: never */
        unsigned window_requests;         /* default: 20 */
        weir_nsec window;                 /* it moves on in tenths; default: 10 s */
        weir_nsec ejection;               /* default: 30 s */
        weir_nsec max_ejection;           /* default: 5 minutes, or `ejection` if that is longer */
        unsigned hash_bound;              /* of WEIR_UPSTREAM_HASH: how many requests in flight a member may have, in percent of
                                             its share; a key whose member has more goes to the next; default: 125 */
        unsigned hedge_percent;           /* how many requests may be hedged, of a hundred: sent to a second member when the first
                                             is slow; the first reply is taken; default: 0, none.  10 is a good value */
        unsigned hedge_percentile;        /* a request is slow when it takes longer than so many of a hundred; default: 95 */
        unsigned reserved;                /* 0 */
        weir_retry_budget *budget;        /* hedges take from it, too, as retries that share it do; default: none */
        weir_upstream_choose_fn *choose;  /* of WEIR_UPSTREAM_FUNCTION */
        void *context;                    /* of `choose` */
};

/* The initial value of a struct weir_upstream_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_UPSTREAM_CONFIG_DEFAULT \
        {sizeof(struct weir_upstream_config), WEIR_UPSTREAM_TWO_CHOICES, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_UPSTREAM_CONFIG_DEFAULT {.size = sizeof(struct weir_upstream_config)}
#endif

/* How a member is used.  Start from WEIR_MEMBER_CONFIG_DEFAULT; 0 in a field means its default. */
struct weir_member_config {
        size_t size;                /* set by WEIR_MEMBER_CONFIG_DEFAULT */
        enum weir_member_tier tier; /* default: WEIR_MEMBER_MAIN */
        unsigned weight;            /* its share of the requests, beside those of the others: 1 to WEIR_MEMBER_WEIGHT_MAX;
                                       default: 1 */
        size_t max_in_flight;       /* requests in flight at most; default: no limit */
};

/* The greatest weight of a member. */
#define WEIR_MEMBER_WEIGHT_MAX 65535

/* The initial value of a struct weir_member_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_MEMBER_CONFIG_DEFAULT {sizeof(struct weir_member_config), WEIR_MEMBER_MAIN, 0, 0}
#else
#define WEIR_MEMBER_CONFIG_DEFAULT {.size = sizeof(struct weir_member_config)}
#endif

/* The longest name of an upstream, in bytes. */
#define WEIR_UPSTREAM_NAME_MAX 255

/* Makes an upstream without members.  Its name has 1 to WEIR_UPSTREAM_NAME_MAX letters, digits, '.',
 * '-' and '_'; upper case is the same as lower case.  It is found by that name until its last reference is
 * dropped.
 *
 * Owner:   the caller has a reference.  The config is copied (NULL: the default config).
 * Result:  NULL with errno EINVAL (invalid name or config), ENAMETOOLONG, EEXIST (there is one of
 *          that name), ENOMEM, ECHILD in a forked child.
 * Threads: any.  It works before the runtime has started. */
WEIR_API weir_upstream *weir_upstream_new(const char *name, const struct weir_upstream_config *config);

/* Finds the upstream of a name.
 *
 * Owner:   the caller has a reference.
 * Result:  NULL when there is none, and in a forked child.
 * Threads: any. */
WEIR_API weir_upstream *weir_upstream_find(const char *name);

/* Takes and drops a reference.  Requests have their own.  Both accept NULL.
 *
 * Threads: any. */
WEIR_API weir_upstream *weir_upstream_ref(weir_upstream *upstream);
WEIR_API void weir_upstream_unref(weir_upstream *upstream);

/* Adds a member.  Its address is one that weir_connect_new takes, and is what the member is known by.
 *
 * Owner:   address and config are copied (NULL: the default config).
 * Result:  0; -EEXIST: there is a member of that address; -EINVAL: wrong address or config;
 *          -ENAMETOOLONG: the path of a Unix socket is too long; -ENOMEM, also for a NULL upstream;
 *          -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_upstream_add(weir_upstream *upstream, const char *address, const struct weir_member_config *config);

/* Removes a member.  Its requests in flight finish; it gets no more.
 *
 * Result:  0; -ENOENT: there is none of that address; -ENOMEM for a NULL upstream; -ECHILD in a forked
 *          child.
 * Threads: any.  Never blocks for requests. */
WEIR_API int weir_upstream_remove(weir_upstream *upstream, const char *address);

/* Disables a member: it gets no requests until it is enabled.  Those in flight finish.  A member that
 * is enabled again begins with a clean record, and is not ejected.  Both change nothing if that is
 * how it is.
 *
 * Result:  0; -ENOENT: there is none of that address; -ENOMEM for a NULL upstream; -ECHILD in a forked
 *          child.
 * Threads: any. */
WEIR_API int weir_upstream_disable(weir_upstream *upstream, const char *address);
WEIR_API int weir_upstream_enable(weir_upstream *upstream, const char *address);

/* Sets the weight of a member: 1 to WEIR_MEMBER_WEIGHT_MAX.
 *
 * Result:  0; -EINVAL for another weight; -ENOENT: there is none of that address; -ENOMEM for a NULL
 *          upstream; -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_upstream_weight(weir_upstream *upstream, const char *address, unsigned weight);

/* Makes the addresses of a name members, such as all of "backend.internal:80", from now on.  The
 * look-up begins when the task is made, and the task ends with it: push it in front of the first
 * requests.
 *
 * The name is looked up again when a request comes and 5 s have passed since the last answer, which is
 * kept by its TTL (weir/resolve.h).  That request does not wait for it.  New addresses become members
 * with the config, and others are removed.  A look-up that fails changes nothing, and the name is
 * followed all the same.
 *
 * Owner:   the caller, until the task is consumed.  Name and config are copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's status: 0: the addresses
 *          are members; -EEXIST: the name is followed already; -EINVAL, -ENAMETOOLONG: it is no
 *          host with a port, or the config is wrong; -ENOENT, -EIO, -EAGAIN, -EMFILE, -ENFILE and
 *          -ENOMEM as of weir_resolve_new; -ENOMEM for a NULL upstream; -ECHILD in a forked child;
 *          -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_upstream_follow_new(weir_upstream *upstream, const char *name, const struct weir_member_config *config,
                                             weir_task_fn *done, void *context);

/* Removes the addresses of a name, and follows it no more.  Requests in flight finish.
 *
 * Result:  0; -ENOENT: it is not followed; -ENOMEM for a NULL upstream; -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_upstream_unfollow(weir_upstream *upstream, const char *name);

/* Room for the address of a member, with its NUL. */
#define WEIR_MEMBER_ADDRESS_ROOM 272

/* A member, and what it has done since it was added. */
struct weir_member_info {
        size_t size;                            /* sizeof(struct weir_member_info), set before the call */
        char address[WEIR_MEMBER_ADDRESS_ROOM]; /* as it was given */
        enum weir_member_tier tier;             /* as it was added */
        enum weir_member_state state;           /* of its breaker */
        unsigned weight;                        /* as it is set */
        unsigned is_failing;                    /* 1: it would be ejected, if that were not too many */
        size_t max_in_flight;                   /* as it was added; 0: no limit */
        size_t in_flight;                       /* requests that have not ended */
        uint64_t requests;                      /* that it was given */
        uint64_t failures;                      /* of these, that have failed */
        uint64_t ejections;                     /* how often it was ejected */
        weir_nsec ejected_until;                /* when it is OPEN: an instant of weir_now; else 0 */
};

/* Reports on the member of an index, from 0 on, in the order in which they were added.  A member that is
 * removed makes the indices of those behind it smaller.
 *
 * Result:  0; -ENOENT: there are not so many members; -EINVAL: `info` is NULL, or its size is wrong;
 *          -ENOMEM for a NULL upstream; -ECHILD in a forked child.
 * Threads: any. */
WEIR_API int weir_upstream_member(weir_upstream *upstream, size_t index, struct weir_member_info *info);

/* The address of a member, its weight, and how many requests it has in flight.
 *
 * Owner:   the member.
 * Result:  NULL and 0 for NULL.
 * Threads: inside a weir_upstream_choose_fn. */
WEIR_API const char *weir_member_address(const weir_member *member);
WEIR_API unsigned weir_member_weight(const weir_member *member);
WEIR_API size_t weir_member_in_flight(const weir_member *member);

WEIR_END

#endif
