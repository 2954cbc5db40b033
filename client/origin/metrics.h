/* client/origin/metrics.h: the list of clients, whose counts weir/metrics.h writes. */
#ifndef WEIR_CLIENT_METRICS_H
#define WEIR_CLIENT_METRICS_H

struct weir_client;

/* Any thread. */
void weir__client_list(struct weir_client *client);
void weir__client_unlist(struct weir_client *client);

#endif
