/* test/fuzz/field_fuzz.c: the values of fields that ask for a part, for what has changed, for a coding, and names of files.
 *
 * The first byte of an input chooses, and a second reader judges each: 'r' a Range, behind a line with the size of what there
 * is; 'd' a date, behind a line with the present time; 'e' a list of entity tags; 'c' a method and the fields of a conditional
 * request; 'a' lines of Accept-Encoding; 'n' the name of a file; else a media type. */
#include <time.h>

#include "protocol/coding/compress.h"
#include "protocol/field/conditional.h"
#include "protocol/text/date.h"
#include "protocol/field/etag.h"
#include "protocol/coding/mime.h"
#include "protocol/field/range.h"
#include "test/fuzz/fuzz.h"

#define LINES 8
#define TAG   "\"a,b\""

/* Takes a member that is not empty off a list between commas. */
static bool
take_member(struct fuzz_input *list, struct fuzz_input *member)
{
        while (list->size > 0) {
                *member = fuzz_trim(fuzz_take_until(list, ','));
                if (member->size > 0) {
                        return true;
                }
        }
        return false;
}

/* -- Range -- */

/* A number; the largest one for all that are larger.  Returns false when it is none. */
static bool
read_number(struct fuzz_input text, uint64_t *number)
{
        __extension__ unsigned __int128 wide = 0;

        for (size_t i = 0; i < text.size; i++) {
                if (text.at[i] < '0' || text.at[i] > '9') {
                        return false;
                }
                wide = 10 * wide + (unsigned)(text.at[i] - '0');
                wide = wide > UINT64_MAX ? UINT64_MAX : wide;
        }
        *number = (uint64_t)wide;
        return text.size > 0;
}

static enum weir__range_kind
judge_range(struct fuzz_input text, uint64_t size, struct weir__range *range)
{
        struct fuzz_input list = text, member, other, first_text;
        uint64_t first, last = UINT64_MAX;

        *range = (struct weir__range){0, size};
        if (!fuzz_is_in_any_case(fuzz_take_until(&list, '='), "bytes") || !take_member(&list, &member) ||
            take_member(&list, &other) || !memchr(member.at, '-', member.size)) {
                return WEIR__RANGE_NONE;
        }
        first_text = fuzz_take_until(&member, '-');
        if (member.size > 0 && !read_number(member, &last)) {
                return WEIR__RANGE_NONE;
        }
        if (first_text.size == 0) {
                if (member.size == 0 || (size == 0 && last > 0)) {
                        return WEIR__RANGE_NONE;
                }
                range->at = last > 0 ? size - (last < size ? last : size) : 0;
                range->size = size - range->at;
                return last > 0 ? WEIR__RANGE_PART : WEIR__RANGE_UNSATISFIABLE;
        }
        if (!read_number(first_text, &first) || first > last) {
                return WEIR__RANGE_NONE;
        }
        if (first >= size) {
                return WEIR__RANGE_UNSATISFIABLE;
        }
        *range = (struct weir__range){first, last >= size ? size - first : last - first + 1};
        return WEIR__RANGE_PART;
}

static void
try_range(struct fuzz_input input)
{
        char *size_text = fuzz_string(fuzz_take_line(&input)), *text = fuzz_string(input), out[WEIR__CONTENT_RANGE_SIZE];
        uint64_t size = strtoull(size_text, NULL, 10);
        unsigned long long first, last, all;
        struct weir__range range, expected;
        enum weir__range_kind kind = judge_range((struct fuzz_input){text, strlen(text)}, size, &expected);
        int end = 0;

        FUZZ_CHECK(weir__range_read(text, size, &range) == kind);
        FUZZ_CHECK(range.at == expected.at && range.size == expected.size);
        if (kind == WEIR__RANGE_PART) {
                FUZZ_CHECK(range.size > 0 && range.at < size && range.size <= size - range.at);
                weir__range_print(out, &range, size);
                FUZZ_CHECK(sscanf(out, "bytes %llu-%llu/%llu%n", &first, &last, &all, &end) == 3 && !out[end]);
                FUZZ_CHECK(first == range.at && last == range.at + range.size - 1 && all == size);
        }
        free(size_text);
        free(text);
}

/* -- dates -- */

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec", days[] = "SunMonTueWedThuFriSat";

/* One of the names, three letters each; -1 when it is none. */
static int
index_of(const char *names, const char *text)
{
        for (int i = 0; names[3 * i]; i++) {
                if (strncmp(names + 3 * i, text, 3) == 0) {
                        return i;
                }
        }
        return -1;
}

