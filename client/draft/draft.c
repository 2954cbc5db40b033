/* client/draft/draft.c: a request before it goes out.
 *
 * Threads: its owner. */
#include "client/draft/draft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/origin/client.h"
#include "kernel/observe/log.h"
#include "protocol/coding/decoder.h"
#include "protocol/message/received.h"
#include "protocol/text/bytes.h"

#define USERINFO_MAX 512 /* bytes, decoded */

static const struct weir__beside nothing_beside = {NULL, 0};

/* -- making -- */

/* A constant for the usual ones, which may be sent twice but for the last two. */
static const char *
known_method(const char *method, bool *is_idempotent)
{
        static const char *const known[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "POST", "PATCH"};

        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if (strcmp(method, known[i]) == 0) {
                        *is_idempotent = i < 6;
                        return known[i];
                }
        return NULL;
}

static int
set_method(struct weir__draft *draft, const char *method, const char *call)
{
        if (!method || !method[0] || weir__bytes_span(method, strlen(method), WEIR__BYTE_TOKEN) < strlen(method))
                return weir__log_refusal("%s: the method: expected a token such as GET", call);
        if (strcmp(method, "CONNECT") == 0)
                return weir__log_refusal("%s: the method CONNECT is for proxies: expected another one", call);
        const char *known = known_method(method, &draft->is_idempotent);
        draft->own_method = known ? NULL : strdup(method);
        const char *kept = known ? known : draft->own_method;
        atomic_store_explicit(&draft->method, kept, memory_order_release);
        return kept ? 0 : -ENOMEM;
}

static int
set_url(struct weir__draft *draft, const char *text, const char *call)
{
        struct weir_url_problem problem = {0, ""};

        draft->url = weir_url_parse(text, &problem);
        if (!draft->url && errno == ENOMEM)
                return -ENOMEM;
        if (!draft->url)
                return weir__log_refusal("%s: the URL, at byte %zu: %s", call, problem.at, problem.text);
        const char *scheme = weir_url_scheme(draft->url);
        if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
                return weir__log_refusal("%s: the URL has the scheme %s: expected http or https", call, scheme);
        if (weir_url_port(draft->url) == 0)
                return weir__log_refusal("%s: the URL has the port 0: expected 1 to 65535", call);
        return 0;
}

int
weir__draft_init(struct weir__draft *draft, weir_client *client, const char *method, const char *url, const char *call)
{
        draft->client = weir_client_ref(client);
        if (!client)
                return -ENOMEM;
        draft->asks_coding = !client->config.keep_coding;
        int fault = set_method(draft, method, call);
        return fault ? fault : set_url(draft, url, call);
}

void
weir__draft_done(struct weir__draft *draft)
{
        weir_url_free(draft->url);
        weir__lines_done(&draft->fields, nothing_beside);
        free(draft->own_method);
        free(draft->head);
        weir_client_unref(draft->client);
}

int
weir__draft_copy(struct weir__draft *draft, const struct weir__draft *from)
{
        draft->client = weir_client_ref(from->client);
        draft->url = weir_url_parse(weir_url_text(from->url), NULL);
        draft->own_method = from->own_method ? strdup(from->own_method) : NULL;
        const char *kept = from->own_method ? draft->own_method : from->method;
        atomic_store_explicit(&draft->method, kept, memory_order_release);
        draft->is_idempotent = from->is_idempotent;
        draft->asks_coding = from->asks_coding;
        draft->fields.data = from->fields.size ? malloc(from->fields.size) : NULL;
        if (!draft->url || !kept || (from->fields.size && !draft->fields.data))
                return -ENOMEM;
        if (from->fields.size)
                memcpy(draft->fields.data, from->fields.data, from->fields.size);
        draft->fields.size = draft->fields.room = from->fields.size;
        return 0;
}

/* -- fields -- */

/* The fields that frame the message, or rule the connection. */
static bool
is_reserved(const char *name, size_t size)
{
        return WEIR__BYTES_ARE(name, size, "content-length") || WEIR__BYTES_ARE(name, size, "transfer-encoding") ||
               WEIR__BYTES_ARE(name, size, "connection") || WEIR__BYTES_ARE(name, size, "keep-alive") ||
               WEIR__BYTES_ARE(name, size, "te") || WEIR__BYTES_ARE(name, size, "trailer") ||
               WEIR__BYTES_ARE(name, size, "upgrade") || WEIR__BYTES_ARE(name, size, "expect");
}

int
weir__draft_add(struct weir__draft *draft, const char *name, const char *value, bool should_replace, const char *call)
{
        if (name && is_reserved(name, strlen(name)))
                return weir__log_refusal("%s: the field %s is the library's", call, name);
        int failed = weir__lines_add(&draft->fields, name, name ? strlen(name) : 0, value, should_replace, nothing_beside);
        if (failed == -EINVAL)
                weir__log_refusal("%s: expected a token as the name, and a value without control characters", call);
        return failed;
}

/* Source: RFC 7617. */
int
weir__draft_authorize(struct weir__draft *draft)
{
        static const char scheme[] = "Basic ";
        const char *userinfo = weir_url_userinfo(draft->url);
        char plain[USERINFO_MAX + 2], value[sizeof scheme + WEIR__BASE64_SIZE(USERINFO_MAX + 1)];

        if (!userinfo || weir__lines_have(&draft->fields, "Authorization"))
                return 0;
        ssize_t size = weir_percent_decode_to(plain, USERINFO_MAX + 1, userinfo, strlen(userinfo));
        if (size < 0 || size > USERINFO_MAX)
                return -EINVAL;
        if (!memchr(plain, ':', (size_t)size)) { /* a name without a password */
                plain[size] = ':';
                size++;
        }
        memcpy(value, scheme, sizeof scheme);
        weir__bytes_base64(value + sizeof scheme - 1, plain, (size_t)size);
        return weir__lines_add(&draft->fields, "Authorization", 13, value, true, nothing_beside);
}

