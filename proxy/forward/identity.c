/* proxy/forward/identity.c: what the other server learns of the client and of the proxies between: X-Forwarded-*, Forwarded, Via.
 *
 * Source:  RFC 7239; RFC 9110 section 7.6.3.
 * Threads: callbacks of the exchange's series. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/http_fields.h>

#include "proxy/forward/names.h"
#include "proxy/forward/outgoing.h"

#define ADDRESS_ROOM 64
#define HOST_MAX     255 /* bytes */

struct identity {
        const weir_task *exchange;
        char address[ADDRESS_ROOM]; /* of the peer, without its port; "" over a Unix socket */
        const char *proto, *host;
        bool is_trusted; /* it is a proxy that the server believes */
};

/* "192.0.2.1:80", "[2001:db8::1]:80", "unix:". */
static void
write_address(struct identity *identity)
{
        const char *peer = weir_http_peer_address(identity->exchange), *end = peer ? strrchr(peer, ':') : NULL;

        if (!end || strncmp(peer, "unix:", 5) == 0)
                return;
        bool is_v6 = peer[0] == '[';
        size_t size = (size_t)(end - peer) - 2 * is_v6;
        if (size < sizeof identity->address)
                memcpy(identity->address, peer + is_v6, size);
}

static void
learn(struct identity *identity, const weir_task *exchange, bool has_forwarded)
{
        const char *client = has_forwarded ? weir_http_client_address(exchange) : NULL; /* else trust makes no difference */

        *identity = (struct identity){.exchange = exchange, .host = weir_http_host(exchange)};
        write_address(identity);
        identity->proto = weir_http_is_secure(exchange) > 0 ? "https" : "http";
        identity->is_trusted = client && strcmp(client, identity->address[0] ? identity->address : "unix:") != 0;
        if (!identity->host || strlen(identity->host) > HOST_MAX || strpbrk(identity->host, "\"\\"))
                identity->host = "";
}

enum mode { PASS, GO_ON, REPLACE, REMOVE };

static enum mode
mode_of(const struct identity *identity, enum weir_http_forwarding forwarding, enum weir_http_forwarding by_default)
{
        switch (forwarding ? forwarding : by_default) {
        case WEIR_HTTP_FORWARDING_APPEND: return GO_ON;
        case WEIR_HTTP_FORWARDING_REPLACE: return REPLACE;
        case WEIR_HTTP_FORWARDING_PASS: return PASS;
        case WEIR_HTTP_FORWARDING_REMOVE: return REMOVE;
        default: return identity->is_trusted ? GO_ON : REPLACE;
        }
}

/* -- fields that came -- */

/* The value of the next field of that kind, in the spelling that has no underscores; NULL: there is none. */
static const char *
next_field(const weir_task *exchange, const char *name, enum weir__field_kind kind, size_t *at)
{
        const char *own_name, *value;

        while (weir_http_request_field(exchange, (*at)++, &own_name, &value) == 0)
                if (weir__field_kind(own_name) == kind && !strchr(own_name, '_') && strlen(own_name) == strlen(name))
                        return value;
        return NULL;
}

static int
pass(weir_http_call *call, const weir_task *exchange, const char *name, enum weir__field_kind kind)
{
        const char *value;
        size_t at = 0;
        int failed = 0;

        while (failed != -ENOMEM && (value = next_field(exchange, name, kind, &at)))
                failed = weir_http_call_add_header(call, name, value);
        return failed;
}

/* All of them in one line, and the text behind them: some programs look at one line only. */
static int
append(weir_http_call *call, const weir_task *exchange, const char *name, enum weir__field_kind kind, const char *text)
{
        const char *value;
        size_t at = 0, room = strlen(text) + 1;

        while ((value = next_field(exchange, name, kind, &at)))
                room += strlen(value) + 2;
        char *line = malloc(room), *out = line;
        if (!line)
                return -ENOMEM;
        at = 0;
        while ((value = next_field(exchange, name, kind, &at)))
                out += value[0] ? sprintf(out, "%s, ", value) : 0;
        strcpy(out, text);
        int failed = weir_http_call_add_header(call, name, line);
        free(line);
        return failed;
}

/* A field that is a list of all proxies. */
static int
add_list(weir_http_call *call, const weir_task *exchange, enum mode mode, const char *name, enum weir__field_kind kind,
         const char *text)
{
        if (mode == REMOVE)
                return 0;
        if (mode == PASS || !text[0])
                return mode == REPLACE ? 0 : pass(call, exchange, name, kind);
        return mode == GO_ON ? append(call, exchange, name, kind, text) : weir_http_call_add_header(call, name, text);
}

/* A field that the first proxy writes. */
static int
add_first(weir_http_call *call, const weir_task *exchange, enum mode mode, const char *name, enum weir__field_kind kind,
          const char *text)
{
        size_t at = 0;

        if (mode == REMOVE)
                return 0;
        if (mode == PASS || !text[0] || (mode == GO_ON && next_field(exchange, name, kind, &at)))
                return mode == REPLACE ? 0 : pass(call, exchange, name, kind);
        return weir_http_call_add_header(call, name, text);
}

/* -- fields that go out -- */

static int
add_x_forwarded(weir_http_call *call, const struct identity *identity, enum mode mode)
{
        const weir_task *exchange = identity->exchange;
        int failed = add_list(call, exchange, mode, "X-Forwarded-For", WEIR__FIELD_X_FORWARDED_FOR, identity->address);

        if (!failed)
                failed = add_first(call, exchange, mode, "X-Forwarded-Proto", WEIR__FIELD_X_FORWARDED_PROTO, identity->proto);
        if (!failed)
                failed = add_first(call, exchange, mode, "X-Forwarded-Host", WEIR__FIELD_X_FORWARDED_HOST, identity->host);
        return failed;
}

static int
add_forwarded(weir_http_call *call, const struct identity *identity, enum mode mode)
{
        char text[ADDRESS_ROOM + HOST_MAX + 64];
        const char *address = identity->address;

        if (mode == REMOVE)
                return 0;
        int size = snprintf(text, sizeof text, strchr(address, ':') ? "for=\"[%s]\"" : "for=%s",
                            address[0] ? address : "unknown");

        if (identity->host[0])
                size += snprintf(text + size, sizeof text - (size_t)size, ";host=\"%s\"", identity->host);
        snprintf(text + size, sizeof text - (size_t)size, ";proto=%s", identity->proto);
        return add_list(call, identity->exchange, mode, "Forwarded", WEIR__FIELD_FORWARDED, text);
}

int
weir__identity_add(weir_http_call *call, const weir_task *exchange, const struct weir_http_proxy_config *config,
                   bool has_forwarded, const char *via)
{
        struct identity identity;

        learn(&identity, exchange, has_forwarded);
        int failed = add_x_forwarded(call, &identity, mode_of(&identity, config->x_forwarded, WEIR_HTTP_FORWARDING_TRUSTED));
        if (!failed)
                failed = add_forwarded(call, &identity, mode_of(&identity, config->forwarded, WEIR_HTTP_FORWARDING_REMOVE));
        if (!failed && via[0])
                failed = weir_http_call_add_header(call, "Via", via);
        return failed == -ENOMEM ? failed : 0;
}
