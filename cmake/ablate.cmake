# WEIR_ABLATE=NAME[,NAME]: leaves mechanisms out, so that bench/ablate measures what they save.  Not for use: a library without one
# is slower, or uses more memory.  A name is the definition WEIR_ABLATE_NAME in the sources.
set(WEIR_ABLATE "" CACHE STRING "Mechanisms to leave out, with commas between (cmake/ablate.cmake)")
set(WEIR_ABLATABLE
        slab     # kernel/memory: blocks come from malloc, behind the caches (bench/candidates/malloc_blocks.c)
        cache    # kernel/memory: each block comes from malloc
        lto      # the shared library is not optimized across files
        prefetch # nothing is fetched from memory before it is wanted
)
set(WEIR_ABLATE_DEFINITIONS)
string(REPLACE "," ";" WEIR_ABLATED "${WEIR_ABLATE}")
foreach(name ${WEIR_ABLATED})
        if(NOT name IN_LIST WEIR_ABLATABLE)
                message(FATAL_ERROR "WEIR_ABLATE: \"${name}\" is none of: ${WEIR_ABLATABLE}")
        endif()
        string(TOUPPER ${name} upper)
        list(APPEND WEIR_ABLATE_DEFINITIONS WEIR_ABLATE_${upper}=1)
endforeach()
if(lto IN_LIST WEIR_ABLATED)
        set(WEIR_LTO OFF)
endif()
