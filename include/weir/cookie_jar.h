/* weir/cookie_jar.h: the cookies that servers have set, and which of them go back with a request.
 *
 *     weir_cookie_jar *jar = weir_cookie_jar_new();
 *
 *     weir_cookie_jar_set(jar, url, "id=42; Path=/; Secure; Max-Age=3600");     a Set-Cookie field of a response
 *     weir_cookie_jar_header(jar, url, buffer, sizeof buffer);                  "id=42", for the field Cookie
 *     weir_cookie_jar_save(jar, "cookies.txt");
 *
 * A jar follows RFC 6265.  From its successor it has the prefixes "__Host-" and "__Secure-", the limits, and the rule that plain
 * HTTP neither sets nor hides cookies that are `Secure`.  It holds at most 3,000 cookies, and 50 of a domain.  Above that the
 * expired ones are dropped, and then the one that was not used for longest.  A request gets at most 150.
 *
 * A cookie for a public suffix, such as "co.uk", is refused if the library was built with libpsl.  Otherwise only domains without
 * a dot are.
 *
 * Time is weir_wall_now, so cookies also expire on the virtual clock. */
#ifndef WEIR_COOKIE_JAR_H
#define WEIR_COOKIE_JAR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <weir/http_cookie.h>
#include <weir/url.h>

WEIR_BEGIN

/* A jar of cookies.  It lives as long as anybody has a reference. */
typedef struct weir_cookie_jar weir_cookie_jar;

/* A cookie in a jar. */
struct weir_cookie {
        const char *name;   /* never empty */
        const char *value;  /* as it was set, with its quotes */
        const char *domain; /* in lower case, without a dot at its beginning */
        const char *path;   /* begins with a slash */
        weir_nsec expires;  /* nanoseconds since 1970; WEIR_FOREVER: when the session ends, which the program decides */
        enum weir_http_same_site same_site; /* as it was set; the jar does nothing with it */
        bool is_host_only;  /* it goes to this host alone, and to no name below it */
        bool is_secure;     /* it goes over TLS only */
        bool is_http_only;  /* as it was set; the jar does nothing with it */
};

/* Is called for a cookie, which it may read until it returns. */
typedef void weir_cookie_fn(const struct weir_cookie *cookie, void *context);

/* Makes an empty jar.
 *
 * Owner:   the caller has a reference; weir_cookie_jar_unref.
 * Result:  NULL with errno ENOMEM.
 * Threads: any, as for all functions here.  A jar may be used by several threads at once. */
WEIR_API weir_cookie_jar *weir_cookie_jar_new(void);

/* Adds a reference.
 *
 * Result:  the jar; NULL for NULL.
 * Threads: any. */
WEIR_API weir_cookie_jar *weir_cookie_jar_ref(weir_cookie_jar *jar);

/* Drops a reference.  The last one frees the jar.  Accepts NULL.
 *
 * Threads: any. */
WEIR_API void weir_cookie_jar_unref(weir_cookie_jar *jar);

/* Takes the value of a Set-Cookie field that came with a response to a request for `url`.  A cookie of the same name, domain and
 * path is replaced.  One that has expired deletes it.
 *
 * Owner:   all is copied.
 * Result:  0, also when nothing was there to delete; -EINVAL: a NULL, a URL that is not of http, https, ws
 *          or wss, or a text that sets no cookie; -EMSGSIZE: name and value have more than 4096 bytes, or
 *          the path of the URL has more than 1024; -EPERM: the URL may not set it: another domain, a public
 *          suffix, a prefix, or `Secure` over plain HTTP; -ENOMEM.
 * Threads: any.  Never blocks.
 * Source:  RFC 6265 section 5.3. */
WEIR_API int weir_cookie_jar_set(weir_cookie_jar *jar, const weir_url *url, const char *set_cookie);

/* Writes the value of the field Cookie for a request to `url`: "a=1; b=2".  Longer paths come first, then what was set earlier.
 * Bytes that do not fit are left out, and a NUL follows if there is any room.
 *
 * Result:  the length of the whole, without the NUL: less than `room` when all has fitted; 0 when no cookie goes there, for a
 *          NULL, and for a URL that is not of http, https, ws or wss.
 * Threads: any.  Never blocks.
 * Source:  RFC 6265 section 5.4. */
WEIR_API size_t weir_cookie_jar_header(weir_cookie_jar *jar, const weir_url *url, char *out, size_t room);

/* How many cookies are in the jar, with those that have expired and were not noticed yet.  0 for NULL.
 *
 * Threads: any. */
WEIR_API size_t weir_cookie_jar_count(weir_cookie_jar *jar);

/* Drops all cookies.  Accepts NULL.
 *
 * Threads: any. */
WEIR_API void weir_cookie_jar_clear(weir_cookie_jar *jar);

/* Calls the function for each cookie that has not expired, the one that was used last at the end.  It may use the jar: it sees
 * those that were there when the call began.
 *
 * Result:  how many there were; -EINVAL for a NULL jar or function; -ENOMEM.
 * Threads: any. */
WEIR_API ssize_t weir_cookie_jar_each(weir_cookie_jar *jar, weir_cookie_fn *fn, void *context);

/* Adds the cookies of a file in Netscape's format, which curl and others read and write.  Lines that are no cookie, or one that
 * a server could not set, are skipped, and so are expired ones.
 *
 * Result:  how many were added; -EINVAL: a NULL, or not a regular file; -ENOMEM; an error of open(2) or read(2), as -ENOENT or
 *          -EACCES.  Cookies that were read before an error are in the jar.
 * Threads: any.  It waits for the disk: call it before the loop runs, or from a function on the executor (weir/go.h). */
WEIR_API ssize_t weir_cookie_jar_load(weir_cookie_jar *jar, const char *path);

/* Writes all cookies to a file in that format, cookies of the session too, with 0 for their end.  SameSite is lost.  It writes
 * another file in the same directory, with mode 0600, and renames it.  After a failure the old file is as it was.
 *
 * Result:  how many were written; -EINVAL for a NULL; -ENOMEM; an error of open(2), write(2), fsync(2) or rename(2), as
 *          -ENOSPC or -EIO.
 * Threads: any.  It waits for the disk, as weir_cookie_jar_load. */
WEIR_API ssize_t weir_cookie_jar_save(weir_cookie_jar *jar, const char *path);

WEIR_END

#endif