/* Reads "Sun, 06 Nov 1994 08:49:37 GMT", or "Sun Nov  6 08:49:37 1994".  Returns whether it is one of these, and a date. */
static bool
read_date(const char *text, int64_t *seconds)
{
        static const char *const shapes[] = {"aaa, 00 aaa 0000 00:00:00 GMT", "aaa aaa _0 00:00:00 0000"};
        bool is_old = strlen(text) == strlen(shapes[1]);
        const char *shape = shapes[is_old], *year = text + (is_old ? 20 : 12), *time = text + (is_old ? 11 : 17);
        struct tm tm = {.tm_mday = 0}, again;

        if (strlen(text) != strlen(shape) || index_of(days, text) < 0) {
                return false;
        }
        for (size_t i = 0; shape[i]; i++) {
                bool is_digit = text[i] >= '0' && text[i] <= '9';

                if (shape[i] == '0'   ? !is_digit
                    : shape[i] == '_' ? !is_digit && text[i] != ' '
                                      : shape[i] != 'a' && text[i] != shape[i]) {
                        return false;
                }
        }
        tm.tm_mon = index_of(months, text + (is_old ? 4 : 8));
        tm.tm_mday = atoi(text + (is_old ? 8 : 5));
        tm.tm_year = atoi(year) - 1900;
        tm.tm_hour = atoi(time);
        tm.tm_min = atoi(time + 3);
        tm.tm_sec = atoi(time + 6);
        if (tm.tm_mon < 0 || tm.tm_mday == 0 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60) {
                return false;
        }
        again = tm;
        again.tm_sec = 0;
        *seconds = timegm(&again) + tm.tm_sec;
        return again.tm_mday == tm.tm_mday && again.tm_mon == tm.tm_mon;
}

static void
try_date(struct fuzz_input input)
{
        char *now_text = fuzz_string(fuzz_take_line(&input)), *text = fuzz_string(input), out[WEIR__HTTP_DATE_SIZE + 1];
        int64_t now = strtoll(now_text, NULL, 10) % INT64_C(100000000000), seconds = 0, expected, again;
        bool is_date = weir__http_date_read(text, now, &seconds);

        if (strchr(text, '-')) { /* two digits of a year */
                FUZZ_CHECK(!is_date || seconds <= now + INT64_C(51) * 366 * 86400 || seconds < INT64_C(-58000000000));
        } else {
                FUZZ_CHECK(is_date == read_date(text, &expected) && (!is_date || seconds == expected));
        }
        if (is_date && seconds >= 0 && seconds <= INT64_C(253402300799)) {
                weir__http_date(seconds, out);
                FUZZ_CHECK(strlen(out) == WEIR__HTTP_DATE_SIZE && read_date(out, &again) && again == seconds);
                FUZZ_CHECK(index_of(days, out) == (seconds / 86400 + 4) % 7);
        }
        free(now_text);
        free(text);
}

/* -- entity tags and conditions -- */

/* Whether the list has the tag, in front of the first member that is no tag. */
static bool
has_tag(struct fuzz_input list, const char *tag, bool weak)
{
        for (;;) {
                bool is_weak = false;

                while (list.size > 0 && strchr(" \t,", *list.at)) {
                        fuzz_take_byte(&list);
                }
                if (list.size >= 2 && memcmp(list.at, "W/", 2) == 0) {
                        is_weak = true;
                        fuzz_take_byte(&list);
                        fuzz_take_byte(&list);
                }
                const char *begin = list.at;
                if (fuzz_take_byte(&list) != '"' || !memchr(list.at, '"', list.size)) {
                        return false;
                }
                struct fuzz_input inside = fuzz_take_until(&list, '"'), whole = {begin, inside.size + 2};
                for (size_t i = 0; i < inside.size; i++) {
                        if ((unsigned char)inside.at[i] <= ' ' || inside.at[i] == 127) {
                                return false;
                        }
                }
                struct fuzz_input behind = fuzz_take_until(&list, ',');
                if (fuzz_trim(behind).size > 0) {
                        return false;
                }
                if (fuzz_is(whole, tag) && (weak || !is_weak)) {
                        return true;
                }
        }
}

