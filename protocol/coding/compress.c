/* protocol/coding/compress.c: compresses a response, if its type and the client allow it, and changes its fields.
 *
 * Threads: a response belongs to one thread at a time.  No locks.
 *
 * `Vary` says that another client may get another body.  So it goes to every client whenever the body would be compressed for
 * some client. */
#include <stdlib.h>
#include <string.h>

#include "protocol/text/bytes.h"
#include "protocol/coding/compress.h"
#include "protocol/coding/gzip.h"
#include "protocol/coding/mime.h"

#define NOT_SAID    (-1)
#define FULL_WEIGHT 1000 /* thousandths */

/* -- the codings that the client accepts -- */

/* In thousandths; 0 for an invalid weight.  Source: RFC 9110 section 12.4.2. */
static int
read_qvalue(const char *text, size_t size)
{
        int value = 0, unit = FULL_WEIGHT;

        if (size == 0 || size > 5 || (text[0] != '0' && text[0] != '1') || (size > 1 && text[1] != '.'))
                return 0;
        for (size_t i = 0; i < size; i++) {
                if (i == 1)
                        continue;
                if (!weir__byte_is(text[i], WEIR__BYTE_DIGIT))
                        return 0;
                value += (text[i] - '0') * unit;
                unit /= 10;
        }
        return value <= FULL_WEIGHT ? value : 0;
}

/* Returns the weight of a member, and shortens the member to its name. */
static int
take_weight(const char *member, size_t *size)
{
        const char *semicolon = memchr(member, ';', *size), *weight;
        size_t weight_size;

        if (!semicolon)
                return FULL_WEIGHT;
        weight = semicolon + 1;
        weight_size = *size - (size_t)(weight - member);
        *size = (size_t)(semicolon - member);
        weir__bytes_trim(&member, size);
        weir__bytes_trim(&weight, &weight_size);
        return weight_size > 2 && weir__bytes_equal(weight, "q=", 2) ? read_qvalue(weight + 2, weight_size - 2) : 0;
}

struct weights {
        int gzip, identity, other;
};

static void
read_weights(struct weights *weights, const char *list)
{
        size_t list_size = strlen(list), size;
        const char *member;

        while (weir__bytes_next_member(&list, &list_size, &member, &size)) {
                int weight = take_weight(member, &size);

                if (WEIR__BYTES_ARE(member, size, "gzip") || WEIR__BYTES_ARE(member, size, "x-gzip"))
                        weights->gzip = weight;
                else if (WEIR__BYTES_ARE(member, size, "identity"))
                        weights->identity = weight;
                else if (WEIR__BYTES_ARE(member, size, "*"))
                        weights->other = weight;
        }
}

bool
weir__compress_accepts_gzip(const struct weir__request *request)
{
        struct weights weights = {NOT_SAID, NOT_SAID, NOT_SAID};
        const char *value;

        for (uint32_t at = 0; (value = weir__request_next(request, "Accept-Encoding", &at));)
                read_weights(&weights, value);
        int gzip = weights.gzip != NOT_SAID ? weights.gzip : weights.other;
        return gzip > 0 && gzip >= weights.identity;
}

/* -- the responses that are compressed -- */

static bool
lists(const struct weir__response *response, const char *name, const char *word)
{
        size_t at = 0, size;
        const char *value;

        while (weir__response_next(response, name, &at, &value, &size))
                if (weir__bytes_list_has(value, size, word))
                        return true;
        return false;
}

/* The body is whole, has no coding yet, and may be transformed.  A handler forbids that by `no-transform`. */
static bool
is_worth_it(const struct weir__response *response, size_t least)
{
        int status = response->status ? response->status : 200;
        const char *type;
        size_t at = 0, size;

        return response->body_size >= least && status >= 200 && status <= 203 &&
               weir__response_next(response, "Content-Type", &at, &type, &size) && weir__mime_is_compressible(type, size) &&
               !weir__response_has_field(response, "Content-Encoding") && !weir__response_has_field(response, "Content-Range") &&
               !lists(response, "Cache-Control", "no-transform");
}

/* -- doing it -- */

static int
add_vary(struct weir__response *response)
{
        if (lists(response, "Vary", "*") || lists(response, "Vary", "Accept-Encoding"))
                return 0;
        if (weir__response_has_field(response, "Vary"))
                return weir__response_wrap(response, "Vary", "", ", Accept-Encoding");
        return weir__response_field(response, "Vary", "Accept-Encoding", false);
}

/* Two bodies have one ETag now.  A weak one says that they mean the same; a strong one would say that they are equal. */
static int
weaken_etag(struct weir__response *response)
{
        const char *value;
        size_t at = 0, size;

        if (!weir__response_next(response, "ETag", &at, &value, &size) || size == 0 || value[0] != '"')
                return 0;
        return weir__response_wrap(response, "ETag", "W/", "");
}

void
weir__compress_response(struct weir__response *response, const struct weir__request *request, int level, size_t least)
{
        if (!is_worth_it(response, least) || add_vary(response) || !weir__compress_accepts_gzip(request))
                return;
        char *body = malloc(response->body_size);
        size_t size = body ? weir__gzip(response->body, response->body_size, level, body) : 0;

        if (size && !weaken_etag(response) && !weir__response_field(response, "Content-Encoding", "gzip", false)) {
                char *fitting = realloc(body, size);

                weir__response_replace_body(response, fitting ? fitting : body, size);
        } else {
                free(body);
        }
}
