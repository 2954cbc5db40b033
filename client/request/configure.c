/* client/request/configure.c: requests are made, and changed before their start.
 *
 * Threads: any; a request has one owner until it is consumed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/request/request.h"
#include "kernel/observe/log.h"
#include "protocol/text/bytes.h"

static const struct weir__beside nothing_beside = {NULL, 0};

/* -- making -- */

static void
set_limits(struct weir__client_request *request)
{
        const struct weir_client_config *config = &request->draft.client->config;

        request->redirects = config->redirects;
        request->max_body = config->max_body;
        request->limit = config->limit;
        weir__http_call_take_limits(&request->call, config);
}

weir_task *
weir_client_request_new(weir_client *client, const char *method, const char *url, weir_task_fn *done, void *context)
{
        struct weir__client_request *request = weir__alloc(sizeof *request);

        if (!request)
                return NULL;
        memset(request, 0, sizeof *request);
        weir__task_init(&request->io.task, &weir__client_request_ops.task, sizeof *request, done, context);
        int fault = weir__draft_init(&request->draft, client, method, url, "weir_http_request_new");
        if (client)
                set_limits(request);
        if (fault == -ENOMEM && client) {
                weir_task_dismiss(&request->io.task);
                return NULL;
        }
        if (fault)
                weir__task_poison(&request->io.task, fault);
        return &request->io.task;
}

weir_task *
weir_http_request_new(const char *method, const char *url, weir_task_fn *done, void *context)
{
        weir_client *client = weir_client_default();

        return client ? weir_client_request_new(client, method, url, done, context) : NULL;
}

weir_task *
weir_http_get_new(const char *url, weir_task_fn *done, void *context)
{
        return weir_http_request_new("GET", url, done, context);
}

/* -- changing -- */

/* A failure of a change is that of the start, too: so nobody has to look. */
static int
note(struct weir__client_request *request, int failed)
{
        if (failed)
                weir__task_poison(&request->io.task, failed);
        return failed;
}

static int
add_header(weir_task *task, const char *name, const char *value, bool should_replace, const char *call)
{
        struct weir__client_request *request = weir__client_request_of(task);

        if (!request)
                return -EINVAL;
        int failed = weir__draft_add(&request->draft, name, value, should_replace, call);
        (void)note(request, failed);
        return failed;
}

int
weir_http_request_set_header(weir_task *request, const char *name, const char *value)
{
        return add_header(request, name, value, true, "weir_http_request_set_header");
}

int
weir_http_request_add_header(weir_task *request, const char *name, const char *value)
{
        return add_header(request, name, value, false, "weir_http_request_add_header");
}

/* Takes away the body that it had.  Without a type the field stays as it is.  Result: 0; that of the type. */
static int
begin_body(struct weir__client_request *request, const char *type)
{
        if (request->content_kind == WEIR__BODY_COPY)
                free(request->content);
        request->content = NULL;
        request->content_size = request->content_at = 0;
        request->content_kind = WEIR__BODY_NONE;
        return type ? weir__lines_add(&request->draft.fields, "Content-Type", 12, type, true, nothing_beside) : 0;
}

/* Bytes in memory: a copy, or lent ones. */
static int
give_body(weir_task *task, enum weir__client_request_body kind, const void *data, size_t size, const char *type)
{
        struct weir__client_request *request = weir__client_request_of(task);
        char *content = (char *)data; /* it is only read */

        if (!request)
                return -EINVAL;
        int failed = begin_body(request, type);
        if (failed || (size && !data))
                return note(request, failed ? failed : -EINVAL);
        if (kind == WEIR__BODY_COPY)
                content = malloc(size + !size);
        if (!content && kind == WEIR__BODY_COPY)
                return note(request, -ENOMEM);
        if (kind == WEIR__BODY_COPY && size)
                memcpy(content, data, size);
        request->content = content;
        request->content_size = size;
        request->content_kind = (uint8_t)kind;
        return 0;
}

int
weir_http_request_set_body(weir_task *request, const void *data, size_t size, const char *type)
{
        return give_body(request, WEIR__BODY_COPY, data, size, type);
}

int
weir_http_request_lend_body(weir_task *request, const void *data, size_t size, const char *type)
{
        return give_body(request, WEIR__BODY_LENT, data, size, type);
}

int
weir_http_request_set_body_file(weir_task *task, int file, uint64_t offset, uint64_t size, const char *type)
{
        struct weir__client_request *request = weir__client_request_of(task);
        struct stat status;

        if (!request)
                return -EINVAL;
        int failed = begin_body(request, type);
        if (!failed && fstat(file, &status) < 0)
                failed = errno == EBADF ? -EINVAL : -errno;
        if (!failed && size == UINT64_MAX && !S_ISREG(status.st_mode))
                failed = -EINVAL; /* a pipe has a size of 0: the body would be empty */
        if (failed)
                return note(request, failed);
        uint64_t end = (uint64_t)status.st_size;
        request->content_size = size != UINT64_MAX ? size : offset < end ? end - offset : 0;
        request->content_at = offset;
        request->file = file;
        request->content_kind = WEIR__BODY_FILE;
        return 0;
}

int
weir_http_request_set_limit(weir_task *task, enum weir_http_limit which, weir_nsec limit)
{
        struct weir__client_request *request = weir__client_request_of(task);

        return request ? weir__http_call_set_limit(&request->call, &request->limit, which, limit) : -EINVAL;
}

int
weir_http_request_set_redirects(weir_task *task, unsigned most)
{
        struct weir__client_request *request = weir__client_request_of(task);

        if (!request)
                return -EINVAL;
        request->redirects = most;
        return 0;
}

int
weir_http_request_set_max_body(weir_task *task, size_t max)
{
        struct weir__client_request *request = weir__client_request_of(task);

        if (!request)
                return -EINVAL;
        request->max_body = max;
        return 0;
}

int
weir_http_request_set_idempotent(weir_task *task, bool is_idempotent)
{
        struct weir__client_request *request = weir__client_request_of(task);

        if (!request)
                return -EINVAL;
        request->draft.is_idempotent = is_idempotent;
        return 0;
}

int
weir_http_request_set_key(weir_task *task, const void *key, size_t size)
{
        struct weir__client_request *request = weir__client_request_of(task);

        if (!request)
                return -EINVAL;
        char *copy = key && size ? malloc(size) : NULL;
        if (!copy)
                return note(request, key && size ? -ENOMEM : -EINVAL);
        free(request->target.key);
        request->target.key = memcpy(copy, key, size);
        request->target.key_size = size;
        return 0;
}

int
weir_http_request_fail_on_error(weir_task *task)
{
        struct weir__client_request *request = weir__client_request_of(task);

        if (!request)
                return -EINVAL;
        request->fails_on_error = true;
        return 0;
}