static void
try_tags(struct fuzz_input input)
{
        char *text = fuzz_string(input);
        struct fuzz_input list = {text, strlen(text)};

        FUZZ_CHECK(weir__etag_is_in(text, TAG, false) == has_tag(list, TAG, false));
        FUZZ_CHECK(weir__etag_is_in(text, TAG, true) == has_tag(list, TAG, true));
        free(text);
}

/* The lines are "name:value"; a line without a colon is a value of `name`. */
static void
take_fields(struct fuzz_input input, const char *name, struct weir__request *request, struct weir__field fields[LINES])
{
        request->fields = fields;
        while (input.size > 0 && request->field_count < LINES) {
                struct fuzz_input line = fuzz_take_line(&input), its_name = {name, strlen(name)};

                if (line.size > 0 && !fuzz_is(its_name, "Accept-Encoding") && memchr(line.at, ':', line.size)) {
                        its_name = fuzz_take_until(&line, ':');
                }
                fields[request->field_count++] = (struct weir__field){.name = fuzz_string(its_name),
                                                                              .value = fuzz_string(fuzz_trim(line))};
        }
}

static void
free_fields(struct weir__request *request)
{
        while (request->field_count > 0) {
                request->field_count--;
                free((char *)request->fields[request->field_count].name);
                free((char *)request->fields[request->field_count].value);
        }
}

/* How many fields of that name there are, the value of the last one, and whether any of them has the tag, or is "*". */
static unsigned
look_up(const struct weir__request *request, const char *name, bool weak, const char **value, bool *has)
{
        unsigned count = 0;

        *has = false;
        for (uint32_t i = 0; i < request->field_count; i++) {
                if (strcasecmp(request->fields[i].name, name) == 0) {
                        *value = request->fields[i].value;
                        *has |= strcmp(*value, "*") == 0 || has_tag((struct fuzz_input){*value, strlen(*value)}, TAG, weak);
                        count++;
                }
        }
        return count;
}

static bool
look_up_date(const struct weir__request *request, const char *name, const struct weir__validators *validators, int64_t *date)
{
        const char *value;
        bool ignored;

        return look_up(request, name, false, &value, &ignored) == 1 && validators->modified != WEIR__NOT_DATED &&
               weir__http_date_read(value, validators->now, date);
}

static int
judge_conditions(const struct weir__request *request, const struct weir__validators *validators)
{
        bool is_get = strcmp(request->method, "GET") == 0 || request->is_head, has;
        const char *value;
        int64_t date;

        if (look_up(request, "If-Match", false, &value, &has) > 0) {
                if (!has) {
                        return 412;
                }
        } else if (look_up_date(request, "If-Unmodified-Since", validators, &date) && validators->modified > date) {
                return 412;
        }
        if (look_up(request, "If-None-Match", true, &value, &has) > 0) {
                return !has ? 200 : is_get ? 304 : 412;
        }
        return is_get && look_up_date(request, "If-Modified-Since", validators, &date) && validators->modified <= date ? 304
                                                                                                                       : 200;
}

static const char *
judge_if_range(const struct weir__request *request, const struct weir__validators *validators)
{
        const char *range, *value;
        bool ignored;
        unsigned conditions = look_up(request, "If-Range", false, &value, &ignored);
        int64_t date;

        if (strcmp(request->method, "GET") != 0 || look_up(request, "Range", false, &range, &ignored) != 1 || conditions > 1) {
                return NULL;
        }
        return conditions == 0 || strcmp(value, TAG) == 0 ||
                               (look_up_date(request, "If-Range", validators, &date) && date == validators->modified)
                       ? range
                       : NULL;
}

static void
try_conditions(struct fuzz_input input)
{
        struct weir__validators validators = {.tag = TAG, .modified = 784111777, .now = 1700000000};
        struct weir__field fields[LINES];
        char *method = fuzz_string(fuzz_take_line(&input));
        struct weir__request request = {.method = method, .is_head = strcmp(method, "HEAD") == 0};

        take_fields(input, "If-None-Match", &request, fields);
        for (int dated = 0; dated < 2; dated++) {
                FUZZ_CHECK(weir__conditional_status(&request, &validators) == judge_conditions(&request, &validators));
                FUZZ_CHECK(weir__conditional_range(&request, &validators) == judge_if_range(&request, &validators));
                validators.modified = WEIR__NOT_DATED;
        }
        free_fields(&request);
        free(method);
}

/* -- codings -- */

