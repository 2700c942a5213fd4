# A little of each kind of packet, for the judges of the wire. GID is the GID index of a RoCE card, and harmless without.

pair rc_pingpong 'ibv_rc_pingpong -g GID -n 20'
pair uc_pingpong 'ibv_uc_pingpong -g GID -n 20'
pair ud_pingpong 'ibv_ud_pingpong -g GID -n 20'
pair xsrq_pingpong 'ibv_xsrq_pingpong -g GID -n 20'
pair send_bw 'ib_send_bw -F -x GID -n 5 -s 100'
pair write_bw 'ib_write_bw -F -x GID -n 5 -s 5000'
pair read_bw 'ib_read_bw -F -x GID -n 5 -s 5000'
pair atomic_bw_fetch 'ib_atomic_bw -F -x GID -n 5'
pair atomic_bw_swap 'ib_atomic_bw -F -x GID -A CMP_AND_SWAP -n 5'
