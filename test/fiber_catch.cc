// test/fiber_catch.cc: fibers on two pollers that await inside catch blocks, and rethrow what they have caught
// (test/fiber_tools_test.sh).
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include <weir/weir.h>

static bool
catch_once(const char *own, int round)
{
        try {
                try {
                        throw std::runtime_error(own);
                } catch (const std::exception &) {
                        if (round % 2 ? weir_fiber_yield() : weir_fiber_sleep(WEIR_USEC(10)))
                                return false;
                        throw; // its own exception, not that of another fiber
                }
        } catch (const std::exception &caught) {
                return weir_await(weir_timer_new(1, nullptr, nullptr)) == 0 && std::string(caught.what()) == own;
        }
}

static int
catch_often(void *own)
{
        bool is_right = true;

        for (int i = 0; i < 100 && is_right; i++)
                is_right = catch_once(static_cast<const char *>(own), i) && !std::current_exception();
        return is_right ? 0 : -EIO;
}

static int
run_all(void *)
{
        static char names[][8] = {"first", "second", "third", "fourth"};
        weir_group *group = weir_group_open();

        for (char *name : names)
                weir_group_start(group, weir_fiber_new(catch_often, nullptr, name));
        return weir_group_close(group);
}

int
main()
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.pollers = 2;
        bool is_right = weir_init(&config) == 0 && weir_task_run(weir_fiber_new(run_all, nullptr, nullptr)) == 0;
        std::puts(is_right ? "right" : "wrong");
        weir_shutdown();
        return !is_right;
}
