/* client/request/response.c: what a request has come to, for its callback.
 *
 * Threads: the callback of the request. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/runtime.h>

#include "client/request/request.h"

int
weir_http_response_status(const weir_task *task)
{
        const struct weir__request *request = weir__request_of(task);

        return !request ? -EINVAL : request->call.received ? request->call.received->status : 0;
}

const char *
weir_http_response_header(const weir_task *task, const char *name)
{
        const struct weir__request *request = weir__request_of(task);

        return request && request->call.received && name ? weir__received_field(request->call.received, name) : NULL;
}

int
weir_http_response_field(const weir_task *task, size_t index, const char **name, const char **value)
{
        const struct weir__request *request = weir__request_of(task);

        if (!request)
                return -EINVAL;
        const struct weir__received *received = request->call.received;
        if (!received || index >= received->field_count)
                return -ENOENT;
        if (name)
                *name = received->fields[index].name;
        if (value)
                *value = received->fields[index].value;
        return 0;
}

const void *
weir_http_response_body(const weir_task *task, size_t *size)
{
        const struct weir__request *request = weir__request_of(task);
        bool has_body = request && request->body && !request->is_redirected;

        if (size)
                *size = has_body ? request->body_size : 0;
        return !request ? NULL : has_body ? request->body : "";
}

void *
weir_http_response_take_body(weir_task *task, size_t *size)
{
        struct weir__request *request = weir__request_of(task);
        bool has_body = request && request->body && !request->is_redirected;
        char *body = has_body ? request->body : NULL;

        if (size)
                *size = has_body ? request->body_size : 0;
        if (body)
                request->body = NULL;
        return body;
}

const char *
weir_http_response_url(const weir_task *task)
{
        const struct weir__request *request = weir__request_of(task);

        return request ? weir_url_redacted(request->draft.url) : NULL;
}

enum weir_http_stage
weir_http_stage(const weir_task *task)
{
        const struct weir__request *request = weir__request_of(task);

        return request ? (enum weir_http_stage)request->call.stage : WEIR_HTTP_QUEUED;
}

/* -- in words -- */

static const char *
words_of_time(uint8_t stage)
{
        static const char *const words[] = {
                "too late while it waited for a connection",
                "too late while the name was looked up",
                "too late while the connection was made",
                "too late in the handshake of TLS",
                "too late: the server took nothing more of the request",
                "too late: the head of the response did not come",
                "too late: the body of the response stopped coming",
                "too late",
        };

        return words[stage];
}

static const char *
words_of(const struct weir__request *request, int status)
{
        if (request->seeker.problem)
                return request->seeker.problem;
        switch (status) {
        case -ETIMEDOUT: return words_of_time(request->call.stage);
        case -ECONNRESET: return "the server has closed the connection without a response";
        case -ECONNABORTED: return "the server has closed the connection in the middle of the response";
        case -EBADMSG: return request->inflater ? "the coding of the body is damaged" : "what came is no valid HTTP/1 response";
        case -EMSGSIZE: return request->call.received ? "the body is larger than the limit" : "the head is larger than the limit";
        case -E2BIG: return "the body without its coding is larger than the limit";
        case -ENOTSUP: return "the body has a coding that was not asked for";
        case -EPROTO: return "bytes came that nobody has asked for";
        case -ELOOP: return "more redirects than allowed";
        case -ENOLINK: return "a redirect without a valid Location";
        case -EACCES: return "a redirect from https to http";
        default: return weir_strerror(status);
        }
}

const char *
weir_http_problem(const weir_task *task)
{
        struct weir__request *request = weir__request_of(task);

        if (!request || !task->status)
                return NULL;
        if (!request->problem && request->draft.url &&
            asprintf(&request->problem, "%s %s://%s%s: %s", request->draft.method, weir_url_scheme(request->draft.url),
                     weir_url_host_field(request->draft.url), weir_url_path(request->draft.url),
                     words_of(request, task->status)) < 0)
                request->problem = NULL;
        return request->problem ? request->problem : weir_strerror(task->status);
}
