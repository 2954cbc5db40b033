/* server/connection/handshake.h: the handshake of TLS. */
#ifndef WEIR_SERVER_HANDSHAKE_H
#define WEIR_SERVER_HANDSHAKE_H

struct weir__connection;

void weir__handshake(struct weir__connection *connection); /* HANDSHAKING: goes on with it */

#endif
