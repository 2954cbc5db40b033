/* server/operate/config.c: the configuration of a server, with its defaults. */
#include "server/operate/operate.h"

#include <errno.h>

#include "kernel/runtime/config.h"
#include "protocol/message/gate.h"
#include "protocol/coding/gzip.h"

#define MAX_HEAD      ((size_t)32 * 1024) /* bytes */
#define MAX_LINE      ((size_t)8 * 1024)
#define MAX_FIELDS    256
#define MAX_PAIRS     1000
#define MAX_BODY      ((size_t)1024 * 1024)
#define HEAD_TIMEOUT  WEIR_SEC(10)
#define BODY_TIMEOUT  WEIR_SEC(30)
#define IDLE_TIMEOUT  WEIR_SEC(60)
#define WRITE_TIMEOUT WEIR_SEC(60)
#define HANDSHAKE     WEIR_SEC(10)

#define COMPRESS_LEAST 1024 /* bytes of a body */

int
weir__server_config_read(struct weir_http_server_config *to, const struct weir_http_server_config *from)
{
        *to = (struct weir_http_server_config)WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        if (failed)
                return failed;
        const struct {
                size_t *field, value;
        } sizes[] = {
                {&to->max_connections, SIZE_MAX}, {&to->max_connections_per_address, SIZE_MAX},
                {&to->max_head, MAX_HEAD},        {&to->max_body, MAX_BODY},
                {&to->max_line, MAX_LINE},        {&to->max_fields, MAX_FIELDS},
                {&to->max_pairs, MAX_PAIRS},
        };
        const struct {
                weir_nsec *field, value;
        } times[] = {
                {&to->head_timeout, HEAD_TIMEOUT},   {&to->body_timeout, BODY_TIMEOUT},   {&to->idle_timeout, IDLE_TIMEOUT},
                {&to->write_timeout, WRITE_TIMEOUT}, {&to->handshake_timeout, HANDSHAKE}, {&to->shed_lateness, WEIR_FOREVER},
        };
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                *sizes[i].field = *sizes[i].field ? *sizes[i].field : sizes[i].value;
        for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
                *times[i].field = *times[i].field ? *times[i].field : times[i].value;
                failed = *times[i].field < 0 ? -EINVAL : failed;
        }
        to->max_head = to->max_head == SIZE_MAX ? WEIR__HEAD_MAX : to->max_head;
        to->compress_least = to->compress_least ? to->compress_least : COMPRESS_LEAST;
        if (to->max_head > WEIR__HEAD_MAX || to->compress < 0 || to->compress > WEIR__GZIP_LEVEL_MAX)
                failed = -EINVAL;
        return failed;
}
