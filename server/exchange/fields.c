/* server/exchange/fields.c: the parts of a request, and the address that sent it.
 *
 *     A list or an address is read at the first question for it, and kept until the exchange is freed.
 *
 * Threads: the callbacks of the exchange's series, one at a time.  No locks. */
#include <errno.h>
#include <stdlib.h>

#include <weir/http_fields.h>

#include "kernel/runtime/config.h"
#include "protocol/field/cookie.h"
#include "protocol/route/query.h"
#include "server/exchange/exchange.h"

struct weir__fields *
weir__exchange_fields(struct weir__exchange *exchange)
{
        if (!exchange->fields)
                exchange->fields = calloc(1, sizeof *exchange->fields);
        if (!exchange->fields)
                exchange->has_failed = true;
        return exchange->fields;
}

/* The server outlives the exchange. */
static const weir_http_server *
server_of(const struct weir__exchange *exchange)
{
        return exchange->client->branch->server;
}

/* -- lists -- */

/* Only a whole body has a form: the last value of half a body would be cut. */
static bool
has_form(const struct weir__exchange *exchange)
{
        const char *type = exchange->has_whole_body ? weir__request_header(exchange->request, "Content-Type") : NULL;

        return type && weir__query_is_type(type);
}

/* Reads a list.  Leaves NULL when there is none. */
static int
read_list(const struct weir__exchange *exchange, enum weir__list_kind which, struct weir__pairs **ret_pairs)
{
        const struct weir__request *request = exchange->request;
        size_t max = server_of(exchange)->config.max_pairs;

        switch (which) {
        case WEIR__LIST_QUERY:
                return request->query ? weir__query_parse(request->query, strlen(request->query), max, ret_pairs) : 0;
        case WEIR__LIST_FORM:
                return has_form(exchange) ? weir__query_parse(exchange->body, exchange->body_size, max, ret_pairs) : 0;
        case WEIR__LIST_COOKIES:
                return weir__request_header(request, "Cookie") ? weir__cookies_parse(request, max, ret_pairs) : 0;
        case WEIR__LISTS: break;
        }
        return 0;
}

/* Sets *ret_pairs to the list, or to NULL when there is none.  Result: 0; -EDOM; -ENOMEM. */
static int
ask(const weir_task *task, enum weir__list_kind which, const struct weir__pairs **ret_pairs)
{
        struct weir__exchange *exchange = weir__exchange_of(task);

        *ret_pairs = NULL;
        if (!exchange)
                return -EDOM;
        struct weir__fields *fields = weir__exchange_fields(exchange);
        if (!fields)
                return -ENOMEM;
        int failed = fields->lists[which] ? 0 : read_list(exchange, which, &fields->lists[which]);
        exchange->has_failed |= failed != 0;
        *ret_pairs = fields->lists[which];
        return failed;
}

static const char *
value_of(const weir_task *task, enum weir__list_kind which, const char *name)
{
        const struct weir__pairs *pairs;

        return name && ask(task, which, &pairs) == 0 ? weir__pairs_value(pairs, name) : NULL;
}

static int
pair_at(const weir_task *task, enum weir__list_kind which, size_t index, const char **name, const char **value)
{
        const struct weir__pairs *pairs;
        int failed = ask(task, which, &pairs);

        return failed ? failed : weir__pairs_at(pairs, index, name, value);
}

const char *
weir_http_query_value(const weir_task *exchange, const char *name)
{
        return value_of(exchange, WEIR__LIST_QUERY, name);
}

int
weir_http_query_at(const weir_task *exchange, size_t index, const char **name, const char **value)
{
        return pair_at(exchange, WEIR__LIST_QUERY, index, name, value);
}

const char *
weir_http_form_value(const weir_task *exchange, const char *name)
{
        return value_of(exchange, WEIR__LIST_FORM, name);
}

int
weir_http_form_at(const weir_task *exchange, size_t index, const char **name, const char **value)
{
        return pair_at(exchange, WEIR__LIST_FORM, index, name, value);
}

const char *
weir_http_cookie(const weir_task *exchange, const char *name)
{
        return value_of(exchange, WEIR__LIST_COOKIES, name);
}

int
weir_http_cookie_at(const weir_task *exchange, size_t index, const char **name, const char **value)
{
        return pair_at(exchange, WEIR__LIST_COOKIES, index, name, value);
}

int
weir_http_reply_cookie(weir_task *exchange, const struct weir_http_cookie *cookie)
{
        struct weir_http_cookie known = WEIR_HTTP_COOKIE_DEFAULT;
        char text[WEIR__COOKIE_ROOM];

        if (!weir__exchange_of(exchange))
                return -EDOM;
        int failed = cookie ? weir__config_read(&known, sizeof known, cookie) : -EINVAL;
        if (!failed)
                failed = weir__cookie_write(&known, text);
        return failed ? failed : weir_http_reply_header(exchange, "Set-Cookie", text);
}

/* -- addresses -- */

static const char *
address_of(const weir_task *task, bool is_peer)
{
        struct weir__exchange *exchange = weir__exchange_of(task);
        struct weir__fields *fields = exchange ? weir__exchange_fields(exchange) : NULL;
        char *text = !fields ? NULL : is_peer ? fields->peer : fields->client;

        if (text && !*text) {
                const struct weir__peer *peer = &exchange->client->peer;
                const struct weir__proxies *proxies = is_peer ? NULL : server_of(exchange)->proxies;
                struct weir__peer address = weir__forwarded_client(proxies, exchange->request, peer);

                weir__peer_write(&address, is_peer, text);
        }
        return text;
}

const char *
weir_http_client_address(const weir_task *exchange)
{
        return address_of(exchange, false);
}

const char *
weir_http_peer_address(const weir_task *exchange)
{
        return address_of(exchange, true);
}
