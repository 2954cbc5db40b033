/* proxy/forward/fields.c: the fields of a request that go on.
 *
 * Threads: callbacks of the exchange's series. */
#include <errno.h>

#include "proxy/forward/names.h"
#include "proxy/forward/outgoing.h"

/* Whether a field Connection names others that must stay behind. */
static bool
has_named(const weir_task *exchange)
{
        const char *name, *value;

        for (size_t i = 0; weir_http_request_field(exchange, i, &name, &value) == 0; i++)
                if (weir__field_kind(name) == WEIR__FIELD_CONNECTION && weir__connection_names(value))
                        return true;
        return false;
}

static bool
is_named(const weir_task *exchange, const char *wanted)
{
        const char *name, *value;

        for (size_t i = 0; weir_http_request_field(exchange, i, &name, &value) == 0; i++)
                if (weir__field_kind(name) == WEIR__FIELD_CONNECTION && weir__names_has(value, wanted))
                        return true;
        return false;
}

int
weir__fields_copy(weir_http_call *call, const weir_task *exchange, bool keep_host, bool *has_forwarded)
{
        bool some_named = has_named(exchange);
        const char *name, *value;

        *has_forwarded = false;
        for (size_t i = 0; weir_http_request_field(exchange, i, &name, &value) == 0; i++) {
                enum weir__field_kind kind = weir__field_kind(name);

                *has_forwarded |= kind >= WEIR__FIELD_FORWARDED;
                if (kind != WEIR__FIELD_PASSED && kind != WEIR__FIELD_DATE && !(kind == WEIR__FIELD_HOST && keep_host))
                        continue;
                if (some_named && kind != WEIR__FIELD_HOST && is_named(exchange, name))
                        continue;
                if (weir_http_call_add_header(call, name, value) == -ENOMEM)
                        return -ENOMEM;
        }
        return 0;
}
