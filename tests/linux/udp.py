# udp.py SECONDS server ADDRESS PORT COUNT | client ADDRESS PORT SIZE [SEGMENT]: the server ends with 0 if COUNT datagrams came.

import socket, sys

seconds, role, address, port = float(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
UDP_SEGMENT = 103
endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if role == "client":
    if len(sys.argv) > 6:
        endpoint.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, int(sys.argv[6]))
    endpoint.sendto(bytes(int(sys.argv[5])), (address, port))
else:
    endpoint.bind((address, port))
    endpoint.settimeout(seconds)
    try:
        for _ in range(int(sys.argv[5])):
            endpoint.recv(65536)
    except TimeoutError:
        sys.exit("too few datagrams")
