# Sourced by the jobs beside it: finds this guest's cards and gives them to vfio-pci.

# The PCI address of the first card, or of the one with the given number.
card() {
  ./devices | sed -n "${1:-1}s/ .*//p"
}

# The driver of a PCI function.
driver() {
  basename "$(readlink "/sys/bus/pci/devices/$1/driver")"
}

# The IOMMU group of a PCI function.
group() {
  basename "$(readlink "/sys/bus/pci/devices/$1/iommu_group")"
}

# Gives a PCI function to vfio-pci, from whatever driver has it.
bind() {
  modprobe vfio-pci
  echo vfio-pci >"/sys/bus/pci/devices/$1/driver_override"
  [ ! -e "/sys/bus/pci/devices/$1/driver" ] || echo "$1" >"/sys/bus/pci/devices/$1/driver/unbind"
  echo "$1" >/sys/bus/pci/drivers_probe
  [ "$(driver "$1")" = vfio-pci ]
}

# says BDF TEXT...: preflight fails and says each text.
says() {
  local bdf=$1
  shift
  # Whoever said something before may have been another user.
  rm -f /tmp/said 2>/dev/null
  ./preflight "$bdf" >/tmp/said && echo "preflight has nothing against it" && return 1
  cat /tmp/said
  for text; do grep -qF -- "$text" /tmp/said || return 1; done
}

# The command that the last preflight wants to be run as root, without what it explains in brackets.
advice() {
  sed -n 's/.*Next, as root: //p' /tmp/said | sed 's/ (for good:.*//' | head -1
}

# Before a command: as a user who is not root and has no capabilities.
export AS_USER='setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps=-all --bounding-set=-all'

export -f card driver group bind says advice
