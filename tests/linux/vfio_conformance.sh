# The conformance suite over VFIO, on two cards behind an IOMMU; how each of its cases ended is judged by the runner.
. ./vfio_lib.sh

A=$(card 1) B=$(card 2)
alone bind_both "bind $A && bind $B"
./conformance -v -d "$A" -d "$B"
alone cards_still_there "./devinfo -d $A && ./devinfo -d $B"
