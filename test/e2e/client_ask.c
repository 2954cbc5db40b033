/* test/e2e/client_ask.c: a client of HTTP that a script tells what to ask, and what must come.
 *
 *     client_ask http://HOST:PORT [connections=N] [jar] [proxy=URL] <<'END'
 *     GET /page => 200 hello
 *     PUT /echo body=1048576 Content-Type:a/b show=ETag => 200 "1" pattern 1048576
 *     GET /many times=2000 beside=16 pause=10 => 200 hello
 *     CALL POST /echo body=100000 piece=4096 => 200 pattern 100000
 *     CALL GET /slow release=/go => 200 one|two
 *     UPGRADE /shout hello => 101 HELLO
 *     sleep 100
 *     stats => replayed 0 failed 0
 *     END
 *
 * All lines are of one client.  What must come is a pattern of fnmatch(3), and is compared with the status of HTTP, the fields
 * of `show`, and the body: its text, whose lines end with "|", or "pattern SIZE" if it is what body=SIZE sends.  When the request
 * has failed it is compared with the name of the status, and the problem.  `%20` in a value is a space.
 *
 *     times=N beside=M pause=MS   N requests by M lanes; each lane pauses before each, the lane of number i for 1 ms more or less
 *     body=N, file=PATH           the request's body
 *     redirects=N idempotent encoded=NAME (the field Accept-Encoding)
 *     piece=N                     of a CALL: the body goes out in pieces of N bytes; in chunks, unless `length` is there
 *     release=PATH                of a CALL: asked for behind each piece that comes
 *
 * Prints each line that has another answer.  The exit status is 1 then. */
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#define PATTERN_MAX (16 << 20)
#define ANSWER_MAX  1024
#define FIELDS_MAX  8
#define LIMIT       WEIR_SEC(50) /* of a request: what never comes is told, and does not hang */

struct line {
        char *method, *target, *expected;
        char *names[FIELDS_MAX], *values[FIELDS_MAX], *shown[FIELDS_MAX];
        unsigned fields, shows, redirects;
        size_t body, piece;
        bool has_body, has_length, is_idempotent;
        const char *file, *release;
        unsigned times, beside, pause;
        _Atomic int left;
        _Atomic unsigned wrong;
        sem_t over;
};

static const char *base;
static weir_client *client;
static char *pattern; /* letters, whose order does not repeat within any size that a buffer has */
static bool has_failed;

static char *
url_of(const char *target)
{
        static _Thread_local char url[1024];

        snprintf(url, sizeof url, "%s%s", strstr(target, "://") ? "" : base, target);
        return url;
}

/* Each answer that is another one is wrong; the first five of a line are told. */
static void
judge(struct line *line, const char *answer)
{
        if (fnmatch(line->expected, answer, 0) != 0 && atomic_fetch_add(&line->wrong, 1) < 5)
                printf("%s %s: \"%s\", not \"%s\"\n", line->method, line->target, answer, line->expected);
}

static void
add(char *answer, const char *text)
{
        size_t used = strlen(answer);

        snprintf(answer + used, ANSWER_MAX - used, "%s%s", used ? " " : "", text);
}

static void
add_body(char *answer, const char *body, size_t size)
{
        char text[ANSWER_MAX];

        if (size > 100) {
                snprintf(text, sizeof text, "%s %zu",
                         size <= PATTERN_MAX && memcmp(body, pattern, size) == 0 ? "pattern" : "bytes", size);
        } else {
                snprintf(text, sizeof text, "%.*s", (int)size, body);
                for (char *end = text; (end = strchr(end, '\n')); end++)
                        *end = '|';
        }
        if (size)
                add(answer, text);
}

static void
add_failure(char *answer, int status, const char *problem)
{
        add(answer, weir_strstatus(status));
        add(answer, problem ? problem : "without a problem");
}

/* -- requests -- */

struct lane {
        struct line *line;
        unsigned number;
};

static void go_on(weir_series *series, struct lane *lane);

