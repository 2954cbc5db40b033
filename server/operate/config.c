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

static void
default_size(size_t *field, size_t value)
{
        *field = *field ? *field : value;
}

static int
default_time(weir_nsec *field, weir_nsec value)
{
        *field = *field ? *field : value;
        return *field < 0 ? -EINVAL : 0;
}

int
weir__server_config_read(struct weir_http_server_config *to, const struct weir_http_server_config *from)
{
        *to = (struct weir_http_server_config)WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        if (failed)
                return failed;
        default_size(&to->max_connections, SIZE_MAX);
        default_size(&to->max_connections_per_address, SIZE_MAX);
        default_size(&to->max_head, MAX_HEAD);
        default_size(&to->max_body, MAX_BODY);
        default_size(&to->max_line, MAX_LINE);
        default_size(&to->max_fields, MAX_FIELDS);
        default_size(&to->max_pairs, MAX_PAIRS);
        if (to->max_head == SIZE_MAX)
                to->max_head = WEIR__HEAD_MAX;
        to->compress_least = to->compress_least ? to->compress_least : COMPRESS_LEAST;
        if (to->max_head > WEIR__HEAD_MAX || to->compress < 0 || to->compress > WEIR__GZIP_LEVEL_MAX)
                return -EINVAL;
        failed = default_time(&to->head_timeout, HEAD_TIMEOUT);
        failed = failed ? failed : default_time(&to->body_timeout, BODY_TIMEOUT);
        failed = failed ? failed : default_time(&to->idle_timeout, IDLE_TIMEOUT);
        failed = failed ? failed : default_time(&to->write_timeout, WRITE_TIMEOUT);
        failed = failed ? failed : default_time(&to->handshake_timeout, HANDSHAKE);
        return failed ? failed : default_time(&to->shed_lateness, WEIR_FOREVER);
}
