/* test/soak_request.c: random requests of the soak, each with the reply that it must have.
 *
 * Threads: any; a request and a generator belong to one.  No locks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/soak.h"

/* Bytes that are being put together. */
struct text {
        char *data;
        size_t size;
        FILE *stream;
};

static void
text_begin(struct text *text)
{
        text->stream = open_memstream(&text->data, &text->size);
}

static void
text_end(struct text *text)
{
        fclose(text->stream);
}

static char *
pattern(size_t at, size_t size)
{
        char *data = malloc(size + 1);

        for (size_t i = 0; i < size; i++)
                data[i] = soak_byte(at + i);
        data[size] = '\0';
        return data;
}

/* Mostly small, now and then as large as can be. */
static size_t
some_size(struct weir_test_random *random, size_t largest)
{
        size_t most = weir_test_random_below(random, 4) == 0 ? largest : 1 + largest / 64;

        return weir_test_random_below(random, most);
}

static void
answer(struct soak_request *request, int status, const char *body)
{
        request->status = status;
        request->body = strdup(body);
        request->body_size = strlen(body);
}

static void
answer_bytes(struct soak_request *request, int status, size_t at, size_t size)
{
        request->status = status;
        request->body = pattern(at, size);
        request->body_size = size;
}

static void
answer_events(struct soak_request *request, size_t count)
{
        static const char event[] = "data: event\n\n";

        request->status = 200;
        request->body_size = count * (sizeof event - 1);
        request->body = malloc(request->body_size + sizeof event);
        for (size_t i = 0; i < count; i++)
                memcpy(request->body + i * (sizeof event - 1), event, sizeof event);
}

/* -- heads -- */

static void
put_head(struct soak_request *request, struct text *text, struct weir_test_random *random, const char *method, const char *target,
         const char *fields)
{
        unsigned fillers = (unsigned)weir_test_random_below(random, 8);
        bool old = weir_test_random_below(random, 40) == 0 && !*fields && strcmp(method, "POST") != 0;

        request->is_last = old || weir_test_random_below(random, 30) == 0;
        fprintf(text->stream, "%s %s HTTP/1.%d\r\nHost: soak\r\n", method, target, !old);
        for (unsigned i = 0; i < fillers; i++)
                fprintf(text->stream, "X-Filler-%u: %.*s\r\n", i, (int)weir_test_random_below(random, 60),
                        "a field that nobody reads, as browsers send them in great numbers");
        if (request->is_last && !old)
                fputs("Connection: close\r\n", text->stream);
        if (weir_test_random_below(random, 3) == 0)
                fputs("Accept-Encoding: gzip, deflate\r\n", text->stream);
        fprintf(text->stream, "%s\r\n", fields);
        fflush(text->stream);
        request->head_size = text->size;
}

/* -- bodies -- */

static void
put_chunks(struct text *text, struct weir_test_random *random, const char *data, size_t size)
{
        size_t most = 1 + weir_test_random_below(random, 2) * 20 + weir_test_random_below(random, 20000);

        for (size_t at = 0, piece; at < size; at += piece) {
                piece = 1 + weir_test_random_below(random, most);
                piece = piece < size - at ? piece : size - at;
                fprintf(text->stream, weir_test_random_below(random, 2) ? "%zx" : "%05zX", piece);
                if (weir_test_random_below(random, 16) == 0 && most > 1000) /* of all together there is a limit */
                        fputs(";name=\"a \\\" value\"", text->stream);
                fputs("\r\n", text->stream);
                fwrite(data + at, 1, piece, text->stream);
                fputs("\r\n", text->stream);
        }
        fputs(weir_test_random_below(random, 8) ? "0\r\n\r\n" : "0\r\nX-Trailer: 1\r\n\r\n", text->stream);
}

static void
put_post(struct soak_request *request, struct text *text, struct weir_test_random *random, const char *target, const char *data,
         size_t size)
{
        bool chunked = weir_test_random_below(random, 2);
        char fields[128];
        int used = chunked ? snprintf(fields, sizeof fields, "Transfer-Encoding: chunked\r\n")
                           : snprintf(fields, sizeof fields, "Content-Length: %zu\r\n", size);

        request->expects = size && weir_test_random_below(random, 8) == 0;
        if (request->expects)
                snprintf(fields + used, sizeof fields - (size_t)used, "Expect: 100-continue\r\n");
        put_head(request, text, random, "POST", target, fields);
        if (chunked)
                put_chunks(text, random, data, size);
        else
                fwrite(data, 1, size, text->stream);
}