static void
answered(weir_task *request, void *context)
{
        struct lane *lane = context;
        char answer[ANSWER_MAX] = "", code[16];
        size_t size;
        const char *body = weir_http_response_body(request, &size);

        snprintf(code, sizeof code, "%d", weir_http_response_status(request));
        if (weir_task_status(request)) {
                add_failure(answer, weir_task_status(request), weir_http_problem(request));
        } else {
                add(answer, code);
                for (unsigned i = 0; i < lane->line->shows; i++) {
                        const char *value = weir_http_response_header(request, lane->line->shown[i]);

                        add(answer, value ? value : "-");
                }
                add_body(answer, body, size);
        }
        judge(lane->line, answer);
        go_on(weir_series_of(request), lane);
}

static weir_task *
request_new(struct lane *lane)
{
        struct line *line = lane->line;
        weir_task *request = weir_client_request_new(client, line->method, url_of(line->target), answered, lane);

        weir_http_request_set_limit(request, WEIR_HTTP_LIMIT_WHOLE, LIMIT);
        for (unsigned i = 0; i < line->fields; i++)
                weir_http_request_add_header(request, line->names[i], line->values[i]);
        if (line->redirects)
                weir_http_request_set_redirects(request, line->redirects);
        if (line->is_idempotent)
                weir_http_request_set_idempotent(request, true);
        if (line->has_body)
                weir_http_request_lend_body(request, pattern, line->body, NULL);
        if (line->file) {
                int file = open(line->file, O_RDONLY | O_CLOEXEC); /* is open until the process ends */

                weir_http_request_set_body_file(request, file, 0, UINT64_MAX, NULL);
        }
        return request;
}

static void
go_on(weir_series *series, struct lane *lane)
{
        weir_nsec pause = WEIR_MSEC(lane->line->pause);

        if (atomic_fetch_sub(&lane->line->left, 1) <= 0)
                return;
        if (pause)
                pause += WEIR_USEC(100) * ((int)(lane->number % 21) - 10);
        if (pause)
                weir_series_push(series, weir_timer_new(pause, NULL, NULL));
        weir_series_push(series, request_new(lane));
}

static void
lane_over(weir_series *series, void *context)
{
        (void)series;
        sem_post(context);
}

static void
wait_for(sem_t *over)
{
        while (sem_wait(over))
                continue;
}

static void
ask(struct line *line)
{
        struct lane *lanes = calloc(line->beside, sizeof *lanes);

        atomic_store(&line->left, (int)line->times);
        for (unsigned i = 0; i < line->beside; i++) {
                weir_series *series = weir_series_new(lane_over, &line->over);

                lanes[i] = (struct lane){line, i};
                go_on(series, &lanes[i]);
                if (weir_series_start(series))
                        exit(2);
        }
        for (unsigned i = 0; i < line->beside; i++)
                wait_for(&line->over);
        free(lanes);
}

/* -- calls: each task is waited for -- */

struct piece {
        int status;
        char *data;
        size_t size;
        char problem[512];
        bool has_problem;
};

static void
keep_piece(weir_task *read, void *context)
{
        struct piece *piece = context;
        const void *data = weir_http_call_data(read, &piece->size);

        piece->status = weir_task_status(read);
        piece->data = data && piece->size ? memcpy(malloc(piece->size), data, piece->size) : NULL;
        if (!data)
                piece->size = 0;
}

static void
released(weir_task *request, void *context)
{
        *(int *)context = weir_task_status(request) ? weir_task_status(request) : weir_http_response_status(request);
}

static int
write_body(weir_http_call *call, const struct line *line)
{
        int status = 0;

        for (size_t at = 0; !status && at < line->body; at += line->piece) {
                size_t size = line->body - at < line->piece ? line->body - at : line->piece;

                status = weir_task_run(weir_http_call_write_new(call, pattern + at, size, NULL, NULL));
        }
        return status ? status : weir_task_run(weir_http_call_finish_new(call, NULL, NULL));
}

