/* database/sqlite/status.c: what a code of SQLite is here.
 *
 * Threads: any. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database/sqlite/sqlite.h"

#define SHOWN 60 /* bytes of the SQL in a text */

static int
of_constraint(int code)
{
        switch (code) {
        case SQLITE_CONSTRAINT_UNIQUE:
        case SQLITE_CONSTRAINT_PRIMARYKEY:
        case SQLITE_CONSTRAINT_ROWID: return -EEXIST;
        default: return -EPERM;
        }
}

/* What the system has said when SQLite opened, read or wrote a file. */
static int
of_system(sqlite3 *handle, int otherwise)
{
        int number = handle ? sqlite3_system_errno(handle) : 0;

        switch (number) {
        case 0: return otherwise;
        case EDQUOT:
        case EFBIG: return -ENOSPC;
        default: return -number;
        }
}

int
weir__sqlite_status(sqlite3 *handle, int code)
{
        switch (code & 0xff) {
        case SQLITE_OK:
        case SQLITE_ROW:
        case SQLITE_DONE: return 0;
        case SQLITE_PERM:
        case SQLITE_AUTH: return -EACCES;
        case SQLITE_BUSY:
        case SQLITE_LOCKED: return -EBUSY;
        case SQLITE_NOMEM: return -ENOMEM;
        case SQLITE_READONLY: return code == SQLITE_READONLY_DBMOVED ? -ESTALE : -EROFS;
        case SQLITE_INTERRUPT: return -ECANCELED;
        case SQLITE_IOERR: return of_system(handle, -EIO) == -ENOSPC ? -ENOSPC : code == SQLITE_IOERR_NOMEM ? -ENOMEM : -EIO;
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB: return -EUCLEAN;
        case SQLITE_FULL: return -ENOSPC;
        case SQLITE_CANTOPEN: return of_system(handle, -ENOENT);
        case SQLITE_TOOBIG: return -E2BIG;
        case SQLITE_CONSTRAINT: return of_constraint(code);
        case SQLITE_RANGE: return -ERANGE;
        case SQLITE_NOLFS: return -ENOTSUP;
        default: return -EINVAL;
        }
}

int
weir__sqlite_status_of_call(weir_sqlite_connection *connection, struct weir__sqlite_request *request, int code)
{
        int last = sqlite3_extended_errcode(connection->handle);
        bool is_last = (last & 0xff) == (code & 0xff);
        const char *text = is_last ? NULL : sqlite3_errstr(code);

        if (code == SQLITE_ROW || code == SQLITE_DONE)
                return 0;
        if ((code & 0xff) == SQLITE_AUTH && connection->refusal)
                text = connection->refusal;
        if (!request)
                return weir__sqlite_status(connection->handle, is_last ? last : code);
        return weir__sqlite_fail(request, connection->handle, is_last ? last : code, text);
}

int
weir__sqlite_fail(struct weir__sqlite_request *request, sqlite3 *handle, int code, const char *text)
{
        struct weir__sqlite_result *result = request->result;
        int status = weir__sqlite_status(handle, code);
        size_t shown = request->sql_size < SHOWN ? request->sql_size : SHOWN;
        char moved[300];

        if (!result)
                return status;
        weir__sqlite_result_clear(result);
        while (shown < request->sql_size && shown > 0 && ((unsigned char)request->sql[shown] & 0xc0) == 0x80)
                shown--; /* no half of a character */
        result->code = code;
        if (code == SQLITE_READONLY_DBMOVED) {
                snprintf(moved, sizeof moved, "%s was moved, deleted or replaced since it was opened", request->db->path);
                text = moved;
        } else if (!text) {
                text = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
        }
        if (asprintf(&result->problem, "%s: %.*s%s%s%s", request->db->config.name, (int)shown, request->sql ? request->sql : "",
                     shown < request->sql_size ? "..." : "", request->sql ? ": " : "", text) < 0)
                result->problem = NULL;
        return status;
}