/* -- kinds -- */

/* Now and then more than the server's socket takes at once. */
static size_t
some_reply(struct weir_test_random *random)
{
        return weir_test_random_below(random, 40) ? some_size(random, 300000) : 3000000 + weir_test_random_below(random, 2000000);
}

static void
make_get(struct soak_request *request, struct text *text, struct weir_test_random *random)
{
        static const char *const small[] = {"delay", "parallel", "go"};
        size_t number = weir_test_random_below(random, 30);
        char target[64];

        switch (weir_test_random_below(random, 8)) {
        case 0:
        case 1:
                number = some_reply(random);
                request->is_head = weir_test_random_below(random, 8) == 0;
                snprintf(target, sizeof target, "/bytes/%zu", number);
                answer_bytes(request, 200, 0, request->is_head ? 0 : number);
                break;
        case 2:
                number = some_reply(random);
                request->is_head = weir_test_random_below(random, 8) == 0;
                snprintf(target, sizeof target, "/stream/%zu", number);
                answer_bytes(request, 200, 0, request->is_head ? 0 : number);
                break;
        case 3:
                snprintf(target, sizeof target, "/elsewhere/%zu", number);
                answer(request, 200, "from elsewhere\n");
                break;
        case 4:
                number |= 1;
                snprintf(target, sizeof target, "/events/%zu", number);
                request->is_head = weir_test_random_below(random, 8) == 0;
                answer_events(request, request->is_head ? 0 : number);
                break;
        default:
                snprintf(target, sizeof target, "/%s/%zu", small[weir_test_random_below(random, 3)], number);
                answer(request, 200, "done\n");
        }
        put_head(request, text, random, request->is_head ? "HEAD" : "GET", target, "");
}

static void
make_file(struct soak_request *request, struct text *text, struct weir_test_random *random)
{
        size_t from = weir_test_random_below(random, SOAK_FILE_SIZE), size = 1 + some_size(random, SOAK_FILE_SIZE - from);
        char fields[64];

        if (weir_test_random_below(random, 8)) {
                snprintf(fields, sizeof fields, "Range: bytes=%zu-%zu\r\n", from, from + size - 1);
                answer_bytes(request, 206, from, size);
        } else {
                strcpy(fields, "Accept: */*\r\n");
                answer_bytes(request, 200, 0, SOAK_FILE_SIZE);
        }
        put_head(request, text, random, "GET", "/file", fields);
}

static void
make_post(struct soak_request *request, struct text *text, struct weir_test_random *random, size_t largest)
{
        size_t size = some_size(random, largest), at = weir_test_random_below(random, 100000);
        char *data = pattern(at, size);
        char said[64];

        if (weir_test_random_below(random, 2)) {
                snprintf(said, sizeof said, "%zu %016llx\n", size, (unsigned long long)soak_sum(SOAK_SUM_START, data, size));
                answer(request, 200, said);
                put_post(request, text, random, "/sum", data, size);
        } else {
                answer_bytes(request, 200, at, size);
                put_post(request, text, random, "/echo", data, size);
        }
        free(data);
}

static void
make_odd(struct soak_request *request, struct text *text, struct weir_test_random *random)
{
        switch (weir_test_random_below(random, 4)) {
        case 0:
                answer(request, 404, SOAK_PAGE);
                put_head(request, text, random, "GET", "/nothing?a=b", "");
                break;
        case 1:
                answer(request, 405, SOAK_PAGE);
                put_head(request, text, random, "DELETE", "/file", "");
                break;
        case 2:
                answer(request, 204, "");
                put_head(request, text, random, "OPTIONS", "*", "");
                break;
        default:
                request->status = 0;
                request->is_last = true;
                put_head(request, text, random, "GET", "/drop", "");
        }
}

void
soak_request_make(struct soak_request *request, struct weir_test_random *random, size_t largest)
{
        struct text text;

        *request = (struct soak_request){0};
        text_begin(&text);
        switch (weir_test_random_below(random, 16)) {
        case 0: make_odd(request, &text, random); break;
        case 1:
        case 2: make_file(request, &text, random); break;
        case 3:
        case 4:
        case 5:
        case 6:
        case 7: make_post(request, &text, random, largest); break;
        default: make_get(request, &text, random);
        }
        text_end(&text);
        request->bytes = text.data;
        request->size = text.size;
        request->is_last |= request->status == 0;
}

void
soak_request_done(struct soak_request *request)
{
        free(request->bytes);
        free(request->body);
        *request = (struct soak_request){0};
}