/* Pieces are told apart by "|" when something is asked for in between. */
static int
read_body(weir_http_call *call, const struct line *line, char **body, size_t *size)
{
        struct piece piece;

        do {
                int code = 200;

                weir_task_run(weir_http_call_read_new(call, keep_piece, &piece));
                *body = realloc(*body, *size + piece.size + 1);
                if (piece.size)
                        memcpy(*body + *size, piece.data, piece.size);
                *size += piece.size;
                free(piece.data);
                if (line->release && piece.size) {
                        (*body)[(*size)++] = '|';
                        weir_task_run(weir_client_request_new(client, "GET", url_of(line->release), released, &code));
                }
                if (code != 200)
                        printf("%s: %d\n", line->release, code);
        } while (!piece.status && piece.size);
        return piece.status;
}

static void
call(struct line *line)
{
        char answer[ANSWER_MAX] = "", code[16], *body = NULL;
        size_t size = 0;
        weir_http_call *one = weir_http_call_new(client, line->method, url_of(line->target));

        weir_http_call_set_limit(one, WEIR_HTTP_LIMIT_WHOLE, LIMIT);
        for (unsigned i = 0; i < line->fields; i++)
                weir_http_call_add_header(one, line->names[i], line->values[i]);
        if (line->has_length)
                weir_http_call_set_length(one, line->body);
        int written = line->has_body ? write_body(one, line) : 0;
        int status = weir_task_run(weir_http_call_head_new(one, NULL, NULL));
        if (!status) {
                snprintf(code, sizeof code, "%d", weir_http_call_status(one));
                add(answer, code);
                for (unsigned i = 0; i < line->shows; i++) {
                        const char *value = weir_http_call_header(one, line->shown[i]);

                        add(answer, value ? value : "-");
                }
                if (written)
                        add(answer, weir_strstatus(written));
                status = read_body(one, line, &body, &size);
        }
        if (status)
                add_failure(answer, status, weir_http_call_problem(one));
        else
                add_body(answer, body, size);
        free(body);
        weir_http_call_unref(one);
        judge(line, answer);
}

/* -- another protocol: a word goes there, and one of its size comes back -- */

static void
keep_echo(weir_task *read, void *context)
{
        size_t size;
        const char *data = weir_stream_data(read, &size);

        snprintf(context, 256, "%.*s", (int)size, data);
}

static void
upgrade(struct line *line, const char *word)
{
        char answer[ANSWER_MAX] = "", echo[256] = "", code[16];
        weir_http_call *one = weir_http_call_new(client, "GET", url_of(line->target));

        weir_http_call_set_upgrade(one, "shout");
        int status = weir_task_run(weir_http_call_head_new(one, NULL, NULL));
        weir_stream *stream = weir_http_call_take_stream(one);
        snprintf(code, sizeof code, "%d", weir_http_call_status(one));
        if (status)
                add_failure(answer, status, weir_http_call_problem(one));
        else
                add(answer, code);
        if (stream) {
                weir_task_run(weir_stream_write_new(stream, word, strlen(word), NULL, NULL));
                status = weir_task_run(weir_stream_read_new(stream, strlen(word), strlen(word), keep_echo, echo));
                add(answer, status ? weir_strstatus(status) : echo);
        }
        weir_stream_unref(stream);
        weir_http_call_unref(one);
        judge(line, answer);
}

static void
tell_stats(struct line *line)
{
        struct weir_client_stats stats = WEIR_CLIENT_STATS_DEFAULT;
        char answer[ANSWER_MAX];

        weir_client_stats(client, &stats);
        snprintf(answer, sizeof answer, "connections %u idle %u reused %llu replayed %llu failed %llu", stats.connections,
                 stats.idle, (unsigned long long)stats.reused, (unsigned long long)stats.replayed,
                 (unsigned long long)stats.failed);
        judge(line, answer);
}

/* -- lines -- */

static void
unquote(char *text)
{
        for (char *space; (space = strstr(text, "%20")); text = space + 1) {
                *space = ' ';
                memmove(space + 1, space + 3, strlen(space + 3) + 1);
        }
}

