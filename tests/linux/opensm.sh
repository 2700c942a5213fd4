# OpenSM on the first card: it walks the cable by directed routes, gives both ports LIDs and brings them up.

alone unmanaged '[ "$(ibstat | grep -c "State: Initializing")" = 2 ] && [ "$(ibstat | grep -c "Base lid: 0$")" = 2 ]'
alone sweep 'opensm -o -g 0x0200c9fffe000000 -f /tmp/opensm.log; cat /tmp/opensm.log; grep -q "SUBNET UP" /tmp/opensm.log'
alone active '[ "$(ibv_devinfo | grep -c "state:.*PORT_ACTIVE")" = 2 ]'
alone lids '[ "$(ibstat | grep -c "Base lid: [12]$")" = 2 ] && [ "$(ibstat | grep -c "SM lid: 1$")" = 2 ]'
alone discovered '[ "$(ibnetdiscover | tee /dev/stderr | grep -c "^Ca")" = 2 ]'
pair rc_pingpong 'ibv_rc_pingpong -n 50'
pair ud_pingpong 'ibv_ud_pingpong -n 50'
