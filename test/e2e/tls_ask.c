/* test/e2e/tls_ask.c: a client of TLS that asks a server several times, one connection after the other.
 *
 *     tls_ask ADDRESS NAME COUNT [ca=FILE] [pins=TEXT] [protocols=TEXT] [certificate=FILE] [key=FILE] [min=1.3] [insecure]
 *
 * Prints a line for each connection: "0 new", "0 resumed", or the name of a status and its problem.  The server has to answer a
 * GET with a byte at least. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

static const char request[] = "GET / HTTP/1.0\r\nHost: server.example\r\n\r\n";

static sem_t over;
static weir_stream *stream;

static void
end(int status, const char *problem)
{
        char protocol[32] = "";

        if (status)
                printf("%s %s\n", weir_strstatus(status), problem);
        else if (weir_stream_protocol(stream, protocol, sizeof protocol) < 0)
                printf("0 %s\n", weir_stream_is_resumed(stream) ? "resumed" : "new");
        else
                printf("0 %s %s\n", weir_stream_is_resumed(stream) ? "resumed" : "new", protocol);
        weir_stream_unref(stream);
        stream = NULL;
        sem_post(&over);
}

static void
answered(weir_task *read, void *nothing)
{
        (void)nothing;
        end(weir_task_status(read), weir_strerror(weir_task_status(read)));
}

static void
connected(weir_task *connect, void *nothing)
{
        (void)nothing;
        stream = weir_connect_take_stream(connect);
        if (!stream) {
                end(weir_task_status(connect), weir_connect_problem(connect));
                return;
        }
        weir_series_push(weir_series_of(connect), weir_stream_write_new(stream, request, sizeof request - 1, NULL, NULL));
        weir_series_push(weir_series_of(connect), weir_stream_read_new(stream, 1, 4096, answered, NULL));
}

static void
take_word(struct weir_tls_config *config, const char *word)
{
        const struct {
                const char *name;
                const char **text;
        } fields[] = {
                {"ca=", &config->ca_file},           {"pins=", &config->pins},
                {"protocols=", &config->protocols},  {"certificate=", &config->certificate_file},
                {"key=", &config->private_key_file}, {"min=", &config->min_version},
        };

        config->insecure |= strcmp(word, "insecure") == 0;
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                if (strncmp(word, fields[i].name, strlen(fields[i].name)) == 0)
                        *fields[i].text = word + strlen(fields[i].name);
}

int
main(int argc, char *argv[])
{
        struct weir_tls_config config = WEIR_TLS_CONFIG_DEFAULT;

        if (argc < 4)
                return 2;
        for (int i = 4; i < argc; i++)
                take_word(&config, argv[i]);
        sem_init(&over, 0, 0);
        weir_tls *tls = weir_tls_client_new(&config);
        for (int count = atoi(argv[3]); count > 0; count--) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_connect_tls_new(argv[1], tls, argv[2], connected, NULL));
                if (weir_series_start(series))
                        return 1;
                while (sem_wait(&over))
                        continue;
        }
        weir_tls_unref(tls);
        return weir_shutdown() != 0;
}