/* In thousandths; 0 for an invalid one. */
static int
weight_of(struct fuzz_input text)
{
        static const char shapes[][6] = {"0", "0.", "0.d", "0.dd", "0.ddd", "1", "1.", "1.0", "1.00", "1.000"};
        char *string = fuzz_string(text);
        int weight = 0;

        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                bool fits = text.size == strlen(shapes[i]);

                for (size_t k = 0; fits && k < text.size; k++) {
                        fits = shapes[i][k] == 'd' ? text.at[k] >= '0' && text.at[k] <= '9' : text.at[k] == shapes[i][k];
                }
                weight = fits ? (int)(1000 * strtod(string, NULL) + 0.5) : weight;
        }
        free(string);
        return weight;
}

static void
try_codings(struct fuzz_input input)
{
        struct weir__field fields[LINES];
        struct weir__request request = {.method = "GET"};
        int gzip = -1, identity = -1, other = -1;
        struct fuzz_input member;

        take_fields(input, "Accept-Encoding", &request, fields);
        for (uint32_t i = 0; i < request.field_count; i++) {
                struct fuzz_input list = {fields[i].value, strlen(fields[i].value)};

                while (take_member(&list, &member)) {
                        bool has_weight = memchr(member.at, ';', member.size) != NULL;
                        struct fuzz_input name = fuzz_trim(fuzz_take_until(&member, ';')), text = fuzz_trim(member);
                        bool is_weight = text.size > 2 && (*text.at | 0x20) == 'q' && text.at[1] == '=';
                        int weight = !has_weight ? 1000
                                     : is_weight ? weight_of((struct fuzz_input){text.at + 2, text.size - 2})
                                                 : 0;

                        if (fuzz_is_in_any_case(name, "gzip") || fuzz_is_in_any_case(name, "x-gzip")) {
                                gzip = weight;
                        } else if (fuzz_is_in_any_case(name, "identity")) {
                                identity = weight;
                        } else if (fuzz_is(name, "*")) {
                                other = weight;
                        }
                }
        }
        gzip = gzip < 0 ? other : gzip;
        FUZZ_CHECK(weir__compress_accepts_gzip(&request) == (gzip > 0 && gzip >= identity));
        free_fields(&request);
}

/* -- names of files -- */

/* A type depends on what is behind the last dot of the last part of a path, in any case, and is one. */
static void
try_name(struct fuzz_input input)
{
        char *text = fuzz_string(input), *other = malloc(strlen(text) + 3);
        const char *type = weir__mime_type(text), *slash = strchr(type, '/');

        FUZZ_CHECK(fuzz_is_token((struct fuzz_input){type, slash ? (size_t)(slash - type) : 0}));
        FUZZ_CHECK(strspn(type, "abcdefghijklmnopqrstuvwxyz0123456789/-.+; =UTF") == strlen(type) || strstr(type, "charset"));
        sprintf(other, "./%s", text);
        FUZZ_CHECK(strcmp(weir__mime_type(other), type) == 0);
        for (char *at = other; *at; at++) {
                *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
        }
        FUZZ_CHECK(strcmp(weir__mime_type(other), type) == 0);
        sprintf(other, "%s/", text);
        FUZZ_CHECK(strcmp(weir__mime_type(other), "application/octet-stream") == 0);
        free(text);
        free(other);
}

/* Whether a type is worth compressing does not depend on its parameters, nor on its case. */
static void
try_type(struct fuzz_input input)
{
        char *text = fuzz_string(input), *other = malloc(strlen(text) + 4);
        bool is_compressible = weir__mime_is_compressible(text, strlen(text));

        sprintf(other, "%s;+b", text);
        for (char *at = other; *at; at++) {
                *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
        }
        FUZZ_CHECK(weir__mime_is_compressible(other, strlen(other)) == is_compressible);
        text[strcspn(text, "; \t")] = '\0';
        FUZZ_CHECK(weir__mime_is_compressible(text, strlen(text)) == is_compressible);
        FUZZ_CHECK(strncasecmp(text, "text/", 5) != 0 ||
                   is_compressible == (text[5] && strcasecmp(text, "text/event-stream") != 0));
        free(text);
        free(other);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = fuzz_input(data, size);

        switch (fuzz_take_byte(&input)) {
        case 'r': try_range(input); break;
        case 'd': try_date(input); break;
        case 'e': try_tags(input); break;
        case 'c': try_conditions(input); break;
        case 'a': try_codings(input); break;
        case 'n': try_name(input); break;
        default: try_type(input); break;
        }
        return 0;
}
