# Sourced by the jobs. Every check prints one line: "case NAME: passed", or "case NAME: FAILED" after what was said.

port=18600
# Seconds for a command of a case.
LIMIT=${LIMIT:-120}

# Waits until somebody listens on a TCP port of this guest, ten seconds at most.
listening() {
  for _ in $(seq 200); do
    [ -n "$($SERVER ss -Hltn "sport = :$1")" ] && return
    sleep 0.05
  done
}

# verdict NAME STATUS FILE...: the status of a case, and what was said if it is not 0. With $FIRST the job ends then.
verdict() {
  local name=$1 status=$2
  shift 2
  if [ "$status" = 0 ]; then
    echo "case $name: passed"
  else
    for file; do sed "s/^/    ${file##*/}: /" "$file" | tail -n 25; done
    [ "$status" != 124 ] || echo "    timed out after $LIMIT s"
    echo "case $name: FAILED"
    if [ -n "$FIRST" ]; then
      kernel_log
      exit 1
    fi
  fi
}

# alone NAME COMMAND: the command ends with 0.
alone() {
  SERVER=$SERVER CLIENT=$CLIENT LIMIT=$LIMIT timeout $LIMIT bash -c "$2" >/tmp/alone 2>&1
  verdict "$1" $? /tmp/alone
}

# pair NAME COMMAND [CLIENT-ONLY ARGUMENTS]: server on mlx5_0, client on mlx5_1 of one guest, which the prefixes
# $SERVER and $CLIENT may put into namespaces; in two guests each has its mlx5_0, or the $DEVICE that it names.
pair() {
  local name=$1 command=${2/GID/$GID} extra=${3:-} device=${DEVICE:-mlx5_0}
  port=$((port + 1))
  if [ -z "$PEER" ]; then
    timeout $LIMIT $SERVER $command -d mlx5_0 -p $port >/tmp/server 2>&1 &
    local server=$!
    listening $port
    timeout $LIMIT $CLIENT $command -d mlx5_1 -p $port $extra ${ADDRESS:-localhost} >/tmp/client 2>&1
    local status=$?
    wait $server || status=$?
    verdict "$name" $status /tmp/server /tmp/client
  elif [ "$GUEST" = 1 ]; then
    timeout $LIMIT $command -d ${DEVICE:-mlx5_0} -p $port >/tmp/server 2>&1
    verdict "$name" $? /tmp/server
  else
    # The other guest may not listen yet; it is asked until it does.
    for _ in $(seq 100); do
      timeout $LIMIT $command -d ${DEVICE:-mlx5_0} -p $port $extra $PEER >/tmp/client 2>&1
      local status=$?
      grep -qi "couldn't connect\|connection refused\|failed to connect" /tmp/client || break
      sleep 0.1
    done
    verdict "$name" $status /tmp/client
  fi
}

# manager NAME COMMAND SERVER-ARGUMENTS CLIENT-ARGUMENTS: a program of the connection manager, which is told no card. The
# address ends the client's arguments. One guest.
manager() {
  timeout $LIMIT $SERVER $2 $3 >/tmp/server 2>&1 &
  local server=$! status=1
  # It listens where no socket shows it: it is asked until it does.
  for _ in $(seq 100); do
    timeout $LIMIT $CLIENT $2 $4 $ADDRESS >/tmp/client 2>&1
    status=$?
    grep -qi "REJECTED\|reject" /tmp/client || break
    sleep 0.1
  done
  wait $server || status=$?
  verdict "$1" $status /tmp/server /tmp/client
}

# Keeps the link between mlx5_0 and mlx5_1 busy in the background; returns when data flow.
busy() {
  ib_write_bw -F -d mlx5_0 -D 60 -p 18500 >/tmp/busy 2>&1 &
  listening 18500
  ib_write_bw -F -d mlx5_1 -D 60 -p 18500 localhost >>/tmp/busy 2>&1 &
  for _ in $(seq 200); do
    [ "$(cat /sys/class/infiniband/mlx5_1/ports/1/counters/port_xmit_data)" -gt 1000000 ] && return
    sleep 0.05
  done
  echo "the link does not get busy"
  cat /tmp/busy
}

# Prints what the kernel complained about, for the judge.
kernel_log() {
  dmesg --level=emerg,alert,crit,err,warn --notime | sed 's/^/kernel: /'
}
