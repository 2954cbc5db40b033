# WEIR_ABLATE=NAME[,NAME]: leaves mechanisms out, so that bench/ablate measures what they save.  Not for use: a library without one
# is slower, uses more memory, or makes threads wait.
#
# A mechanism is left out by definitions for the compiler (WEIR_WITHOUT_NAME), by another file in the place of one
# (WEIR_INSTEAD_NAME), or as below.
set(WEIR_ABLATE "" CACHE STRING "Mechanisms to leave out, with commas between (cmake/ablate.cmake)")
set(WEIR_ABLATABLE
        slab     # kernel/memory: blocks come from malloc, behind the caches
        cache    # kernel/memory: each block comes from malloc
        cold     # kernel/memory: the block behind a cold one is not prefetched
        lock     # kernel/base: a plain futex with three states
        handoff  # kernel/base: a thread that has waited for long is not handed the lock
        bulk     # factory/timer: cancelled timers are delivered one by one, however many
        interval # kernel/loop: wake-ups have no minimum interval
        timed    # kernel/loop: no timed waits
        lto      # the shared library is not optimized across files
        prefetch # nothing is fetched from memory before it is wanted
)
set(WEIR_WITHOUT_cache UNCACHED=1)
set(WEIR_WITHOUT_cold PREFETCHES_COLD=0)
set(WEIR_WITHOUT_handoff HAND_OFF_AFTER=WEIR_FOREVER)
set(WEIR_WITHOUT_bulk BULK_MIN=SIZE_MAX)
set(WEIR_WITHOUT_interval INTERVAL=0)
set(WEIR_WITHOUT_timed TIMED=0)
set(WEIR_WITHOUT_prefetch "__builtin_prefetch(address,...)=((void)(address))")
set(WEIR_INSTEAD_slab kernel/memory/slab.c bench/candidates/malloc_blocks.c)
set(WEIR_INSTEAD_lock kernel/base/lock.c bench/candidates/plain_lock.c)

string(REPLACE "," ";" WEIR_ABLATED "${WEIR_ABLATE}")
foreach(name ${WEIR_ABLATED})
        if(NOT name IN_LIST WEIR_ABLATABLE)
                message(FATAL_ERROR "WEIR_ABLATE: \"${name}\" is none of: ${WEIR_ABLATABLE}")
        endif()
endforeach()
if(lto IN_LIST WEIR_ABLATED)
        set(WEIR_LTO OFF)
endif()

# Changes `sources` of the caller, and the options of later targets in its directory.
function(weir_ablate sources)
        foreach(name ${WEIR_ABLATED})
                if(WEIR_WITHOUT_${name})
                        add_compile_options("-D${WEIR_WITHOUT_${name}}")
                endif()
                if(WEIR_INSTEAD_${name})
                        list(GET WEIR_INSTEAD_${name} 0 file)
                        list(GET WEIR_INSTEAD_${name} 1 other)
                        list(REMOVE_ITEM ${sources} ${PROJECT_SOURCE_DIR}/${file})
                        list(APPEND ${sources} ${other})
                endif()
        endforeach()
        set(${sources} ${${sources}} PARENT_SCOPE)
endfunction()
