# Where exceptions come in: 32 entries of 16 bytes that note the vector and meet in trap_common.
# Every gate switches to a stack of its own, so the red zone below the interrupted stack pointer is left alone.

.section .boot.trap, "ax"
.code64
    .balign 16
.globl trap_entries
trap_entries:
    .set vector, 0
    .rept 32
    .balign 16
    .if (0x60227d00 >> vector) & 1 == 0 # the others push an error code
    pushq $0
    .endif
    pushq $vector
    jmp trap_common
    .set vector, vector + 1
    .endr

    .balign 16
trap_common:
    pushq %r15
    pushq %r14
    pushq %r13
    pushq %r12
    pushq %r11
    pushq %r10
    pushq %r9
    pushq %r8
    pushq %rbp
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %rbx
    pushq %rax
    movq %rsp, %rdi
    call trap_report
    ud2
