/* client/request/compose.c: the head of a request as it goes out.
 *
 * Threads: the owner of the request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "client/request/request.h"
#include "protocol/text/bytes.h"

#define USERINFO_MAX 512 /* bytes, decoded */

/* The fields that frame the message, or rule the connection. */
bool
weir__request_is_reserved(const char *name, size_t size)
{
        return WEIR__BYTES_ARE(name, size, "content-length") || WEIR__BYTES_ARE(name, size, "transfer-encoding") ||
               WEIR__BYTES_ARE(name, size, "connection") || WEIR__BYTES_ARE(name, size, "keep-alive") ||
               WEIR__BYTES_ARE(name, size, "te") || WEIR__BYTES_ARE(name, size, "trailer") ||
               WEIR__BYTES_ARE(name, size, "upgrade") || WEIR__BYTES_ARE(name, size, "expect");
}

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

int
weir__request_compose(struct weir__request *request)
{
        const char *method = request->method, *target = weir_url_target(request->url), *host = weir_url_host_field(request->url),
                   *agent = request->client->user_agent;
        size_t room = strlen(method) + strlen(target) + strlen(host) + request->fields.size + (agent ? strlen(agent) : 0) + 128;
        char number[24], *out;
        bool has_body = request->content_kind != WEIR__BODY_NONE;

        free(request->head);
        request->head = malloc(room);
        if (!request->head)
                return -ENOMEM;
        out = put(put(put(put(request->head, method), " "), target), " HTTP/1.1\r\n");
        if (!weir__lines_have(&request->fields, "Host"))
                out = put_field(out, "Host", host);
        if (request->fields.size) {
                memcpy(out, request->fields.data, request->fields.size);
                out += request->fields.size;
        }
        if (agent && !weir__lines_have(&request->fields, "User-Agent"))
                out = put_field(out, "User-Agent", agent);
        if (!request->keeps_coding)
                out = put_field(out, "Accept-Encoding", "gzip");
        if (has_body || says_no_body(method)) {
                snprintf(number, sizeof number, "%llu", (unsigned long long)(has_body ? request->content_size : 0));
                out = put_field(out, "Content-Length", number);
        }
        out = put(out, "\r\n");
        request->head_size = (size_t)(out - request->head);
        return 0;
}

void
weir__request_prepare_call(struct weir__request *request)
{
        struct weir__http_call *call = &request->call;

        call->head = (struct weir__writer){.data = request->head, .left = request->head_size};
        call->has_body = request->content_kind != WEIR__BODY_NONE && request->content_size;
        if (request->content_kind == WEIR__BODY_FILE)
                call->body = (struct weir__writer){
                        .at = request->content_at, .left = request->content_size, .file = request->file, .kind = WEIR__WRITER_FILE};
        else
                call->body = (struct weir__writer){.data = request->content, .left = request->content_size};
        call->has_more = false;
        call->response_for = strcmp(request->method, "HEAD") == 0 ? WEIR__RECEIVED_FOR_HEAD : WEIR__RECEIVED_FOR_OTHER;
}

/* Source: RFC 7617. */
int
weir__request_add_authorization(struct weir__request *request)
{
        static const char scheme[] = "Basic ";
        const char *userinfo = weir_url_userinfo(request->url);
        char plain[USERINFO_MAX + 1], value[sizeof scheme + 4 * (USERINFO_MAX + 2) / 3 + 4];

        if (!userinfo || weir__lines_have(&request->fields, "Authorization"))
                return 0;
        ssize_t size = weir_percent_decode_to(plain, sizeof plain, userinfo, strlen(userinfo));
        if (size < 0 || size > USERINFO_MAX)
                return -EINVAL;
        if (!memchr(plain, ':', (size_t)size)) { /* a name without a password */
                plain[size] = ':';
                size++;
        }
        memcpy(value, scheme, sizeof scheme);
        EVP_EncodeBlock((unsigned char *)value + sizeof scheme - 1, (unsigned char *)plain, (int)size);
        return weir__lines_add(&request->fields, "Authorization", value, true, (struct weir__beside){NULL, 0});
}
