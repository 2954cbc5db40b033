// test/context_catch.cc: two contexts, each inside a catch block, leave and rethrow (test/context_tools_test.sh).
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

extern "C" {
#include "kernel/stack/switch.h"
int take_stack(weir__stack **stack);
}

struct Run {
        weir__context context;
        weir__stack *stack;
        const char *name;
        int step = 0;
        bool is_right = false, is_over = false;
};

static void
act(Run *run)
{
        try {
                try {
                        throw std::runtime_error(run->name);
                } catch (const std::exception &) {
                        run->step++;
                        weir__context_leave(&run->context);
                        throw; // its own exception, not that of the other one
                }
        } catch (const std::exception &caught) {
                weir__context_leave(&run->context);
                run->is_right = std::string(caught.what()) == run->name && std::uncaught_exceptions() == 0;
        }
}

static void
body(void *argument)
{
        Run *run = static_cast<Run *>(argument);

        act(run);
        run->is_right = run->is_right && !std::current_exception();
        run->is_over = true;
        weir__context_end(&run->context);
}

int
main()
{
        Run first{}, second{};

        first.name = "the first one";
        second.name = "the second one";
        for (Run *run : {&first, &second}) {
                if (take_stack(&run->stack))
                        return 2;
                weir__context_make(&run->context, run->stack, body, run);
        }
        try {
                throw std::logic_error("that of the thread");
        } catch (const std::exception &) {
                while (!first.is_over || !second.is_over)
                        for (Run *run : {&first, &second})
                                if (!run->is_over)
                                        weir__context_enter(&run->context);
                try {
                        throw;
                } catch (const std::exception &caught) {
                        if (std::string(caught.what()) != "that of the thread")
                                return 3;
                }
        }
        std::puts(first.is_right && second.is_right ? "right" : "wrong");
        return !(first.is_right && second.is_right);
}
