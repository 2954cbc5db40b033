/* server/operate/config.h: the configuration of a server. */
#ifndef WEIR_SERVER_CONFIG_H
#define WEIR_SERVER_CONFIG_H

#include <weir/http_server.h>

/* Copies it and fills the defaults in; NULL is the default one.  Returns 0, or what the start is to report. */
int weir__server_config_read(struct weir_http_server_config *to, const struct weir_http_server_config *from);

#endif
