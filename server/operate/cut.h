/* server/operate/cut.h: what a stop cuts when its time is over, and its reports on that. */
#ifndef WEIR_SERVER_CUT_H
#define WEIR_SERVER_CUT_H

#include <stdbool.h>

#include <weir/http_server.h>

struct weir__connection;

/* A report on an exchange that was cut. */
struct weir__cut_report {
        struct weir__cut_report *next;
        char text[512];
};

bool weir__cut_connection(struct weir__connection *connection); /* returns whether an exchange was cut */
unsigned weir__cut_take_reports(weir_http_server *server, struct weir__cut_report **reports); /* returns how many are missing */
void weir__cut_log(const struct weir__cut_report *reports, unsigned missing);
void weir__cut_free_reports(struct weir__cut_report *reports);

#endif
