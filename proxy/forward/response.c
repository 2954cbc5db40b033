/* proxy/forward/response.c: the head of the response becomes that of the reply.
 *
 * Threads: callbacks of the exchange's series. */
#include <errno.h>
#include <stdlib.h>

#include <weir/http_body.h>

#include "proxy/forward/forward.h"
#include "proxy/forward/names.h"

static bool
has_named(const weir_http_call *call)
{
        const char *name, *value;

        for (size_t i = 0; weir_http_call_field(call, i, &name, &value) == 0; i++)
                if (weir__field_kind(name) == WEIR__FIELD_CONNECTION && weir__connection_names(value))
                        return true;
        return false;
}

static bool
is_named(const weir_http_call *call, const char *wanted)
{
        const char *name, *value;

        for (size_t i = 0; weir_http_call_field(call, i, &name, &value) == 0; i++)
                if (weir__field_kind(name) == WEIR__FIELD_CONNECTION && weir__names_has(value, wanted))
                        return true;
        return false;
}

static bool
goes_back(const char *name)
{
        enum weir__field_kind kind = weir__field_kind(name);

        return kind != WEIR__FIELD_DROPPED && kind != WEIR__FIELD_CONNECTION && kind != WEIR__FIELD_DATE;
}

/* Out of memory, the reply becomes a 500 by itself. */
static void
copy_fields(struct weir__forward *forward)
{
        const weir_http_call *call = forward->call;
        bool some_named = has_named(call);
        const char *name, *value;

        for (size_t i = 0; weir_http_call_field(call, i, &name, &value) == 0; i++) {
                if (goes_back(name) && (!some_named || !is_named(call, name)))
                        (void)weir_http_reply_header(forward->exchange, name, value);
        }
        weir__forward_note_version(forward, weir_http_call_minor(call));
        if (forward->via[0])
                (void)weir_http_reply_header(forward->exchange, "Via", forward->via);
}

/* Names and values by turns, as weir_http_interim_new takes them; free.  NULL when out of memory. */
static const char **
interim_fields(struct weir__forward *forward)
{
        const weir_http_call *call = forward->call;
        bool some_named = has_named(call);
        size_t count = 0;

        while (weir_http_call_field(call, count, NULL, NULL) == 0)
                count++;
        const char **fields = malloc((2 * count + 3) * sizeof *fields), **out = fields;
        if (!fields)
                return NULL;
        for (size_t i = 0; i < count; i++) {
                (void)weir_http_call_field(call, i, &out[0], &out[1]);
                if (goes_back(out[0]) && (!some_named || !is_named(call, out[0])))
                        out += 2;
        }
        weir__forward_note_version(forward, weir_http_call_minor(call));
        if (forward->via[0]) {
                *out++ = "Via";
                *out++ = forward->via;
        }
        *out = NULL;
        return fields;
}

weir_task *
weir__forward_interim(struct weir__forward *forward, weir_task_fn *done)
{
        const char **fields = interim_fields(forward);
        weir_task *task = fields ? weir_http_interim_new(forward->exchange, weir_http_call_status(forward->call), fields, done,
                                                         forward)
                                 : NULL;

        free(fields);
        return weir__forward_task(forward, task);
}

int
weir__forward_copy_response(struct weir__forward *forward)
{
        int status = weir_http_call_status(forward->call);

        if (status != 101) {
                if (status < 200 || status > 599)
                        return -EBADMSG;
                (void)weir_http_reply_status(forward->exchange, status);
        }
        copy_fields(forward);
        return forward->on_response && forward->on_response(forward->exchange, forward->call, forward->context) ? 1 : 0;
}
