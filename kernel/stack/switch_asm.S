/* kernel/stack/switch_asm.S: the switch itself.  switch.c has the frame.
 *
 * void weir__context_swap(void **sp): stores what a call preserves, exchanges the stack pointer with *sp, and loads what is
 * stored there.  It goes on by a jump: a return would be predicted to go to its own caller.
 *
 * void weir__context_go(void **sp): the same for a side that never goes on: nothing is stored.  It goes on by a return, and no
 * call of a context is open then.  So if the context has not left in between, this return and those behind it are predicted
 * right.
 *
 * weir__context_start: the first instruction of a context.  An unwinder ends here.  The body is entered by a jump, and finds a
 * return address as behind a call. */

#if defined(__x86_64__)
        .text
        .globl weir__context_swap
        .hidden weir__context_swap
        .type weir__context_swap, @function
        .align 16
weir__context_swap:
        .cfi_startproc
        pushq %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        pushq %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbx, 0
        pushq %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r12, 0
        pushq %r13
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r13, 0
        pushq %r14
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r14, 0
        pushq %r15
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %r15, 0
        subq $8, %rsp
        .cfi_adjust_cfa_offset 8
        stmxcsr (%rsp)
        fnstcw 4(%rsp)
        movq (%rdi), %rax
        movq %rsp, (%rdi)
        movq %rax, %rsp
        ldmxcsr (%rsp)
        fldcw 4(%rsp)
        addq $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq %r15
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r15
        popq %r14
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r14
        popq %r13
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r13
        popq %r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore %r12
        popq %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbx
        popq %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        popq %rcx
        .cfi_adjust_cfa_offset -8
        .cfi_register %rip, %rcx
        jmp *%rcx
        .cfi_endproc
        .size weir__context_swap, . - weir__context_swap

        .globl weir__context_go
        .hidden weir__context_go
        .type weir__context_go, @function
        .align 16
weir__context_go:
        .cfi_startproc
        .cfi_undefined %rip
        movq (%rdi), %rsp
        ldmxcsr (%rsp)
        fldcw 4(%rsp)
        addq $8, %rsp
        popq %r15
        popq %r14
        popq %r13
        popq %r12
        popq %rbx
        popq %rbp
        ret
        .cfi_endproc
        .size weir__context_go, . - weir__context_go

        .globl weir__context_start
        .hidden weir__context_start
        .type weir__context_start, @function
        .align 16
weir__context_start:
        .cfi_startproc
        .cfi_undefined %rip
        movq %r13, %rdi
        leaq .Lover(%rip), %rax
        pushq %rax
        jmp *%r12
.Lover:
        ud2
        .cfi_endproc
        .size weir__context_start, . - weir__context_start
#elif defined(__aarch64__)
        .text
        .globl weir__context_swap
        .hidden weir__context_swap
        .type weir__context_swap, %function
        .align 4
weir__context_swap:
        .cfi_startproc
        sub sp, sp, #176
        .cfi_adjust_cfa_offset 176
        mrs x9, fpcr
        str x9, [sp, #0]
        stp x19, x20, [sp, #16]
        stp x21, x22, [sp, #32]
        stp x23, x24, [sp, #48]
        stp x25, x26, [sp, #64]
        stp x27, x28, [sp, #80]
        stp x29, x30, [sp, #96]
        .cfi_rel_offset x29, 96
        .cfi_rel_offset x30, 104
        stp d8, d9, [sp, #112]
        stp d10, d11, [sp, #128]
        stp d12, d13, [sp, #144]
        stp d14, d15, [sp, #160]
        ldr x10, [x0]
        mov x11, sp
        str x11, [x0]
        mov sp, x10
        ldr x9, [sp, #0]
        msr fpcr, x9
        ldp x19, x20, [sp, #16]
        ldp x21, x22, [sp, #32]
        ldp x23, x24, [sp, #48]
        ldp x25, x26, [sp, #64]
        ldp x27, x28, [sp, #80]
        ldp x29, x30, [sp, #96]
        ldp d8, d9, [sp, #112]
        ldp d10, d11, [sp, #128]
        ldp d12, d13, [sp, #144]
        ldp d14, d15, [sp, #160]
        add sp, sp, #176
        .cfi_adjust_cfa_offset -176
        .cfi_restore x29
        .cfi_restore x30
        br x30
        .cfi_endproc
        .size weir__context_swap, . - weir__context_swap

        .globl weir__context_go
        .hidden weir__context_go
        .type weir__context_go, %function
        .align 4
weir__context_go:
        .cfi_startproc
        .cfi_undefined x30
        ldr x10, [x0]
        mov sp, x10
        ldr x9, [sp, #0]
        msr fpcr, x9
        ldp x19, x20, [sp, #16]
        ldp x21, x22, [sp, #32]
        ldp x23, x24, [sp, #48]
        ldp x25, x26, [sp, #64]
        ldp x27, x28, [sp, #80]
        ldp x29, x30, [sp, #96]
        ldp d8, d9, [sp, #112]
        ldp d10, d11, [sp, #128]
        ldp d12, d13, [sp, #144]
        ldp d14, d15, [sp, #160]
        add sp, sp, #176
        ret
        .cfi_endproc
        .size weir__context_go, . - weir__context_go

        .globl weir__context_start
        .hidden weir__context_start
        .type weir__context_start, %function
        .align 4
weir__context_start:
        .cfi_startproc
        .cfi_undefined x30
        mov x0, x20
        mov x16, x19
        adr x30, .Lover
        br x16
.Lover:
        brk #1
        .cfi_endproc
        .size weir__context_start, . - weir__context_start
#endif

        .section .note.GNU-stack, "", %progbits
