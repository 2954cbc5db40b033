/* proxy/forward/response.c: the head of the response becomes that of the reply.
 *
 * Threads: callbacks of the exchange's series. */
#include <errno.h>

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

/* Out of memory, the reply becomes a 500 by itself. */
static void
copy_fields(struct weir__forward *forward)
{
        const weir_http_call *call = forward->call;
        bool some_named = has_named(call);
        const char *name, *value;

        for (size_t i = 0; weir_http_call_field(call, i, &name, &value) == 0; i++) {
                enum weir__field_kind kind = weir__field_kind(name);

                if (kind == WEIR__FIELD_DROPPED || kind == WEIR__FIELD_CONNECTION || kind == WEIR__FIELD_DATE)
                        continue;
                if (!some_named || !is_named(call, name))
                        (void)weir_http_reply_header(forward->exchange, name, value);
        }
        weir__forward_note_version(forward, weir_http_call_minor(call));
        if (forward->via[0])
                (void)weir_http_reply_header(forward->exchange, "Via", forward->via);
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
