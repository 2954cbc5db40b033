/* test/testing_guide_test.c: the examples of docs/testing-your-flows.md, which quotes them word for word. */
#include "test/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#define DAY WEIR_SEC(86400)

static void
begin(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        CU_ASSERT_FATAL(weir_init(&config) == 0);
}

static void
end(void)
{
        CU_ASSERT_FATAL(weir_shutdown() == 0);
}

/* -- steps -- */

struct reminders {
        int count;
        weir_nsec last;
};

static void
remind(weir_task *timer, void *context)
{
        struct reminders *reminders = context;

        if (weir_task_status(timer) != 0)
                return; /* called off, or shut down */
        reminders->count++;
        reminders->last = weir_now();
        weir_task_start(weir_timer_new_named("reminder", DAY, remind, reminders));
}

static void
a_year_of_reminders_that_ends_on_day_200(void)
{
        struct reminders reminders = {0};

        begin();
        weir_nsec began = weir_now();
        weir_task_start(weir_timer_new_named("reminder", DAY, remind, &reminders));

        CU_ASSERT(weir_clock_advance(200 * DAY) == 0);
        CU_ASSERT(reminders.count == 200 && reminders.last == began + 200 * DAY);

        CU_ASSERT(weir_timer_cancel("reminder", WEIR_ALL) == 1);
        CU_ASSERT(weir_clock_run_until(began + 365 * DAY) == 0);
        CU_ASSERT(reminders.count == 200);
        end();
}

struct letter {
        char *text; /* to which it is appended */
        char letter[2];
};

static void
append(weir_task *timer, void *context)
{
        const struct letter *letter = context;

        (void)timer;
        strcat(letter->text, letter->letter);
}

static void
append_and_start(weir_task *timer, void *context)
{
        static struct letter next;

        append(timer, context);
        next = (struct letter){((struct letter *)context)->text, "n"};
        weir_task_start(weir_timer_new(0, append, &next));
}

static void
timers_of_one_instant_run_in_the_order_of_start(void)
{
        char text[8] = "";
        struct letter w = {text, "w"}, h = {text, "h"}, e = {text, "e"};

        begin();
        /* It starts "n" for the same instant. */
        weir_task_start(weir_timer_new(WEIR_SEC(2), append_and_start, &e));
        weir_task_start(weir_timer_new(WEIR_SEC(1), append, &w));
        weir_task_start(weir_timer_new(WEIR_SEC(1), append, &h));
        CU_ASSERT(weir_clock_advance(WEIR_SEC(2)) == 0);
        CU_ASSERT_STRING_EQUAL(text, "when");
        end();
}

static void
set_flag(weir_task *task, void *flag)
{
        (void)task;
        *(bool *)flag = true;
}

static void
settling_takes_no_time(void)
{
        bool done = false;

        begin();
        weir_nsec began = weir_now();
        weir_task_start(weir_empty_new(set_flag, &done));
        CU_ASSERT(weir_clock_advance(0) == 0);
        CU_ASSERT(done && weir_now() == began);
        end();
}

/* -- by itself -- */

static void
a_run_takes_as_long_as_it_takes(void)
{
        begin();
        weir_nsec began = weir_now();
        weir_series *series = weir_series_new(NULL, NULL);
        weir_series_push(series, weir_timer_new(WEIR_SEC(3600), NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_SEC(1800), NULL, NULL));
        CU_ASSERT(weir_series_run(series) == 0);
        CU_ASSERT(weir_now() == began + WEIR_SEC(5400));
        end();
}

/* -- the wall -- */

static void
the_wall_clock_is_the_tests_to_set(void)
{
        begin();
        CU_ASSERT(weir_wall_now() == WEIR_WALL_EPOCH); /* 2000-01-01 00:00:00 UTC */
        weir_clock_advance(WEIR_SEC(90));
        CU_ASSERT(weir_wall_now() == WEIR_WALL_EPOCH + WEIR_SEC(90));

        weir_nsec began = weir_now();
        CU_ASSERT(weir_clock_set_wall(WEIR_WALL_EPOCH + DAY) == 0);
        CU_ASSERT(weir_wall_now() == WEIR_WALL_EPOCH + DAY && weir_now() == began);
        end();
}

