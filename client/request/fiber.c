/* client/request/fiber.c: a request as it is made in a fiber.
 *
 * Threads: a fiber, on its stack, or a thread of the program; the callback on any worker, while that waits.
 * Locks:   none. */
#include <weir/http_client.h>

#include <stdlib.h>

#include "factory/fiber/fiber.h"

struct response {
        int status;
        void *body;
        size_t size;
};

/* A response that has failed has a part of its body, or none. */
static void
take_response(weir_task *get, void *context)
{
        struct response *response = context;

        if (weir_task_status(get))
                return;
        response->status = weir_http_response_status(get);
        response->body = weir_http_response_take_body(get, &response->size);
}

int
weir_fiber_http_get(const char *url, void **body, size_t *size)
{
        struct response response = {0};
        int status = weir__await(weir_http_get_new(url, take_response, &response), WEIR__FIBER_AT);

        if (body)
                *body = response.body;
        else
                free(response.body);
        if (size)
                *size = response.size;
        return status ? status : response.status;
}
