/* rate-limiter.cpp: ten requests a second for each client, and a report every night, in C++.
 *
 *     rate-limiter [address]           default 127.0.0.1:8888
 *
 * Each client has a bucket of ten tokens, which is filled by ten a second.  A request takes one; without one it is answered 429.
 * At midnight a cron job says how many were, and forgets the clients whose buckets are full again.
 *
 * The headers work from C++ as they are.  A callback is a function and a pointer; a lambda that captures nothing is one, too. */
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <weir/weir.h>

namespace {

constexpr double burst = 10, per_second = 10;

class Limiter {
      public:
        bool take(const std::string &client)
        {
                std::lock_guard<std::mutex> guard(mutex);
                Bucket &bucket = buckets.try_emplace(client, Bucket{burst, weir_now()}).first->second;

                fill(bucket);
                if (bucket.tokens < 1) {
                        refused++;
                        return false;
                }
                bucket.tokens--;
                return true;
        }

        /* Forgets clients whose buckets are full.  Returns how many requests were refused since the last time. */
        unsigned clean()
        {
                std::lock_guard<std::mutex> guard(mutex);

                for (auto each = buckets.begin(); each != buckets.end();) {
                        fill(each->second);
                        each = each->second.tokens < burst ? std::next(each) : buckets.erase(each);
                }
                return std::exchange(refused, 0);
        }

      private:
        struct Bucket {
                double tokens;
                weir_nsec filled; /* when */
        };

        static void fill(Bucket &bucket)
        {
                weir_nsec now = weir_now();

                bucket.tokens += per_second * double(now - bucket.filled) / double(WEIR_SEC(1));
                bucket.tokens = std::min(burst, bucket.tokens);
                bucket.filled = now;
        }

        std::mutex mutex;
        std::unordered_map<std::string, Bucket> buckets; /* guarded by mutex */
        unsigned refused = 0;                            /* guarded by mutex */
};

Limiter limiter;

} // namespace

/* They are extern "C" for test/examples/rate_limiter_test.c only. */
extern "C" void on_request(weir_task *exchange, void *)
{
        if (limiter.take(weir_http_client_address(exchange))) {
                weir_http_reply_text(exchange, 200, "hello\n");
        } else {
                weir_http_reply_header(exchange, "Retry-After", "1");
                weir_http_reply_text(exchange, 429, "slowly, please\n");
        }
}

extern "C" int start_report(const char *zone)
{
        auto report = [](weir_task *ticker, void *) {
                if (weir_ticker_is_tick(ticker)) /* otherwise it has ended */
                        std::printf("%u requests were refused\n", limiter.clean());
        };

        return weir_task_start(weir_ticker_new_at_named("report", "@daily", zone, report, nullptr));
}

int main(int argc, char *argv[])
{
        int result = start_report(nullptr);

        if (result == 0)
                result = weir_http_serve(argc > 1 ? argv[1] : "127.0.0.1:8888", on_request, nullptr);
        if (result < 0)
                std::fprintf(stderr, "rate-limiter: %s\n", weir_strerror(result));
        weir_shutdown(); /* before `limiter` is destroyed */
        return result != 0;
}