/* -- threads of the program -- */

struct job {
        pthread_t thread;
        weir_nsec finished;
};

static void *
compute(void *context)
{
        struct job *job = context;

        weir_test_sleep(WEIR_MSEC(2)); /* stands for what takes long */
        job->finished = weir_now();
        weir_clock_release();
        return NULL;
}

static void
give_job_to_a_thread(weir_task *timer, void *context)
{
        struct job *job = context;

        (void)timer;
        weir_clock_hold(); /* before the callback ends: no time passes in between */
        pthread_create(&job->thread, NULL, compute, job);
}

static void
a_thread_that_works_for_a_flow_holds_the_clock(void)
{
        struct job job;

        begin();
        weir_nsec began = weir_now();
        weir_task_start(weir_timer_new(WEIR_SEC(10), give_job_to_a_thread, &job));
        CU_ASSERT(weir_clock_advance(DAY) == 0);
        pthread_join(job.thread, NULL);
        CU_ASSERT(job.finished == began + WEIR_SEC(10));
        end();
}

/* -- servers -- */

static void
reply_after_20_seconds(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "late\n");
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_SEC(20), NULL, NULL));
}

static int
connect_to(int port)
{
        struct sockaddr_in address = {
                .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        CU_ASSERT_FATAL(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
        return fd;
}

static const char request[] = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

static void
a_test_is_client_and_clock_of_its_server(void)
{
        struct weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        char reply[1024];

        begin();
        config.idle_timeout = WEIR_SEC(30);
        weir_http_server *server = weir_http_server_new(&config, reply_after_20_seconds, NULL);
        CU_ASSERT_FATAL(weir_http_server_start(server, "127.0.0.1:0") == 0);
        int fd = connect_to(weir_http_server_port(server));

        send(fd, request, sizeof request - 1, 0);
        weir_clock_advance(WEIR_SEC(20) - 1);
        CU_ASSERT(recv(fd, reply, sizeof reply, MSG_DONTWAIT) == -1);
        weir_clock_advance(1);
        CU_ASSERT(recv(fd, reply, sizeof reply, MSG_DONTWAIT) > 0);
        weir_clock_advance(WEIR_SEC(30) - 1);
        CU_ASSERT(recv(fd, reply, sizeof reply, MSG_DONTWAIT) == -1);
        weir_clock_advance(1);
        CU_ASSERT(recv(fd, reply, sizeof reply, MSG_DONTWAIT) == 0); /* idle for too long: closed */
        close(fd);
        weir_http_server_free(server);
        end();
}

struct client {
        pthread_t thread;
        weir_http_server *server;
        pthread_barrier_t begun;
        int replies;
        weir_nsec ended;
};

static void *
ask_ten_times(void *context)
{
        struct client *client = context;
        char reply[1024];

        weir_clock_hold();
        pthread_barrier_wait(&client->begun);
        int fd = connect_to(weir_http_server_port(client->server));
        for (int i = 0; i < 10; i++) {
                send(fd, request, sizeof request - 1, 0);
                weir_clock_release();
                /* Unread bytes keep time from jumping, so nothing gets lost in between. */
                poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
                weir_clock_hold();
                client->replies += recv(fd, reply, sizeof reply, 0) > 0;
        }
        close(fd);
        client->ended = weir_now();
        weir_clock_release();
        return NULL;
}

static void
a_client_of_its_own_holds_the_clock_while_it_thinks(void)
{
        struct client client = {0};

        begin();
        weir_nsec began = weir_now();
        client.server = weir_http_server_new(NULL, reply_after_20_seconds, NULL);
        CU_ASSERT_FATAL(weir_http_server_start(client.server, "127.0.0.1:0") == 0);
        pthread_barrier_init(&client.begun, NULL, 2);
        pthread_create(&client.thread, NULL, ask_ten_times, &client);
        pthread_barrier_wait(&client.begun);

        CU_ASSERT(weir_task_run(weir_timer_new(WEIR_SEC(600), NULL, NULL)) == 0);
        pthread_join(client.thread, NULL);
        CU_ASSERT(client.replies == 10 && client.ended == began + WEIR_SEC(200));

        pthread_barrier_destroy(&client.begun);
        weir_http_server_free(client.server);
        end();
}

/* -- functions -- */

struct asked {
        weir_nsec ended;
        int cause;
};

static void
note_end(weir_task *task, void *context)
{
        (void)task;
        ((struct asked *)context)->ended = weir_now();
}

/* Stands for a service that answers after five seconds. */
static void
ask_slow_service(void *context)
{
        struct asked *asked = context;

        weir_blocking_begin(); /* it waits, so time may pass */
        weir_task_run(weir_timer_new(WEIR_SEC(5), NULL, NULL));
        weir_blocking_end();
        asked->cause = weir_go_cancelled();
}

static void
a_function_that_waits_has_its_limit(void)
{
        struct asked asked = {0};

        begin();
        weir_nsec began = weir_now();
        weir_task *asks = weir_go_new_timed(NULL, WEIR_SEC(1), ask_slow_service, note_end, &asked);
        CU_ASSERT(weir_task_run(asks) == -ETIMEDOUT);
        CU_ASSERT(asked.ended == began + WEIR_SEC(1)); /* what the callback has seen */
        end();                                         /* waits for the function */
        CU_ASSERT(asked.cause == -ETIMEDOUT);
}

/* Computes for real, and for no virtual time. */
static void
compute_for_long(void *context)
{
        (void)context;
        weir_test_sleep(WEIR_MSEC(2));
}

static void
a_function_that_computes_takes_no_virtual_time(void)
{
        begin();
        weir_nsec began = weir_now();
        weir_task *task = weir_go_new_timed(NULL, WEIR_USEC(1), compute_for_long, NULL, NULL);
        CU_ASSERT(weir_task_run(task) == 0 && weir_now() == began);
        task = weir_go_new_timed(NULL, 0, compute_for_long, NULL, NULL);
        CU_ASSERT(weir_task_run(task) == -ETIMEDOUT && weir_now() == began);
        end();
}

/* -- misuse -- */

static void
misuse_is_an_error(void)
{
        begin();
        CU_ASSERT(weir_clock_advance(-1) == -EINVAL);
        CU_ASSERT(weir_clock_run_until(weir_now() - 1) == -EINVAL);
        weir_clock_hold();
        CU_ASSERT(weir_clock_advance(1) == -EDEADLK); /* it would wait for itself */
        weir_clock_release();
        end();

        CU_ASSERT_FATAL(weir_init(NULL) == 0);
        CU_ASSERT(weir_clock_advance(1) == -ENOTSUP); /* the real clock */
        end();
}

int
main(void)
{
        static const struct weir_test tests[] = {
                WEIR_TEST(a_year_of_reminders_that_ends_on_day_200),
                WEIR_TEST(timers_of_one_instant_run_in_the_order_of_start),
                WEIR_TEST(settling_takes_no_time),
                WEIR_TEST(a_run_takes_as_long_as_it_takes),
                WEIR_TEST(the_wall_clock_is_the_tests_to_set),
                WEIR_TEST(a_thread_that_works_for_a_flow_holds_the_clock),
                WEIR_TEST(a_test_is_client_and_clock_of_its_server),
                WEIR_TEST(a_client_of_its_own_holds_the_clock_while_it_thinks),
                WEIR_TEST(a_function_that_waits_has_its_limit),
                WEIR_TEST(a_function_that_computes_takes_no_virtual_time),
                WEIR_TEST(misuse_is_an_error),
        };

        return weir_test_main("testing_guide", tests, sizeof tests / sizeof *tests);
}
