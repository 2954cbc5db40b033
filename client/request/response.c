/* client/request/response.c: what a request has come to, for its callback.
 *
 * Threads: the callback of the request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/runtime.h>

#include "client/request/request.h"
#include "client/draft/words.h"

int
weir_http_response_status(const weir_task *task)
{
        const struct weir__client_request *request = weir__client_request_of(task);

        return !request ? -EINVAL : request->call.received ? request->call.received->status : 0;
}

const char *
weir_http_response_header(const weir_task *task, const char *name)
{
        const struct weir__client_request *request = weir__client_request_of(task);

        return request && request->call.received && name ? weir__received_field(request->call.received, name) : NULL;
}

int
weir_http_response_field(const weir_task *task, size_t index, const char **name, const char **value)
{
        const struct weir__client_request *request = weir__client_request_of(task);

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
        const struct weir__client_request *request = weir__client_request_of(task);
        bool has_body = request && request->body && !request->is_redirected;

        if (size)
                *size = has_body ? request->body_size : 0;
        return !request ? NULL : has_body ? request->body : "";
}

void *
weir_http_response_take_body(weir_task *task, size_t *size)
{
        struct weir__client_request *request = weir__client_request_of(task);
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
        const struct weir__client_request *request = weir__client_request_of(task);

        return request ? weir_url_redacted(request->draft.url) : NULL;
}

enum weir_http_stage
weir_http_stage(const weir_task *task)
{
        const struct weir__client_request *request = weir__client_request_of(task);

        return request ? (enum weir_http_stage)request->call.stage : WEIR_HTTP_QUEUED;
}

const char *
weir_http_problem(const weir_task *task)
{
        struct weir__client_request *request = weir__client_request_of(task);

        if (!request || !task->status)
                return NULL;
        if (!request->problem)
                request->problem = weir__client_words(&request->draft, &request->call, task->status,
                                                      request->target.reason ? request->target.reason : request->seeker.problem);
        return request->problem ? request->problem : weir_strerror(task->status);
}
