# From a PVH loader's 32-bit entry to Rust in long mode.
#
# The ABI (xen/include/public/arch-x86/hvm/start_info.h, and QEMU's -kernel): protected mode, paging off, flat
# segments, interrupts off, %ebx = physical address of hvm_start_info, no stack.

.section .note.Xen, "a", @note
    .balign 4
    .long 4                             # length of the name
    .long 8                             # length of the value
    .long 18                            # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start

.section .boot, "ax"
.code32
.globl pvh_start
pvh_start:
    cli
    cld
    movl $__stack_top, %esp
    movl %ebx, %ebp                     # kept until Rust is called

    # The first 4 GiB at their own addresses in 2 MiB pages. Rust builds the tables that are used after.
    movl $boot_pdpt + 3, boot_pml4      # 3: present, writable
    movl $boot_directories + 3, %eax
    xorl %ecx, %ecx
1:  movl %eax, boot_pdpt(, %ecx, 8)
    addl $4096, %eax
    incl %ecx
    cmpl $4, %ecx
    jb 1b
    movl $0x83, %eax                    # present, writable, 2 MiB
    xorl %ecx, %ecx
2:  movl %eax, boot_directories(, %ecx, 8)
    addl $0x200000, %eax
    incl %ecx
    cmpl $2048, %ecx
    jb 2b

    movl $boot_pml4, %eax
    movl %eax, %cr3
    movl $0x620, %eax                   # PAE, and SSE: OSFXSR, OSXMMEXCPT. OSXSAVE stays off, so nobody may use AVX
    movl %eax, %cr4
    movl $0xc0000080, %ecx              # EFER
    rdmsr
    orl $0x900, %eax                    # long mode, no-execute pages
    wrmsr
    movl $0x80010023, %eax              # PG, WP, NE, MP, PE; EM and TS off
    movl %eax, %cr0
    lgdt boot_gdt_pointer
    ljmpl $8, $3f

.code64
3:  movl $16, %eax
    movl %eax, %ss
    movl %eax, %ds
    movl %eax, %es
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    movl %ebp, %edi
    xorl %ebp, %ebp
    call rust_start
    ud2

    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff            # 64-bit code
    .quad 0x00cf93000000ffff            # data
boot_gdt_pointer:
    .word . - boot_gdt - 1
    .long boot_gdt

.section .bss.boot, "aw", @nobits
    .balign 4096
boot_pml4:
    .skip 4096
boot_pdpt:
    .skip 4096
boot_directories:
    .skip 4 * 4096
