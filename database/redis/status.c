/* database/redis/status.c: errors of servers. */
#include <errno.h>
#include <string.h>

#include "database/redis/redis.h"

int
weir__redis_status_of(const char *text)
{
        static const struct {
                const char *word;
                int status;
        } known[] = {
                {"NOAUTH", -EACCES},  {"WRONGPASS", -EACCES}, {"NOPERM", -EACCES},      {"LOADING", -EAGAIN},
                {"BUSY", -EAGAIN},    {"TRYAGAIN", -EAGAIN},  {"CLUSTERDOWN", -EAGAIN}, {"MASTERDOWN", -EAGAIN},
                {"READONLY", -EROFS}, {"NOSCRIPT", -ENOENT},
        };
        size_t size = strcspn(text, " ");

        for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
                if (strncmp(text, known[i].word, size) == 0 && !known[i].word[size])
                        return known[i].status;
        return -EREMOTEIO;
}
