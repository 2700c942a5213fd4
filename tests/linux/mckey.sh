# Datagrams to a multicast group that the other side has joined: ends with 0 if all of them came.

group=239.1.2.3
$SERVER stdbuf -oL timeout $LIMIT mckey -b 10.0.0.1 -m $group >/tmp/joined 2>&1 &
server=$!
until grep -q 'joined dgid' /tmp/joined; do
  kill -0 $server || break
  sleep 0.1
done
timeout $LIMIT $CLIENT mckey -b 10.0.0.2 -m $group -s
status=$?
wait $server || status=$?
cat /tmp/joined
exit $status
