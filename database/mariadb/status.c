/* database/mariadb/status.c: the statuses of tasks, by what the server or the client library says.
 *
 * The codes are those of MariaDB's manual, "MariaDB Error Codes", and of <errmsg.h>; the classes those of SQL.
 *
 * Threads: any. */
#include "database/mariadb/mariadb.h"

#include <stdlib.h>
#include <string.h>

#include <errmsg.h>

static const struct code {
        unsigned code;
        int status;
} codes[] = {
        /* Duplicate keys. */
        {1062, -EEXIST},
        {1586, -EEXIST},
        {1169, -EEXIST},
        {1022, -EEXIST},
        /* A database, table, column or key that exists. */
        {1007, -EEXIST},
        {1050, -EEXIST},
        {1060, -EEXIST},
        {1061, -EEXIST},
        /* A routine, trigger, user or event that exists. */
        {1304, -EEXIST},
        {1359, -EEXIST},
        {1396, -EEXIST},
        {1537, -EEXIST},
        {4127, -EEXIST},
        /* A deadlock, or a record that has changed. */
        {1213, -EAGAIN},
        {1020, -EAGAIN},
        {1614, -EAGAIN},
        /* A lock that was waited for in vain, too many connections. */
        {1205, -EBUSY},
        {1040, -EBUSY},
        {1203, -EBUSY},
        {1226, -EBUSY},
        {3572, -EBUSY},
        /* Killed, or max_statement_time. */
        {1317, -EINTR},
        {1969, -EINTR},
        {3024, -EINTR},
        {1907, -EINTR},
        /* An unknown table, column or database. */
        {1146, -ENOENT},
        {1051, -ENOENT},
        {1054, -ENOENT},
        {1049, -ENOENT},
        {1008, -ENOENT},
        /* An unknown routine, key, trigger or table. */
        {1305, -ENOENT},
        {1091, -ENOENT},
        {1176, -ENOENT},
        {1360, -ENOENT},
        {1109, -ENOENT},
        /* An unknown variable, statement, sequence or event. */
        {1193, -ENOENT},
        {1243, -ENOENT},
        {4091, -ENOENT},
        {1539, -ENOENT},
        /* Users, passwords and privileges. */
        {1044, -EACCES},
        {1045, -EACCES},
        {1142, -EACCES},
        {1143, -EACCES},
        {1227, -EACCES},
        {1370, -EACCES},
        {1698, -EACCES},
        {1130, -EACCES},
        {1129, -EACCES},
        {1141, -EACCES},
        {1419, -EACCES},
        {1820, -EACCES},
        {1862, -EACCES},
        {4151, -EACCES},
        {1251, -EACCES},
        /* Read-only. */
        {1290, -EROFS},
        {1792, -EROFS},
        {1036, -EROFS},
        {1836, -EROFS},
        /* A full disk or table; no memory. */
        {1021, -ENOSPC},
        {1114, -ENOSPC},
        {1041, -ENOMEM},
        {1037, -ENOMEM},
        {1038, -ENOMEM},
        /* A number out of range; what the server does not support. */
        {1264, -ERANGE},
        {1690, -ERANGE},
        {1367, -ERANGE},
        {1235, -ENOTSUP},
        {1295, -ENOTSUP},
        /* A packet, result or row that is too large, too many placeholders. */
        {1153, -E2BIG},
        {1301, -E2BIG},
        {1118, -E2BIG},
        {1390, -E2BIG},
        /* The server ends the connection, or cannot read from it or write to it. */
        {1053, -ECONNRESET},
        {1927, -ECONNRESET},
        {1152, -ECONNRESET},
        {1184, -ECONNRESET},
        {4031, -ECONNRESET},
        {1158, -ECONNRESET},
        {1159, -ECONNRESET},
        {1160, -ECONNRESET},
        {1161, -ECONNRESET},
        /* The client library. */
        {CR_UNKNOWN_HOST, -ENOENT},
        {CR_OUT_OF_MEMORY, -ENOMEM},
        {CR_AUTH_PLUGIN_CANNOT_LOAD, -ENOTSUP},
        {CR_SERVER_GONE_ERROR, -ECONNRESET},
        {CR_NET_PACKET_TOO_LARGE, -E2BIG},
};

/* A value that a column does not take: NULL, wrong, missing without a default, cut, too long, or refused by a CHECK.  The class
 * goes first. */
static const unsigned data_codes[] = {1048, 1366, 1364, 1265, 1292, 1406, 1411, 3819, 4025};

/* The server ends the connection with them: it stops, the packet was too large, the network failed, or somebody has killed it. */
static const unsigned breaking_codes[] = {1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 4031};

static const struct class {
        const char *class;
        int status;
} classes[] = {
        {"08", -ECONNRESET}, {"0A", -ENOTSUP},  {"22003", -ERANGE}, {"22", -EINVAL}, {"21", -EINVAL},
        {"23", -EINVAL},     {"25006", -EROFS}, {"28", -EACCES},    {"3D", -ENOENT}, {"40", -EAGAIN},
        {"42", -EINVAL},     {"45", -EINVAL},   {"70100", -EINTR},
};

static bool
is_in(unsigned code, const unsigned *list, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (list[i] == code)
                        return true;
        return false;
}

/* The client library has two ranges of codes.  All others are a server's. */
static bool
is_of_client(unsigned code)
{
        return (code >= CR_MIN_ERROR && code <= CR_MAX_ERROR) || code >= CER_MIN_ERROR;
}

/* The number of the system in the text of a failed attempt: "... on '127.0.0.1' (111)", "... system error: 104". */
static int
system_error(const char *text)
{
        const char *at = strrchr(text, '('), *colon = strstr(text, "system error: ");
        int number = colon ? atoi(colon + strlen("system error: ")) : at ? atoi(at + 1) : 0;

        return number == EAGAIN || number == EINPROGRESS ? ETIMEDOUT : number;
}

static int
of_client(unsigned code, const char *text)
{
        bool is_attempt = code == CR_CONNECTION_ERROR || code == CR_CONN_HOST_ERROR || code == CR_SOCKET_CREATE_ERROR;
        int number = is_attempt || code == CR_SERVER_LOST || code == CR_SERVER_LOST_EXTENDED ? system_error(text) : 0;

        if (is_attempt)
                return number > 0 ? -number : -ECONNREFUSED;
        if (code == CR_SERVER_LOST || code == CR_SERVER_LOST_EXTENDED)
                return number == ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET;
        return -EPROTO;
}

int
weir__mariadb_status(unsigned code, const char *sqlstate, const char *text)
{
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
                if (codes[i].code == code)
                        return codes[i].status;
        if (is_of_client(code))
                return of_client(code, text);
        for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
                if (strncmp(sqlstate, classes[i].class, strlen(classes[i].class)) == 0)
                        return classes[i].status;
        return is_in(code, data_codes, sizeof data_codes / sizeof *data_codes) ? -EINVAL : -EREMOTEIO;
}

bool
weir__mariadb_breaks(unsigned code)
{
        return is_of_client(code) || is_in(code, breaking_codes, sizeof breaking_codes / sizeof *breaking_codes);
}
