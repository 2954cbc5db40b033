/* 28-gather.c: a server that asks several others, and answers with what the first two say, within a limit.
 *
 *     28-gather ADDRESS MILLISECONDS URL URL...
 *
 * The rest of the handler is a fiber.  It asks all servers at once, in a group, and receives what they answer.  Two answers are
 * enough: then it cancels the group, and no request is left when it replies.  The deadline holds for all that the fiber awaits,
 * and for its children.
 *
 * Try it:  17-hedged &
 *          28-gather 127.0.0.1:8889 1000 'http://127.0.0.1:8888/?first=20' 'http://127.0.0.1:8888/?first=30' &
 *          curl http://127.0.0.1:8889/ */
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

#define ENOUGH 2

static weir_nsec limit;
static char **urls;
static size_t url_count;

/* What one server is asked, and what it says. */
struct question {
        const char *url;
        weir_channel *answers; /* gets this question when there is an answer, or none will come */
        int failed;
        char *text;
        size_t size;
};

static int ask(void *context)
{
        struct question *question = context;
        weir_task *get = weir_http_get_new(question->url, NULL, NULL);

        question->failed = weir_await(get);
        question->text = weir_http_response_take_body(get, &question->size);
        return weir_fiber_send(question->answers, question);
}

/* Returns how many answers there are. */
static int ask_all(weir_task *exchange, struct question *questions, weir_channel *answers)
{
        weir_group *asked = weir_group_open();
        void *message;
        int count = 0;

        for (size_t i = 0; i < url_count; i++) {
                questions[i] = (struct question){.url = urls[i], .answers = answers};
                weir_group_start(asked, weir_fiber_new(ask, NULL, &questions[i]));
        }
        for (size_t i = 0; i < url_count && count < ENOUGH; i++) {
                if (weir_fiber_receive(answers, &message))
                        break; /* the deadline has come, or the client has gone */
                const struct question *question = message;

                if (question->failed)
                        continue;
                weir_http_reply_printf(exchange, "%s: ", question->url);
                weir_http_reply_append(exchange, question->text, question->size);
                count++;
        }
        weir_group_cancel(asked); /* whoever is slower */
        weir_group_close(asked);
        return count;
}

static int gather(void *context)
{
        weir_task *exchange = context;
        struct question *questions = calloc(url_count, sizeof *questions);
        weir_channel *answers = weir_channel_new(url_count, NULL);
        int count = 0;

        weir_series_set_deadline(weir_fiber_series(), limit);
        if (questions)
                count = ask_all(exchange, questions, answers);
        if (count < ENOUGH)
                weir_http_reply_text(exchange, 504, "too few answers\n");
        for (size_t i = 0; questions && i < url_count; i++)
                free(questions[i].text);
        free(questions);
        weir_channel_unref(answers);
        return 0;
}

static void on_request(weir_task *exchange, void *context)
{
        (void)context;
        weir_fiber_begin(exchange, gather, exchange);
}

int main(int argc, char *argv[])
{
        if (argc < 4) {
                fprintf(stderr, "usage: 28-gather address milliseconds url...\n");
                return 2;
        }
        limit = WEIR_MSEC(strtol(argv[2], NULL, 10));
        urls = argv + 3;
        url_count = (size_t)argc - 3;
        return weir_http_serve(argv[1], on_request, NULL) != 0;
}