/* -- the head -- */

static char *
put(char *out, const char *text)
{
        size_t size = strlen(text);

        memcpy(out, text, size);
        return out + size;
}

static char *
put_field(char *out, const char *name, const char *value)
{
        return put(put(put(put(out, name), ": "), value), "\r\n");
}

/* Whether Content-Length is said without a body as well.  Source: RFC 9110 section 8.6. */
static bool
says_no_body(const char *method)
{
        return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
}

static char *
put_framing(char *out, const char *method, enum weir__draft_framing framing, uint64_t length)
{
        char number[24];

        if (framing == WEIR__DRAFT_CHUNKED)
                return put(out, "Transfer-Encoding: chunked\r\n");
        if (framing == WEIR__DRAFT_NO_BODY && !says_no_body(method))
                return out;
        snprintf(number, sizeof number, "%llu", (unsigned long long)(framing == WEIR__DRAFT_LENGTH ? length : 0));
        return put_field(out, "Content-Length", number);
}

/* -- cookies -- */

void
weir__draft_take_cookies(const struct weir__draft *draft, const struct weir__received *received)
{
        weir_cookie_jar *jar = draft->client->config.cookies;
        const char *value;
        uint32_t at = 0;

        while (jar && (value = weir__fields_next(received->fields, received->field_count, "Set-Cookie", &at)))
                (void)weir_cookie_jar_set(jar, draft->url, value); /* what the jar refuses is not kept */
}

/* The value of the field Cookie; NULL: there is none.  The jar may change while it is read.  Result: 0 or -ENOMEM. */
static int
read_cookies(const struct weir__draft *draft, char **cookies)
{
        weir_cookie_jar *jar = draft->client->config.cookies;
        size_t room = 0, size;

        *cookies = NULL;
        if (!jar || weir__lines_have(&draft->fields, "Cookie"))
                return 0;
        while ((size = weir_cookie_jar_header(jar, draft->url, *cookies, room)) >= room && size) {
                char *more = realloc(*cookies, size + 1);

                if (!more) {
                        free(*cookies);
                        return -ENOMEM;
                }
                *cookies = more;
                room = size + 1;
        }
        if (!size) {
                free(*cookies);
                *cookies = NULL;
        }
        return 0;
}

/* The first line up to the target.  Source: RFC 9112 section 3.2.2. */
static char *
put_start(char *out, const struct weir__draft *draft)
{
        out = put(put(out, draft->method), " ");
        if (draft->relay)
                out = put(put(put(out, weir_url_scheme(draft->url)), "://"), weir_url_host_field(draft->url));
        return put(out, weir_url_target(draft->url));
}

/* What the proxy is told about the user, unless the program says it. */
static const char *
proof_of(const struct weir__draft *draft)
{
        return draft->relay && !weir__lines_have(&draft->fields, "Proxy-Authorization") ? draft->relay->authorization : NULL;
}

static int
compose(struct weir__draft *draft, enum weir__draft_framing framing, uint64_t length, const char *upgrade, const char *cookies)
{
        const char *method = draft->method, *target = weir_url_target(draft->url), *host = weir_url_host_field(draft->url),
                   *agent = draft->client->user_agent, *proof = proof_of(draft);
        size_t room = strlen(method) + strlen(target) + strlen(host) + draft->fields.size + (agent ? strlen(agent) : 0) +
                      (upgrade ? strlen(upgrade) : 0) + (cookies ? strlen(cookies) : 0) + (draft->relay ? strlen(host) : 0) +
                      (proof ? strlen(proof) : 0) + 200;
        char *out;

        free(draft->head);
        draft->head = malloc(room);
        if (!draft->head)
                return -ENOMEM;
        out = put(put_start(draft->head, draft), " HTTP/1.1\r\n");
        if (!weir__lines_have(&draft->fields, "Host"))
                out = put_field(out, "Host", host);
        if (draft->fields.size) {
                memcpy(out, draft->fields.data, draft->fields.size);
                out += draft->fields.size;
        }
        if (agent && !weir__lines_have(&draft->fields, "User-Agent"))
                out = put_field(out, "User-Agent", agent);
        if (draft->asks_coding && !weir__lines_have(&draft->fields, "Accept-Encoding") &&
            !weir__lines_have(&draft->fields, "Range")) /* a part of a coded body cannot be decoded */
                out = put_field(out, "Accept-Encoding", weir__decoder_accept());
        if (cookies)
                out = put_field(out, "Cookie", cookies);
        if (proof)
                out = put_field(out, "Proxy-Authorization", proof);
        if (upgrade)
                out = put_field(put(out, "Connection: Upgrade\r\n"), "Upgrade", upgrade);
        if (draft->expects_continue && framing != WEIR__DRAFT_NO_BODY)
                out = put(out, "Expect: 100-continue\r\n");
        out = put(put_framing(out, method, framing, length), "\r\n");
        draft->head_size = (size_t)(out - draft->head);
        return 0;
}

int
weir__draft_compose(struct weir__draft *draft, enum weir__draft_framing framing, uint64_t length, const char *upgrade)
{
        char *cookies;
        int failed = read_cookies(draft, &cookies);

        failed = failed ? failed : compose(draft, framing, length, upgrade, cookies);
        free(cookies);
        return failed;
}
