/* 22-lines.c: protocols of lines: an echo, and a mail server that takes mail and prints it.
 *
 *     22-lines echo [address]               default 127.0.0.1:7778
 *     22-lines mail [address]
 *
 * A message is a line, which ends with CR LF.  An echo needs a description and four lines.  The mail server speaks a small part
 * of SMTP: HELO, MAIL FROM, RCPT TO, DATA, QUIT.  It shows what a dialogue needs:
 *
 *   - a greeting before the first message: a task that writes, before the one that serves
 *   - a state for each connection, which is the context of the session
 *   - lines that want no reply: those of the mail
 *   - an end: QUIT is answered, and then the connection is closed
 *
 * Messages of a connection are handled one at a time, because `depth` is 1.  So its state needs no lock.
 *
 * Try it:  22-lines mail &
 *          printf 'HELO me\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nHi.\r\n.\r\nQUIT\r\n' | nc -C 127.0.0.1 7778
 *
 * Ctrl-C stops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <weir/weir.h>

static const struct weir_protocol lines = {
        .size = sizeof lines,
        .delimiter = "\r\n",
        .delimiter_size = 2,
        .bare = 1,           /* the program sees the line without it */
        .max_message = 1000, /* a longer line breaks the connection */
        .idle_limit = WEIR_SEC(300),
};

/* -- an echo -- */

static void echo(weir_task *message, void *context)
{
        size_t size;
        const char *line = weir_message_data(message, &size);

        (void)context;
        weir_message_reply(message, line, size);
}

static void on_echo_connection(weir_stream *stream, weir_series *series, void *context)
{
        weir_series_push(series, weir_protocol_serve_new(stream, &lines, echo, NULL, context));
}

/* -- mail -- */

struct dialogue {
        char from[256], to[256];
        int is_data; /* the lines that come are those of the mail */
        char text[16384];
        size_t size;
};

static struct dialogue *dialogue_of(weir_task *message)
{
        weir_session *session = weir_message_session(message);
        struct dialogue *dialogue = weir_session_context(session);

        if (!dialogue && (dialogue = calloc(1, sizeof *dialogue)))
                weir_session_set_context(session, dialogue, free);
        return dialogue;
}

/* Returns what is behind the word that the line begins with; NULL: it begins with another. */
static const char *behind(const char *line, const char *word)
{
        return strncasecmp(line, word, strlen(word)) == 0 ? line + strlen(word) : NULL;
}

static const char *take_line_of_mail(struct dialogue *dialogue, const char *line)
{
        if (strcmp(line, ".") == 0) {
                printf("from %s to %s:\n%.*s", dialogue->from, dialogue->to, (int)dialogue->size, dialogue->text);
                fflush(stdout);
                *dialogue = (struct dialogue){.size = 0};
                return "250 taken";
        }
        line += line[0] == '.'; /* the client has put a point before a line that begins with one */
        size_t room = sizeof dialogue->text - dialogue->size;
        int size = snprintf(dialogue->text + dialogue->size, room, "%s\n", line);
        if ((size_t)size < room)
                dialogue->size += (size_t)size; /* what is too much is left out */
        return NULL;
}

static const char *command(struct dialogue *dialogue, const char *line)
{
        const char *rest;

        if ((rest = behind(line, "MAIL FROM:"))) {
                snprintf(dialogue->from, sizeof dialogue->from, "%s", rest);
                return "250 ok";
        }
        if ((rest = behind(line, "RCPT TO:"))) {
                snprintf(dialogue->to, sizeof dialogue->to, "%s", rest);
                return dialogue->from[0] ? "250 ok" : "503 MAIL first";
        }
        if (behind(line, "DATA")) {
                dialogue->is_data = dialogue->to[0] != '\0';
                return dialogue->is_data ? "354 end with a point" : "503 RCPT first";
        }
        return behind(line, "HELO") || behind(line, "NOOP") ? "250 hello" : "500 unknown";
}

static void on_line(weir_task *message, void *context)
{
        const char *line = weir_message_data(message, NULL), *reply;
        struct dialogue *dialogue = dialogue_of(message);

        (void)context;
        if (!dialogue) {
                reply = "451 no memory";
        } else if (dialogue->is_data) {
                reply = take_line_of_mail(dialogue, line);
        } else if (behind(line, "QUIT")) {
                reply = "221 bye";
                weir_session_close(weir_message_session(message)); /* behind the reply */
        } else {
                reply = command(dialogue, line);
        }
        if (reply)
                weir_message_reply(message, reply, strlen(reply));
}

static void on_mail_connection(weir_stream *stream, weir_series *series, void *context)
{
        weir_series_push(series, weir_stream_write_new(stream, "220 hello\r\n", 11, NULL, NULL));
        weir_series_push(series, weir_protocol_serve_new(stream, &lines, on_line, NULL, context));
}

int main(int argc, char *argv[])
{
        const char *what = argc > 1 ? argv[1] : "", *address = argc > 2 ? argv[2] : "127.0.0.1:7778";
        int is_echo = strcmp(what, "echo") == 0;

        if (!is_echo && strcmp(what, "mail") != 0) {
                fputs("usage: 22-lines echo|mail [address]\n", stderr);
                return 2;
        }
        int failed = weir_stream_serve(address, is_echo ? on_echo_connection : on_mail_connection, NULL);
        if (failed < 0)
                fprintf(stderr, "cannot serve at %s: %s\n", address, weir_strerror(failed));
        return failed != 0;
}
