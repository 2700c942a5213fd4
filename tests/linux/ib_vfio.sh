# rdma-core's own VFIO provider, by rdma-core's own test of it: no kernel driver, the unmodified libmlx5 brings the card
# up itself, makes queues in registered user memory by DEVX commands, takes two QPs to RTS and checks the data it moves.

card=$(lspci -Dn -d 15b3: | awk '{ print $1; exit }')
echo vfio-pci >"/sys/bus/pci/devices/$card/driver_override"
echo "$card" >/sys/bus/pci/drivers_probe
busybox gunzip /opt/rdma-core/tests/*.gz

# own NAME: the test of this name passes, and is not skipped.
cat >own <<END
cd /opt/rdma-core
python3 tests/run_tests.py -v --pci-dev $card -k "\$1" 2>&1 | tee /dev/stderr | grep -q '^OK\$'
END
alone vfio_devx_traffic 'bash ./own test_mlx5vfio_rc_qp_send_imm_traffic'
alone vfio_devx_traffic_again 'bash ./own test_mlx5vfio_rc_qp_send_imm_traffic'
