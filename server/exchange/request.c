/* server/exchange/request.c: the calls by which a handler reads a request.
 *
 * Threads: any that has the exchange; the request is constant. */
#include "server/exchange/exchange.h"

const char *
weir_http_method(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->method : NULL;
}

const char *
weir_http_target(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->target : NULL;
}

const char *
weir_http_path(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->path : NULL;
}

const char *
weir_http_query(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->query : NULL;
}

const char *
weir_http_host(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->host : NULL;
}

int
weir_http_minor(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->request->minor : -EDOM;
}

int
weir_http_is_secure(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->client->branch->server->base.secure.is_on : -EDOM;
}

const char *
weir_http_client_certificate(const weir_task *exchange)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known ? known->client->certificate : NULL;
}

const char *
weir_http_request_header(const weir_task *exchange, const char *name)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        return known && name ? weir__request_header(known->request, name) : NULL;
}

int
weir_http_request_field(const weir_task *exchange, size_t index, const char **name, const char **value)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return -EDOM;
        if (index >= known->request->field_count)
                return -ENOENT;
        if (name)
                *name = known->request->fields[index].name;
        if (value)
                *value = known->request->fields[index].value;
        return 0;
}

const void *
weir_http_request_body(const weir_task *exchange, size_t *size)
{
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return NULL;
        if (size)
                *size = known->body_size;
        return known->body ? known->body : "";
}