/* The value of a word "name=value"; or NULL. */
static char *
value_of(char *word, const char *name)
{
        size_t size = strlen(name);

        return strncmp(word, name, size) == 0 && word[size] == '=' ? word + size + 1 : NULL;
}

static void
take_word(struct line *line, char *word)
{
        char *value;

        if ((value = value_of(word, "body")))
                line->has_body = true, line->body = strtoul(value, NULL, 10);
        else if ((value = value_of(word, "file")))
                line->file = value;
        else if ((value = value_of(word, "piece")))
                line->piece = strtoul(value, NULL, 10);
        else if ((value = value_of(word, "release")))
                line->release = value;
        else if ((value = value_of(word, "redirects")))
                line->redirects = (unsigned)atoi(value);
        else if ((value = value_of(word, "times")))
                line->times = (unsigned)atoi(value);
        else if ((value = value_of(word, "beside")))
                line->beside = (unsigned)atoi(value);
        else if ((value = value_of(word, "pause")))
                line->pause = (unsigned)atoi(value);
        else if ((value = value_of(word, "show")))
                line->shown[line->shows++] = value;
        else if (strcmp(word, "idempotent") == 0)
                line->is_idempotent = true;
        else if (strcmp(word, "length") == 0)
                line->has_length = true;
        else if ((value = strchr(word, ':'))) {
                *value++ = '\0';
                unquote(value);
                line->names[line->fields] = word;
                line->values[line->fields++] = value;
        } else {
                printf("what is %s?\n", word);
                has_failed = true;
        }
}

static void
obey(char *text)
{
        struct line line = {.expected = strstr(text, " => "), .times = 1, .beside = 1, .piece = 65536};
        char *rest = text;

        text[strcspn(text, "\n")] = '\0';
        sem_init(&line.over, 0, 0);
        if (line.expected) {
                *line.expected = '\0';
                line.expected += 4;
        }
        char *kind = line.method = strsep(&rest, " ");
        if (strcmp(kind, "CALL") == 0)
                line.method = strsep(&rest, " ");
        line.target = rest ? strsep(&rest, " ") : "";
        if (strcmp(kind, "UPGRADE") == 0) {
                upgrade(&line, rest);
        } else if (strcmp(kind, "sleep") == 0) {
                usleep((useconds_t)atoi(line.target) * 1000);
        } else if (strcmp(kind, "stats") == 0) {
                tell_stats(&line);
        } else {
                for (char *word; (word = strsep(&rest, " "));)
                        if (*word)
                                take_word(&line, word);
                if (strcmp(kind, "CALL") == 0)
                        call(&line);
                else
                        ask(&line);
        }
        has_failed |= atomic_load(&line.wrong) > 0;
        if (atomic_load(&line.wrong) > 1)
                printf("%s %s: %u of %u are wrong\n", line.method, line.target, atomic_load(&line.wrong), line.times);
        sem_destroy(&line.over);
}

int
main(int argc, char *argv[])
{
        struct weir_client_config config = WEIR_CLIENT_CONFIG_DEFAULT;
        char text[1024];

        if (argc < 2)
                return 2;
        base = argv[1];
        for (int i = 2; i < argc; i++) {
                if (strcmp(argv[i], "jar") == 0)
                        config.cookies = weir_cookie_jar_new();
                else if (strncmp(argv[i], "connections=", 12) == 0)
                        config.connections = (unsigned)atoi(argv[i] + 12);
                else if (strncmp(argv[i], "proxy=", 6) == 0)
                        config.proxy = argv[i] + 6;
                else
                        return 2;
        }
        pattern = malloc(PATTERN_MAX);
        for (uint64_t i = 0; i < PATTERN_MAX; i++)
                pattern[i] = (char)('a' + (i * i + i / 251) % 23);
        setvbuf(stdout, NULL, _IOLBF, 0);
        client = weir_client_new(&config);
        while (fgets(text, sizeof text, stdin))
                if (*text != '#' && *text != '\n')
                        obey(text);
        weir_client_unref(client);
        weir_cookie_jar_unref(config.cookies);
        free(pattern);
        return weir_shutdown() != 0 || has_failed;
}
