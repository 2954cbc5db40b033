/* weir/resolve.h: the addresses of a name.
 *
 *     weir_task_start(weir_resolve_new("example.org", 0, show, NULL));
 *
 *     static void
 *     show(weir_task *resolve, void *context)
 *     {
 *             char text[WEIR_RESOLVE_TEXT];
 *
 *             if (weir_task_status(resolve) != 0)
 *                     puts(weir_resolve_problem(resolve));
 *             for (unsigned i = 0; weir_resolve_write(resolve, i, text, sizeof text) > 0; i++)
 *                     puts(text);
 *     }
 *
 * weir_connect_new and the tasks of protocols look names up in the same way.  docs/names.md says who
 * is asked, and how long answers are kept. */
#ifndef WEIR_RESOLVE_H
#define WEIR_RESOLVE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/task.h>

WEIR_BEGIN

struct sockaddr; /* <sys/socket.h> */

/* -- a look-up -- */

/* Makes a task that looks up the addresses of a host: of its name, or of the text of an address.
 * `family` is AF_INET, AF_INET6, or 0 for both.
 *
 * The look-up belongs to the library.  Tasks that want the same name wait for the same look-up.  A
 * task that is cancelled leaves it; the look-up goes on, and its answer is kept for the next one.
 *
 * Owner:   the caller, until the task is consumed.  The host is copied.
 * Result:  NULL when out of memory; every consumer accepts NULL.  The task's start, run or push
 *          reports -EINVAL for a NULL host or another family.  The task's status: 0: there is at least
 *          one address; -ENOENT: the name is not known, or has no address of that family; -EIO: the
 *          servers of names answer with an error; -EAGAIN: they do not answer; -EINVAL: it is no
 *          name of a host; -EMFILE, -ENFILE, -ENOMEM; -ECANCELED, -ETIMEDOUT or -ESHUTDOWN if its
 *          series ended before.
 * Threads: any. */
WEIR_API weir_task *weir_resolve_new(const char *host, int family, weir_task_fn *done, void *context);

/* How many addresses a resolve has found; 0 if it has failed, and for another task.
 *
 * Threads: inside the task's callback. */
WEIR_API unsigned weir_resolve_count(const weir_task *resolve);

/* An address, the first being 0: a struct sockaddr_in or sockaddr_in6 whose port is 0.  `size` may be
 * NULL.  They are in the order in which they should be tried.
 *
 * Owner:   the task.
 * Result:  NULL: there is no such address.
 * Threads: inside the task's callback. */
WEIR_API const struct sockaddr *weir_resolve_address(const weir_task *resolve, unsigned index, unsigned *size);

/* Room for the text of any address, with its NUL. */
#define WEIR_RESOLVE_TEXT 64

/* Writes the text of an address, such as "192.0.2.1" or "fe80::1%eth0", as snprintf does.
 *
 * Result:  the size of the text without its NUL; 0 and "": there is no such address.
 * Threads: inside the task's callback. */
WEIR_API int weir_resolve_write(const weir_task *resolve, unsigned index, char *out, size_t room);

/* Why a resolve has failed, for people: 'no such name "x": NXDOMAIN from 127.0.0.1:53'.
 *
 * Owner:   the task.
 * Result:  NULL for another task, and if it has not failed.
 * Threads: inside the task's callback. */
WEIR_API const char *weir_resolve_problem(const weir_task *resolve);

/* -- the resolver -- */

/* Who is asked. */
enum weir_resolver_mode {
        WEIR_RESOLVER_AUTO = 0, /* as nsswitch.conf says: the library itself, or getaddrinfo(3) if that knows more */
        WEIR_RESOLVER_DNS,      /* the file of hosts, and then servers of names */
        WEIR_RESOLVER_SYSTEM,   /* always getaddrinfo(3), on a thread of the executor */
};

/* What a function of the program answers. */
typedef struct weir_resolver_reply weir_resolver_reply;

/* A function of the program that answers in place of all others, on a thread of the executor, where
 * it may block.  `host` is valid, and in lower case.  `family` is as in weir_resolve_new.
 *
 * Result:  0: the answer are the addresses that it has added; WEIR_RESOLVER_PASS: the name is looked
 *          up as without the function; a negative errno: the status of the tasks. */
typedef int weir_resolver_fn(const char *host, int family, weir_resolver_reply *reply, void *context);

/* Returned in place of a status: the resolver looks the name up itself. */
#define WEIR_RESOLVER_PASS 1

/* Adds the text of an address.  One of another family than was asked for is left out.
 *
 * Result:  0; -EINVAL: it is no address; -ENOMEM.
 * Threads: inside the function that got the reply. */
WEIR_API int weir_resolver_reply_add(weir_resolver_reply *reply, const char *address);

/* The answer may be kept for so long; without this it is not kept.
 *
 * Units:   nanoseconds.
 * Threads: inside the function that got the reply. */
WEIR_API void weir_resolver_reply_keep(weir_resolver_reply *reply, weir_nsec duration);

/* How names are looked up.  Start from WEIR_RESOLVER_CONFIG_DEFAULT; 0 in a field means its
 * default. */
struct weir_resolver_config {
        size_t size;            /* of this struct when the program was compiled; set by WEIR_RESOLVER_CONFIG_DEFAULT */
        int mode;               /* enum weir_resolver_mode */
        int tries;              /* of each server; default: as resolv.conf says */
        const char *servers;    /* "127.0.0.1:53,[::1]:53"; NULL: those of resolv.conf */
        weir_nsec timeout;      /* of the first try, then twice as long each time; default: as resolv.conf says */
        int names;              /* that are kept at most; default 1,000; -1: none */
        int reserved;           /* 0 */
        weir_nsec max_keep;     /* of an answer; default one day */
        weir_nsec max_negative; /* of an answer that there is no such name; default one minute */
        weir_resolver_fn *answer; /* NULL: none */
        void *context;            /* of `answer` and `on_free` */
        weir_free_fn *on_free;    /* called when no look-up uses this config any more; NULL: nothing */
};

/* The initial value of a struct weir_resolver_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_RESOLVER_CONFIG_DEFAULT {sizeof(struct weir_resolver_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
#else
#define WEIR_RESOLVER_CONFIG_DEFAULT {.size = sizeof(struct weir_resolver_config)}
#endif

/* Changes how names are looked up from now on, and forgets all answers.  Look-ups that are under way
 * go on as they began.  NULL: the default.  It holds until it is changed again.
 *
 * Owner:   the servers are copied.
 * Result:  0; -EINVAL: a field has no valid value, and nothing has changed; -ENOMEM; -ECHILD in a
 *          forked child.  Without success `on_free` is not called.
 * Units:   nanoseconds.
 * Threads: any.  It works before the runtime has started. */
WEIR_API int weir_resolver_configure(const struct weir_resolver_config *config);

/* Forgets all answers.  Also the files of the system are looked at again.  Look-ups that are under way
 * go on, but their answers are not kept.
 *
 * Threads: any. */
WEIR_API void weir_resolver_flush(void);

/* What the resolver has counted since the beginning of the process. */
struct weir_resolver_stats {
        uint64_t hits;     /* answers that were kept */
        uint64_t misses;   /* look-ups */
        uint64_t joined;   /* waits for a look-up that was under way */
        uint64_t failures; /* look-ups that have found no address */
        uint64_t entries;  /* answers that are kept now */
        uint64_t running;  /* look-ups that are under way now */
};

/* Threads: any. */
WEIR_API void weir_resolver_stats(struct weir_resolver_stats *stats);

WEIR_END

#endif
