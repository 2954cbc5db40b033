/* server/exchange/answer.c: the calls by which a handler builds the reply.
 *
 * Threads: the callbacks of the exchange's series, one at a time, until the reply has begun. */
#include "server/exchange/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <weir/http_body.h>

#include "kernel/observe/log.h"
#include "protocol/text/bytes.h"

/* Sets *exchange, if its reply can still be changed.  Result: 0; -EDOM; -EALREADY. */
static int
changeable(weir_task *task, struct weir__exchange **exchange)
{
        *exchange = weir__exchange_of(task);
        return !*exchange ? -EDOM : weir__exchange_is_fixed(*exchange) ? -EALREADY : 0;
}

static bool
is_status(int status)
{
        return status >= 200 && status <= 599;
}

/* Without a reply of the handler's own, the default would go out: a 200. */
static int
refuse(struct weir__exchange *exchange, const char *function, int status)
{
        static struct weir__log_limit limit;
        char what[32] = "a NULL text";

        if (!is_status(status))
                snprintf(what, sizeof what, "the status %d", status);
        weir__log_limited(&limit, WEIR_LOG_ERROR, "%s, for %s %.200s: %s: expected %s", function, exchange->request->method,
                          exchange->request->target, what, is_status(status) ? "one" : "200 to 599");
        if (!weir__exchange_is_fixed(exchange))
                exchange->is_misused = true;
        return -EINVAL;
}

int
weir_http_reply_status(weir_task *task, int status)
{
        struct weir__exchange *exchange;
        int failed = changeable(task, &exchange);

        if (failed != -EDOM && !is_status(status))
                return refuse(exchange, "weir_http_reply_status", status);
        if (failed)
                return failed;
        if (exchange->said_by_file)
                weir__file_other_status(exchange, status);
        weir__exchange_set_status(exchange, status);
        return 0;
}

/* A field that the handler sets replaces that of the file. */
static int
add_field(weir_task *task, const char *name, const char *value, bool should_replace)
{
        struct weir__exchange *exchange;
        int failed = changeable(task, &exchange);

        if (failed || !name || !value)
                return failed ? failed : -EINVAL;
        should_replace |= exchange->said_by_file && weir__file_leave_field(exchange, name);
        return weir__exchange_check(exchange, weir__response_field(&exchange->response, name, value, should_replace));
}

int
weir_http_reply_header(weir_task *exchange, const char *name, const char *value)
{
        return add_field(exchange, name, value, false);
}

int
weir_http_reply_set_header(weir_task *exchange, const char *name, const char *value)
{
        return add_field(exchange, name, value, true);
}

int
weir_http_reply_append(weir_task *task, const void *data, size_t size)
{
        struct weir__exchange *exchange;
        int failed = changeable(task, &exchange);

        if (failed || exchange->file || exchange->withheld)
                return failed ? failed : -EALREADY;
        return weir__exchange_check(exchange, weir__response_append(&exchange->response, data, size));
}

int
weir_http_reply_text(weir_task *task, int status, const char *text)
{
        struct weir__exchange *exchange;
        int failed = changeable(task, &exchange);

        if (failed != -EDOM && (!text || !is_status(status)))
                return refuse(exchange, "weir_http_reply_text", status);
        if (failed)
                return failed;
        struct weir__response *response = &exchange->response;
        if (exchange->said_by_file)
                weir__file_take_back(exchange);
        if (!weir__response_has_field(response, "Content-Type"))
                failed = weir__response_field(response, "Content-Type", "text/plain; charset=utf-8", false);
        weir__exchange_set_status(exchange, status);
        exchange->reply_left = UINT64_MAX;
        response->body_size = 0;
        return weir__exchange_check(exchange, failed ? failed : weir__response_append(response, text, strlen(text)));
}

int
weir_http_reply_length(weir_task *task, uint64_t length)
{
        struct weir__exchange *exchange;
        int failed = changeable(task, &exchange);

        if (!failed)
                exchange->reply_left = length;
        return failed;
}

/* Whether a field of the request names the word among its members. */
static bool
lists(const struct weir__request *request, const char *name, const char *word)
{
        const char *list;

        for (uint32_t at = 0; (list = weir__request_next(request, name, &at));)
                if (weir__bytes_list_has(list, strlen(list), word))
                        return true;
        return false;
}

/* Switching needs HTTP/1.1, and no body that would be in the way. */
static bool
may_switch(const struct weir__request *request, const char *protocol)
{
        return protocol && *protocol && strlen(protocol) <= WEIR__UPGRADE_MAX && request->minor > 0 && !request->content_length &&
               !request->is_chunked && lists(request, "Upgrade", protocol) && lists(request, "Connection", "upgrade");
}

int
weir_http_reply_upgrade(weir_task *task, const char *protocol)
{
        struct weir__exchange *exchange;
        int failed = changeable(task, &exchange);

        if (failed || !may_switch(exchange->request, protocol))
                return failed ? failed : -EINVAL;
        if (exchange->said_by_file)
                weir__file_take_back(exchange);
        weir__exchange_set_status(exchange, 101);
        exchange->upgrade = strdup(protocol);
        return weir__exchange_check(exchange, exchange->upgrade ? 0 : -ENOMEM);
}

int
weir__exchange_refuse_anew(struct weir__exchange *exchange, int status)
{
        exchange->page_size = 0; /* the whole body is dropped below */
        if (exchange->said_by_file)
                weir__file_take_back(exchange);
        weir__response_done(&exchange->response);
        return weir__exchange_refuse(exchange, status);
}
