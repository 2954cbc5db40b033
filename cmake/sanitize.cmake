# WEIR_SANITIZE, and what follows from it: flags, definitions, the tests' environment, time limit and launcher.
set(WEIR_SANITIZE "" CACHE STRING "Build for a sanitizer: empty, address (with undefined behaviour) or thread")
set_property(CACHE WEIR_SANITIZE PROPERTY STRINGS "" address thread)

set(WEIR_TEST_TIMEOUT 120)
# A proxy where nobody listens: tests find their servers also where the environment has one.
set(WEIR_TEST_ENVIRONMENT http_proxy=http://127.0.0.1:1 no_proxy=)
set(WEIR_TEST_LAUNCHER)
set(sanitizers)

if(WEIR_SANITIZE STREQUAL "address")
        set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
        list(APPEND WEIR_TEST_ENVIRONMENT
                ASAN_OPTIONS=abort_on_error=1:detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
                UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1)
elseif(WEIR_SANITIZE STREQUAL "thread")
        set(sanitizers -fsanitize=thread)
        list(APPEND WEIR_TEST_ENVIRONMENT TSAN_OPTIONS=abort_on_error=1:halt_on_error=1:second_deadlock_stack=1)
        # ThreadSanitizer keeps fixed addresses for itself.  Kernels that randomize mappings by more than 28 bits
        # (vm.mmap_rnd_bits) may put the program there: "FATAL: ThreadSanitizer: unexpected memory mapping".  So the tests run
        # without randomization wherever that is allowed; a container may forbid it.
        find_program(WEIR_SETARCH setarch)
        if(WEIR_SETARCH)
                execute_process(COMMAND ${WEIR_SETARCH} -R true RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
                if(failed EQUAL 0)
                        set(WEIR_TEST_LAUNCHER ${WEIR_SETARCH} -R)
                endif()
        endif()
elseif(WEIR_SANITIZE)
        message(FATAL_ERROR "WEIR_SANITIZE is \"${WEIR_SANITIZE}\": neither empty, address nor thread")
endif()

if(WEIR_FUZZ)
        if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
                message(FATAL_ERROR "WEIR_FUZZ needs clang: CC=clang, or -DCMAKE_C_COMPILER=clang")
        endif()
        list(APPEND sanitizers -fsanitize=fuzzer-no-link)
endif()

if(sanitizers)
        set(WEIR_TEST_TIMEOUT 240)
        add_compile_options(${sanitizers} -fno-omit-frame-pointer -UNDEBUG)
        add_link_options(${sanitizers})
endif()

# Assertions that cost: lock ranks, ownership.
set(WEIR_DEBUG_DEFINITIONS $<$<OR:$<CONFIG:Debug>,$<BOOL:${WEIR_SANITIZE}>>:WEIR_DEBUG=1>)
