/* server/base/error_pages.h: the bodies of the server's own replies. */
#ifndef WEIR_SERVER_ERROR_PAGES_H
#define WEIR_SERVER_ERROR_PAGES_H

#include <weir/http_server.h>

#include "protocol/message/response.h"

/* Makes the response the server's own of that status; its fields stay.  The body is the page that the program has set, if that
 * has fewer than `max` bytes, and else a line of text.  For an empty response the lines of a 500 and a 503
 * need no memory.  Result: 0 or -ENOMEM. */
int weir__error_pages_fill(weir_http_server *server, int status, size_t max, struct weir__response *response);
void weir__error_pages_free(weir_http_server *server);

#endif
