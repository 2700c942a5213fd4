# RoCE, one tool of each kind.

. ./roce_net.sh

alone devinfo '$SERVER ibv_devinfo -v | grep -q "state:.*PORT_ACTIVE"'
pair rc_pingpong 'ibv_rc_pingpong -g 3 -n 200'
pair ud_pingpong_events 'ibv_ud_pingpong -g 3 -e -n 200'
pair rc_pingpong_v1 'ibv_rc_pingpong -g 0 -n 200'
pair send_bw 'ib_send_bw -F -x 3 -n 200'
pair write_lat 'ib_write_lat -F -x 3 -n 200'
pair read_bw 'ib_read_bw -F -x 3 -n 200'
