/* database/pq/status.c: the statuses of tasks, by what the server says.
 *
 * The classes are those of PostgreSQL's manual, appendix "PostgreSQL Error Codes". */
#include "database/pq/pq.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>

/* A code, or a class: the first that fits counts. */
static const struct code {
        const char *code;
        int status;
} codes[] = {
        {"08P01", -EPROTO},     {"08", -ECONNRESET},      {"0A", -ENOTSUP},
        {"22003", -ERANGE},     {"22", -EINVAL},          {"23505", -EEXIST},          /* unique_violation */
        {"23P01", -EEXIST},                                                            /* exclusion_violation */
        {"23", -EINVAL},        {"25006", -EROFS},        {"25P02", -ENOTRECOVERABLE}, /* in_failed_sql_transaction */
        {"25P03", -ECONNRESET},                                                        /* idle_in_transaction_session_timeout */
        {"26", -ENOENT},                                                               /* no such prepared statement */
        {"28", -EACCES},        {"3D", -ENOENT},          {"3F", -ENOENT},
        {"40001", -EAGAIN},                         /* serialization_failure */
        {"40P01", -EAGAIN},                         /* deadlock_detected */
        {"42501", -EACCES},     {"42P01", -ENOENT}, /* undefined table, column, object, function, parameter */
        {"42703", -ENOENT},     {"42704", -ENOENT},       {"42883", -ENOENT},
        {"42P02", -ENOENT},     {"42P04", -EEXIST}, /* duplicate database, schema, table, column, object, function */
        {"42P06", -EEXIST},     {"42P07", -EEXIST},       {"42701", -EEXIST},
        {"42710", -EEXIST},     {"42723", -EEXIST},       {"42", -EINVAL},
        {"53100", -ENOSPC},     {"53200", -ENOMEM},       {"53", -EBUSY},
        {"54", -E2BIG},         {"55006", -EBUSY},        {"55P03", -EBUSY}, /* lock_not_available */
        {"57014", -EINTR},                                                   /* query_canceled */
        {"57P01", -ECONNRESET}, /* the server ends, has crashed, drops the database, the session was idle */
        {"57P02", -ECONNRESET}, {"57P03", -ECONNREFUSED}, /* cannot_connect_now */
        {"57P04", -ECONNRESET}, {"57P05", -ECONNRESET},   {"P0002", -ENOENT},
};

int
weir__pq_status(const char *sqlstate)
{
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
                if (strncmp(sqlstate, codes[i].code, strlen(codes[i].code)) == 0)
                        return codes[i].status;
        return -EREMOTEIO;
}

/* What libpq says of itself: its words for missing memory, which may be translated, and those of the C library for it. */
int
weir__pq_own_status(const char *problem)
{
        return strstr(problem, "out of memory") || strstr(problem, gai_strerror(EAI_MEMORY)) ? -ENOMEM : -EPROTO;
}

/* libpq has no code for an attempt that has failed; its text is in the language of the process, and has that of strerror. */
static const int system_errors[] = {ECONNREFUSED, ENOENT,        EACCES,   ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ECONNRESET,
                                    EMFILE,       EADDRNOTAVAIL, ENETDOWN, ENOMEM,    EAGAIN,       EPIPE};

int
weir__pq_connect_status(const char *problem)
{
        char text[128];

        for (size_t i = 0; i < sizeof system_errors / sizeof *system_errors; i++)
                if (strstr(problem, strerror_r(system_errors[i], text, sizeof text)))
                        return system_errors[i] == EPIPE ? -ECONNRESET : -system_errors[i];
        return weir__pq_own_status(problem);
}
