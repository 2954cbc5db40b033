/* client/call/response.c: what a call has come to.
 *
 * Threads: any, once a head task has ended. */
#include <errno.h>
#include <stdlib.h>

#include <weir/runtime.h>

#include "client/call/call.h"
#include "client/draft/words.h"

/* The head that is there: of the response, or of an interim one; NULL: none. */
static const struct weir__received *
head_of(const struct weir_http_call *self)
{
        return self && (self->has_head || self->call.is_shown) ? self->call.received : NULL;
}

int
weir_http_call_status(const weir_http_call *self)
{
        const struct weir__received *head = head_of(self);

        return !self ? -EINVAL : head ? head->status : 0;
}

int
weir_http_call_minor(const weir_http_call *self)
{
        const struct weir__received *head = head_of(self);

        return !self ? -EINVAL : head ? head->minor : 1;
}

const char *
weir_http_call_header(const weir_http_call *self, const char *name)
{
        const struct weir__received *head = head_of(self);

        return head && name ? weir__received_field(head, name) : NULL;
}

int
weir_http_call_field(const weir_http_call *self, size_t index, const char **name, const char **value)
{
        const struct weir__received *head = head_of(self);

        if (!self)
                return -EINVAL;
        if (!head || index >= head->field_count)
                return -ENOENT;
        if (name)
                *name = head->fields[index].name;
        if (value)
                *value = head->fields[index].value;
        return 0;
}

uint64_t
weir_http_call_length(const weir_http_call *self)
{
        return self && self->has_head && self->call.received->has_length ? self->call.received->content_length : UINT64_MAX;
}

weir_stream *
weir_http_call_take_stream(weir_http_call *self)
{
        weir_stream *stream = self ? self->call.stream : NULL;

        if (stream)
                self->call.stream = NULL;
        return stream;
}

enum weir_http_stage
weir_http_call_stage(const weir_http_call *self)
{
        return self ? (enum weir_http_stage)__atomic_load_n(&self->call.stage, __ATOMIC_RELAXED) : WEIR_HTTP_QUEUED;
}

const char *
weir_http_call_problem(const weir_http_call *call)
{
        struct weir_http_call *self = (struct weir_http_call *)call;

        int status = !self ? 0 : self->status ? self->status : self->fault;

        if (!status)
                return NULL;
        char *made = weir__client_words(&self->draft, &self->call, status,
                                        self->target.reason ? self->target.reason : self->seeker.problem);
        weir__lock(&self->lock);
        if (!self->problem) {
                self->problem = made;
                made = NULL;
        }
        const char *problem = self->problem;
        weir__unlock(&self->lock);
        free(made);
        return problem ? problem : weir_strerror(status);
}
