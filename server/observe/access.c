/* server/observe/access.c: the access log.
 *
 *     a reply has ended --> a record for each outlet
 *
 * The file and the function are an outlet each; a log has one or both.  If one blocks and loses records, the other does not
 * notice.
 *
 * Threads: the owner of a poller records.  Any thread reopens.  The threads that start and stop the server start and stop the
 *          log. */
#include "server/observe/access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/memory/watched.h"
#include "server/base/server.h"

#define OUTLETS 2

struct weir__access {
        /* Constant. */
        unsigned count;
        struct weir__outlet outlets[OUTLETS]; /* the file, if there is one, comes first */
};

static const uint16_t text_max[WEIR__TEXTS] = {WEIR__METHOD_MAX, WEIR__TARGET_MAX, WEIR__HOST_MAX, WEIR__REFERER_MAX,
                                               WEIR__AGENT_MAX};

/* The bytes of a text in the record, with its NUL. */
static uint16_t
size_of(const char *text, enum weir__outlet_text which)
{
        size_t size = text ? strnlen(text, text_max[which]) + 1 : 0;

        return (uint16_t)(size > text_max[which] ? text_max[which] : size);
}

void
weir__access_record(struct weir__access *access, unsigned index, struct weir__outlet_record *record,
                    const struct weir__request *request, weir_nsec came_at)
{
        const char *texts[WEIR__TEXTS] = {NULL};
        size_t size = sizeof *record;

        record->minor = request ? request->minor : 1;
        record->ended = weir__clock_wall_coarse();
        record->duration = came_at ? weir__clock_now() - came_at : 0;
        if (request) {
                texts[WEIR__TEXT_METHOD] = request->method;
                texts[WEIR__TEXT_TARGET] = request->target;
                texts[WEIR__TEXT_HOST] = request->host;
                texts[WEIR__TEXT_REFERER] = weir__request_header(request, "Referer");
                texts[WEIR__TEXT_AGENT] = weir__request_header(request, "User-Agent");
        }
        for (unsigned i = 0; i < WEIR__TEXTS; i++)
                size += record->sizes[i] = size_of(texts[i], i);
        record->size = (uint32_t)((size + 7) / 8 * 8);
        for (unsigned i = 0; i < access->count; i++)
                weir__outlet_add(&access->outlets[i], index, record, texts);
}

/* -- start and stop -- */

int
weir__access_new(const struct weir_http_server_config *config, struct weir__access **ret_access)
{
        *ret_access = NULL;
        if (!config->access_log && !config->on_access)
                return 0;
        struct weir__access *access = calloc(1, sizeof *access);
        int failed = 0;

        if (!access)
                return -ENOMEM;
        if (config->access_log)
                failed = weir__outlet_init(&access->outlets[access->count++], config->access_log, NULL, NULL);
        if (!failed && config->on_access)
                failed = weir__outlet_init(&access->outlets[access->count++], NULL, config->on_access, config->access_context);
        if (failed)
                weir__access_free(access);
        else
                *ret_access = access;
        return failed;
}

void
weir__access_free(struct weir__access *access)
{
        if (!access)
                return;
        for (unsigned i = 0; i < access->count && i < OUTLETS; i++) /* gcc warns without the bound, across files */
                weir__outlet_done(&access->outlets[i]);
        free(access);
}

int
weir__access_start(struct weir__access *access, unsigned count)
{
        int failed = 0;

        for (unsigned i = 0; access && i < access->count && !failed; i++)
                failed = weir__outlet_start(&access->outlets[i], count);
        if (failed)
                weir__access_stop(access);
        return failed;
}

void
weir__access_stop(struct weir__access *access)
{
        for (unsigned i = 0; access && i < access->count; i++)
                weir__outlet_stop(&access->outlets[i]);
}

/* -- any thread -- */

int
weir_http_server_reopen_log(weir_http_server *server)
{
        weir__memory_expect(server);
        if (weir__phase_is_forked())
                return -ECHILD;
        if (!server)
                return -EINVAL;
        return server->access ? weir__outlet_reopen(server->access->outlets) : -EDOM;
}

size_t
weir_http_server_access_lost(const weir_http_server *server)
{
        weir__memory_expect(server);
        const struct weir__access *access = server ? server->access : NULL;
        size_t lost = 0;

        for (unsigned i = 0; access && i < access->count; i++)
                lost += atomic_load_explicit(&access->outlets[i].lost, memory_order_relaxed);
        return lost;
}
