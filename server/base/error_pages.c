/* server/base/error_pages.c: the bodies of the server's own replies.
 *
 * Threads: the pages are set before the start, and constant from then on. */
#include "server/base/error_pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/phase.h"
#include "kernel/memory/watched.h"
#include "kernel/observe/log.h"
#include "protocol/text/reason.h"
#include "server/base/server.h"

/* They are sent when there is no memory, or no room for a client. */
_Static_assert(sizeof "500 Internal Server Error\n" - 1 <= WEIR__RESPONSE_BODY, "a line needs no memory");
_Static_assert(sizeof "Content-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n" - 1 <= WEIR__RESPONSE_FIELDS,
               "fields need no memory");

struct weir__error_page {
        struct weir__error_page *next;
        int status;
        size_t size;
        char *type; /* in the same memory, as is the body */
        char body[];
};

/* The link to the page for this status, or the one at the end. */
static struct weir__error_page **
find(struct weir__error_page **link, int status)
{
        while (*link && (*link)->status != status)
                link = &(*link)->next;
        return link;
}

static struct weir__error_page *
page_new(int status, const char *type, const void *body, size_t size)
{
        size_t type_size = strlen(type) + 1;
        struct weir__error_page *page = malloc(sizeof *page + size + type_size);

        if (!page)
                return NULL;
        *page = (struct weir__error_page){.status = status, .size = size, .type = page->body + size};
        if (size)
                memcpy(page->body, body, size);
        memcpy(page->type, type, type_size);
        return page;
}

int
weir_http_server_set_error(weir_http_server *server, int status, const char *type, const void *body, size_t size)
{
        weir__memory_expect(server);
        if (weir__phase_is_forked())
                return -ECHILD;
        if (!server)
                return -ENOMEM;
        if (status < 400 || status > 599)
                return weir__log_refusal("weir_http_server_set_error: expected a status of 400 to 599, and was given %d", status);
        if (!type || (!body && size) || size > INT32_MAX)
                return weir__log_refusal("weir_http_server_set_error: expected a type, and a body of at most 2 GiB");
        struct weir__response probe = {.status = 0};
        int failed = weir__response_field(&probe, "Content-Type", type, false);
        weir__response_done(&probe);
        if (failed == -EINVAL)
                return weir__log_refusal(
                        "weir_http_server_set_error: the type has control characters: expected one such as \"text/html\"");
        if (failed)
                return failed;
        struct weir__error_page *page = page_new(status, type, body, size), *unused = page;
        if (!page)
                return -ENOMEM;
        weir__lock(&server->base.lock);
        bool is_new = server->base.state == WEIR__SERVER_NEW;
        if (is_new) {
                struct weir__error_page **link = find(&server->error_pages, status);

                unused = *link;
                page->next = unused ? unused->next : NULL;
                *link = page;
        }
        weir__unlock(&server->base.lock);
        free(unused);
        return is_new ? 0 : -EBUSY;
}

void
weir__error_pages_free(weir_http_server *server)
{
        while (server->error_pages) {
                struct weir__error_page *page = server->error_pages;

                server->error_pages = page->next;
                free(page);
        }
}

int
weir__error_pages_fill(weir_http_server *server, int status, size_t max, struct weir__response *response)
{
        const struct weir__error_page *page = *find(&server->error_pages, status);
        char text[64];

        if (page && page->size >= max)
                page = NULL;
        size_t size = page ? page->size : (size_t)snprintf(text, sizeof text, "%d %s\n", status, weir__http_reason(status));
        int failed = weir__response_field(response, "Content-Type", page ? page->type : "text/plain; charset=utf-8", true);

        response->status = status;
        response->body_size = 0;
        if (!failed && status == 503)
                failed = weir__response_field(response, "Retry-After", "1", true);
        return failed ? failed : weir__response_append(response, page ? page->body : text, size);
}
