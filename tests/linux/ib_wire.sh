# Over InfiniBand, with and without a GRH.

GID=0
. ./wire.sh
pair rc_pingpong_without_grh 'ibv_rc_pingpong -n 20'
pair ud_pingpong_without_grh 'ibv_ud_pingpong -n 20'
