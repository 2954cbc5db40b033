/* rate-limiter.cpp: ten requests a second for each client, and a report every night, in C++.
 *
 *     rate-limiter [address [proxies]]           default 127.0.0.1:8888
 *
 * Each client has a bucket of ten tokens, which is filled by ten a second.  A request takes one; without one it is answered 429.
 * A bucket has the client's name, and is forgotten when it is full again.  At midnight a cron job says how many were refused.
 * Behind a proxy all clients would share one bucket: `proxies` are the addresses that are trusted to name their clients.
 *
 * The headers work from C++ as they are.  A callback is a function and a pointer; a lambda that captures nothing is one, too. */
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>

#include <weir/weir.h>

static std::atomic<unsigned> refused; /* since the last report */

/* They are extern "C" for test/examples/rate_limiter_test.c only. */
extern "C" void on_request(weir_task *exchange, void *)
{
        std::string name = std::string("client/") + weir_http_client_address(exchange);
        weir_rate *rate = weir_rate_open(name.c_str(), 10, WEIR_SEC(1), 10);
        int result = weir_rate_try_take(rate, 1);
        weir_nsec delay = weir_rate_delay(rate, 1);

        weir_rate_unref(rate);
        if (result == 0) {
                weir_http_reply_text(exchange, 200, "hello\n");
        } else if (result == -EAGAIN) {
                refused++;
                weir_http_reply_header(exchange, "Retry-After", std::to_string((delay + WEIR_SEC(1) - 1) / WEIR_SEC(1)).c_str());
                weir_http_reply_text(exchange, 429, "slowly, please\n");
        } else {
                weir_http_reply_text(exchange, 503, "out of memory\n");
        }
}

extern "C" int start_report(const char *zone)
{
        auto report = [](weir_task *ticker, void *) {
                if (weir_ticker_is_tick(ticker)) /* otherwise it has ended */
                        std::printf("%u requests were refused\n", refused.exchange(0));
        };

        return weir_task_start(weir_ticker_new_at_named("report", "@daily", zone, report, nullptr));
}

int main(int argc, char *argv[])
{
        weir_http_server_config config = WEIR_HTTP_SERVER_CONFIG_DEFAULT;
        int result = start_report(nullptr);

        config.trusted_proxies = argc > 2 ? argv[2] : nullptr;
        if (result == 0)
                result = weir_http_serve_with(&config, argc > 1 ? argv[1] : "127.0.0.1:8888", on_request, nullptr);
        if (result < 0)
                std::fprintf(stderr, "rate-limiter: %s\n", weir_strerror(result));
        weir_shutdown();
        return result != 0;
}
