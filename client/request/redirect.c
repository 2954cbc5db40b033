/* client/request/redirect.c: a response that sends the request elsewhere.
 *
 * Threads: the owner of the request's poller.
 * Source:  RFC 9110 section 15.4; what is dropped on another origin: golang/go CVE-2023-45289. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/request/request.h"
#include "client/wire/wire.h"
#include "kernel/observe/log.h"

static bool
is_redirect(int status)
{
        return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool
weir__client_request_follows(const struct weir__client_request *request)
{
        return request->redirects && is_redirect(request->call.received->status);
}

static bool
is_http(const weir_url *url)
{
        return strcmp(weir_url_scheme(url), "http") == 0 || strcmp(weir_url_scheme(url), "https") == 0;
}

static bool
has_scheme(const weir_url *url, const char *scheme)
{
        return strcmp(weir_url_scheme(url), scheme) == 0;
}

static void
remove_fields(struct weir__client_request *request, const char *const *names, size_t count)
{
        for (size_t i = 0; i < count; i++)
                weir__lines_remove(&request->draft.fields, names[i]);
}

/* Its method, and whether it keeps its body.  Source: RFC 9110 section 15.4. */
static void
change_method(struct weir__client_request *request)
{
        static const char *const of_content[] = {"Content-Type",     "Content-Encoding", "Content-Language",
                                                 "Content-Location", "Digest",           "Last-Modified"};
        int status = request->call.received->status;
        const char *method = request->draft.method;
        bool becomes_get = status == 303 ? strcmp(method, "HEAD") != 0
                                         : (status == 301 || status == 302) && strcmp(method, "POST") == 0;

        if (!becomes_get)
                return;
        request->draft.method = "GET";
        request->draft.is_idempotent = true;
        if (request->content_kind == WEIR__BODY_COPY)
                free(request->content);
        request->content = NULL;
        request->content_kind = WEIR__BODY_NONE;
        request->content_size = 0;
        remove_fields(request, of_content, sizeof of_content / sizeof *of_content);
}

/* What the former origin was told is not for another one. */
static void
drop_secrets(struct weir__client_request *request)
{
        static const char *const secrets[] = {"Authorization", "Proxy-Authorization", "Cookie", "Host"};

        remove_fields(request, secrets, sizeof secrets / sizeof *secrets);
}

/* The URL that it goes to.  Result: 0 or the status of the request. */
static int
find_target(struct weir__client_request *request, weir_url **target)
{
        const char *location = weir__received_field(request->call.received, "Location");

        *target = location ? weir_url_resolve(request->draft.url, location, NULL) : NULL;
        if (!*target)
                return location && errno == ENOMEM ? -ENOMEM : -ENOLINK;
        if (!is_http(*target) || !weir_url_address(*target) || weir_url_port(*target) == 0)
                return -ENOLINK;
        return has_scheme(request->draft.url, "https") && has_scheme(*target, "http") ? -EACCES : 0;
}

static bool
is_same_origin(const weir_url *one, const weir_url *other)
{
        return strcmp(weir_url_scheme(one), weir_url_scheme(other)) == 0 &&
               strcmp(weir_url_host_field(one), weir_url_host_field(other)) == 0;
}

/* With a reference.  A server does not choose among the upstreams of the program: for a redirect their names are hosts. */
static struct weir__origin *
find_origin(struct weir__client_request *request, const weir_url *target, bool is_same)
{
        struct weir__origin *origin = request->origin;

        if (!is_same)
                return weir__client_target_of_url(&request->draft, target, false);
        weir__origin_keep(origin);
        return origin;
}

/* The present URL and origin are kept: a dump may be looking at them. */
static int
go_to(struct weir__client_request *request, weir_url *target)
{
        struct weir__origin *from = request->origin;
        bool is_same = is_same_origin(request->draft.url, target);
        struct weir__origin *to = find_origin(request, target, is_same);
        struct weir__visited *visited = malloc(sizeof *visited);

        if (!to || !visited) {
                if (to)
                        weir__origin_drop(to);
                free(visited);
                return -ENOMEM;
        }
        *visited = (struct weir__visited){.next = request->visited, .url = request->draft.url, .origin = from};
        request->visited = visited;
        request->draft.url = target;
        request->origin = to;
        if (!is_same) {
                weir__client_target_report(&request->target, WEIR__OUTCOME_SUCCESS);
                drop_secrets(request);
        }
        return 0;
}

int
weir__client_request_redirect(struct weir__client_request *request)
{
        weir_url *target = NULL;
        int failed = request->followed < request->redirects ? find_target(request, &target) : -ELOOP;

        if (!failed)
                failed = go_to(request, target);
        if (failed) {
                weir_url_free(target);
                return failed;
        }
        request->followed++;
        change_method(request);
        return weir__client_request_compose(request);
}
