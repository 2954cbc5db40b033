/* bench/peers/curl.c: requests one after another on each of so many connections, by libcurl's multi interface and epoll.
 *
 *     peer-curl URL CONNECTIONS MILLISECONDS
 *
 * Prints the requests, the CPU nanoseconds and the wall nanoseconds of the time after the first tenth, and the failures.
 *
 * Threads: one. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "bench.h"

static int epoll;
static CURLM *multi;
static int64_t wake_at = INT64_MAX;
static long long requests, failed;

static size_t
drop(char *data, size_t size, size_t count, void *context)
{
        (void)data;
        (void)context;
        return size * count;
}

static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
        struct epoll_event event = {.data.fd = fd};

        (void)easy;
        (void)context;
        if (what == CURL_POLL_REMOVE)
                return epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
        event.events = (what & CURL_POLL_IN ? EPOLLIN : 0U) | (what & CURL_POLL_OUT ? EPOLLOUT : 0U);
        epoll_ctl(epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
        curl_multi_assign(multi, fd, &epoll);
        return 0;
}

static int
on_timer(CURLM *unused, long milliseconds, void *context)
{
        (void)unused;
        (void)context;
        wake_at = milliseconds < 0 ? INT64_MAX : bench_now() + milliseconds * 1000000;
        return 0;
}

static void
take_ended(void)
{
        int left;
        CURLMsg *message;

        while ((message = curl_multi_info_read(multi, &left))) {
                CURL *easy = message->easy_handle;

                requests += message->data.result == CURLE_OK;
                failed += message->data.result != CURLE_OK;
                curl_multi_remove_handle(multi, easy);
                curl_multi_add_handle(multi, easy);
        }
}

static void
run_until(int64_t until)
{
        struct epoll_event events[256];
        int running;

        while (bench_now() < until) {
                int64_t now = bench_now(), first = wake_at < until ? wake_at : until;
                int count = epoll_wait(epoll, events, 256, first <= now ? 0 : (int)((first - now) / 1000000) + 1);

                for (int i = 0; i < count; i++)
                        curl_multi_socket_action(multi, events[i].data.fd,
                                                 (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? CURL_CSELECT_IN : 0) |
                                                         (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0),
                                                 &running);
                if (bench_now() >= wake_at) {
                        wake_at = INT64_MAX;
                        curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
                }
                take_ended();
        }
}

int
main(int argc, char *argv[])
{
        int connections = argc > 3 ? atoi(argv[2]) : 0;
        int64_t whole = argc > 3 ? atoll(argv[3]) * 1000000 : 0;

        curl_global_init(CURL_GLOBAL_DEFAULT);
        multi = curl_multi_init();
        epoll = epoll_create1(EPOLL_CLOEXEC);
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)connections);
        curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)connections);
        for (int i = 0; i < connections; i++) {
                CURL *easy = curl_easy_init();

                curl_easy_setopt(easy, CURLOPT_URL, argv[1]);
                curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
                curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
                curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
                curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
                curl_multi_add_handle(multi, easy);
        }
        run_until(bench_now() + whole / 10);
        long long before = requests;
        int64_t cpu = bench_cpu(), began = bench_now();
        run_until(began + whole);
        printf("%lld %lld %lld %lld\n", requests - before, (long long)(bench_cpu() - cpu), (long long)(bench_now() - began),
               failed);
        return 0;
}
