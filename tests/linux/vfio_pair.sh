# Both guests have their card on vfio-pci: every ping-pong of ours, every byte compared at both ends.
. ./vfio_lib.sh

DEVICE=$(card)
alone bind "bind $DEVICE"
alone devinfo "./devinfo -d $DEVICE"

pair rc_pingpong './rc_pingpong -c -n 200'
pair uc_pingpong './uc_pingpong -c -n 200'
pair ud_pingpong './ud_pingpong -c -n 200'
pair srq_pingpong './srq_pingpong -c -n 200'
pair rc_pingpong_events './rc_pingpong -c -e -n 200'
pair srq_pingpong_large './srq_pingpong -c -n 50 -q 3 -s 100000'
