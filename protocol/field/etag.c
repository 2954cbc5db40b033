/* protocol/field/etag.c: entity tags.
 *
 * Threads: any; pure functions.  No locks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/field/etag.h"

void
weir__etag_make(char out[WEIR__ETAG_SIZE], int64_t modified, uint64_t size, uint64_t inode)
{
        snprintf(out, WEIR__ETAG_SIZE, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", (uint64_t)modified, size, inode);
}

/* The size of the quoted tag at the beginning; 0 when there is none.  A tag may hold a comma, but no white space. */
static size_t
tag_size(const char *text)
{
        size_t size = 1;

        if (text[0] != '"')
                return 0;
        while (text[size] != '"' && text[size] != ' ' && weir__byte_is(text[size], WEIR__BYTE_VALUE) && text[size] != '\t')
                size++;
        return text[size] == '"' ? size + 1 : 0;
}

bool
weir__etag_is_in(const char *list, const char *tag, bool is_weak)
{
        size_t wanted = strlen(tag);

        for (;;) {
                list += strspn(list, " \t,");
                bool has_mark = list[0] == 'W' && list[1] == '/';
                list += has_mark ? 2 : 0;
                size_t size = tag_size(list);
                const char *behind = list + size + strspn(list + size, " \t");

                if (size == 0 || (*behind && *behind != ','))
                        return false;
                if (size == wanted && memcmp(list, tag, size) == 0 && (is_weak || !has_mark))
                        return true;
                list = behind;
        }
}
