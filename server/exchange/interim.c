/* server/exchange/interim.c: interim responses, which go out before the reply.
 *
 * Source:  RFC 9110 section 15.2; RFC 8297.
 * Threads: any that makes the task. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/http_body.h>

#include "protocol/text/reason.h"
#include "server/exchange/transfer.h"

#define START_ROOM 64 /* "HTTP/1.1 103 ", a reason, a line's end */

/* Fields that frame a message must not be in it: the check is that of replies. */
static int
collect(struct weir__response *response, const char *const *fields)
{
        int failed = 0;

        for (; !failed && fields && fields[0]; fields += 2)
                failed = weir__response_field(response, fields[0], fields[1], false);
        return failed;
}

static weir_task *
new_task(weir_task *exchange, const char *text, size_t size, int failed, weir_task_fn *done, void *context)
{
        weir_task *task = weir__transfer_new_write(exchange, text, size, failed, done, context);

        if (task)
                ((struct weir__transfer *)task)->is_interim = true;
        return task;
}

weir_task *
weir_http_interim_new(weir_task *exchange, int status, const char *const *fields, weir_task_fn *done, void *context)
{
        struct weir__response response = {.status = 0};
        int failed = status < 102 || status > 199 ? -EINVAL : collect(&response, fields);
        size_t size = response.fields.size;
        char *text = failed == -ENOMEM ? NULL : malloc(START_ROOM + size);
        weir_task *task = NULL;

        if (text) {
                size_t start = (size_t)snprintf(text, START_ROOM, "HTTP/1.1 %d %s\r\n", status, weir__http_reason(status));

                if (size)
                        memcpy(text + start, response.fields.data, size);
                memcpy(text + start + size, "\r\n", 2);
                task = new_task(exchange, text, start + size + 2, failed, done, context);
        }
        free(text);
        weir__response_done(&response);
        return task;
}
