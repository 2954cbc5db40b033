/* server/exchange/answer.c: what a handler says in reply.
 *
 * Threads: the callbacks of the exchange's series, one at a time, until the reply has begun. */
#include "server/exchange/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <weir/http_body.h>

#include "protocol/text/bytes.h"

int
weir_http_reply_status(weir_task *exchange, int status)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (status < 200 || status > 599)
                return -EINVAL;
        if (weir__exchange_is_sealed(known))
                return -EALREADY;
        if (known->said_by_file)
                weir__file_other_status(known, status);
        weir__exchange_set_status(known, status);
        return 0;
}

/* What the handler says itself takes the place of what the file said. */
static int
add_field(struct weir__exchange *exchange, const char *name, const char *value, bool replace)
{
        if (!name || !value)
                return -EINVAL;
        bool was_of_file = exchange->said_by_file && weir__file_leave_field(exchange, name);
        return weir__exchange_check(exchange, weir__response_field(&exchange->response, name, value, replace || was_of_file));
}

int
weir_http_reply_header(weir_task *exchange, const char *name, const char *value)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_is_sealed(known))
                return -EALREADY;
        return add_field(known, name, value, false);
}

int
weir_http_reply_set_header(weir_task *exchange, const char *name, const char *value)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_is_sealed(known))
                return -EALREADY;
        return add_field(known, name, value, true);
}

int
weir_http_reply_append(weir_task *exchange, const void *data, size_t size)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_is_sealed(known) || known->file || known->withheld)
                return -EALREADY;
        return weir__exchange_check(known, weir__response_append(&known->response, data, size));
}

static int
reply_text(struct weir__exchange *exchange, int status, const char *text)
{
        struct weir__response *response = &exchange->response;
        int failed = weir__response_has_field(response, "Content-Type")
                             ? 0
                             : weir__response_field(response, "Content-Type", "text/plain; charset=utf-8", false);

        weir__exchange_set_status(exchange, status);
        exchange->reply_left = UINT64_MAX;
        response->body_size = 0;
        if (!failed)
                failed = weir__response_append(response, text, strlen(text));
        return weir__exchange_check(exchange, failed);
}

int
weir_http_reply_text(weir_task *exchange, int status, const char *text)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (!text || status < 200 || status > 599)
                return -EINVAL;
        if (weir__exchange_is_sealed(known))
                return -EALREADY;
        if (known->said_by_file)
                weir__file_take_back(known);
        return reply_text(known, status, text);
}

int
weir_http_reply_length(weir_task *exchange, uint64_t length)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_is_sealed(known))
                return -EALREADY;
        known->reply_left = length;
        return 0;
}

/* Whether a field of the request names the word among its members. */
static bool
request_lists(const struct weir__exchange *exchange, const char *name, const char *word)
{
        const char *list;

        for (uint32_t at = 0; (list = weir__request_next(exchange->request, name, &at));)
                if (weir__bytes_list_has(list, strlen(list), word))
                        return true;
        return false;
}

/* Switching needs HTTP/1.1, and no body that would be in the way. */
int
weir_http_reply_upgrade(weir_task *exchange, const char *protocol)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (weir__exchange_is_sealed(known))
                return -EALREADY;
        if (!protocol || !*protocol || strlen(protocol) > WEIR__UPGRADE_MAX || known->request->minor == 0 ||
            known->request->content_length || known->request->chunked || !request_lists(known, "Upgrade", protocol) ||
            !request_lists(known, "Connection", "upgrade"))
                return -EINVAL;
        if (known->said_by_file)
                weir__file_take_back(known);
        weir__exchange_set_status(known, 101);
        known->upgrade = strdup(protocol);
        if (!known->upgrade)
                return weir__exchange_check(known, -ENOMEM);
        return 0;
}
