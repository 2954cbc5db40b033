/* protocol/text/reason.c: statuses and their reason phrases.
 *
 * Threads: any; constant data.  No locks. */
#include "protocol/text/reason.h"

#define STATUSES(X)                               \
        X(100, "Continue")                        \
        X(101, "Switching Protocols")             \
        X(103, "Early Hints")                     \
        X(200, "OK")                              \
        X(201, "Created")                         \
        X(202, "Accepted")                        \
        X(203, "Non-Authoritative Information")   \
        X(204, "No Content")                      \
        X(205, "Reset Content")                   \
        X(206, "Partial Content")                 \
        X(207, "Multi-Status")                    \
        X(208, "Already Reported")                \
        X(226, "IM Used")                         \
        X(300, "Multiple Choices")                \
        X(301, "Moved Permanently")               \
        X(302, "Found")                           \
        X(303, "See Other")                       \
        X(304, "Not Modified")                    \
        X(305, "Use Proxy")                       \
        X(307, "Temporary Redirect")              \
        X(308, "Permanent Redirect")              \
        X(400, "Bad Request")                     \
        X(401, "Unauthorized")                    \
        X(402, "Payment Required")                \
        X(403, "Forbidden")                       \
        X(404, "Not Found")                       \
        X(405, "Method Not Allowed")              \
        X(406, "Not Acceptable")                  \
        X(407, "Proxy Authentication Required")   \
        X(408, "Request Timeout")                 \
        X(409, "Conflict")                        \
        X(410, "Gone")                            \
        X(411, "Length Required")                 \
        X(412, "Precondition Failed")             \
        X(413, "Content Too Large")               \
        X(414, "URI Too Long")                    \
        X(415, "Unsupported Media Type")          \
        X(416, "Range Not Satisfiable")           \
        X(417, "Expectation Failed")              \
        X(421, "Misdirected Request")             \
        X(422, "Unprocessable Content")           \
        X(423, "Locked")                          \
        X(424, "Failed Dependency")               \
        X(425, "Too Early")                       \
        X(426, "Upgrade Required")                \
        X(428, "Precondition Required")           \
        X(429, "Too Many Requests")               \
        X(431, "Request Header Fields Too Large") \
        X(451, "Unavailable For Legal Reasons")   \
        X(500, "Internal Server Error")           \
        X(501, "Not Implemented")                 \
        X(502, "Bad Gateway")                     \
        X(503, "Service Unavailable")             \
        X(504, "Gateway Timeout")                 \
        X(505, "HTTP Version Not Supported")      \
        X(506, "Variant Also Negotiates")         \
        X(507, "Insufficient Storage")            \
        X(508, "Loop Detected")                   \
        X(511, "Network Authentication Required")

#define FIRST_STATUS  100
#define LAST_STATUS   511
#define STATUS_PREFIX "HTTP/1.1 200 " /* all are as long */

#define LINE(code, reason) [code - FIRST_STATUS] = {sizeof("HTTP/1.1 " #code " " reason) - 1, "HTTP/1.1 " #code " " reason},

static const struct {
        unsigned char size; /* 0: unknown */
        char text[WEIR__STATUS_LINE_ROOM];
} lines[LAST_STATUS - FIRST_STATUS + 1] = {STATUSES(LINE)};

const char *
weir__http_status_line(int status, size_t *size)
{
        *size = status >= FIRST_STATUS && status <= LAST_STATUS ? lines[status - FIRST_STATUS].size : 0;
        return *size ? lines[status - FIRST_STATUS].text : NULL;
}

const char *
weir__http_reason(int status)
{
        size_t size;
        const char *line = weir__http_status_line(status, &size);

        return line ? line + sizeof STATUS_PREFIX - 1 : "";
}
