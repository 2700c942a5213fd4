# tcp.py server|client ADDRESS PORT CONNECTIONS: seeded bytes over TCP, a connection after the other, from ports that
# follow each other; the server compares every byte.

import random, socket, sys

role, address, port, connections = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
expected = random.Random(port).randbytes(2 << 20)


def client(n):
    with socket.create_connection((address, port), 60, ("", 20000 + port + n)) as connection:
        connection.sendall(expected)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(2) == b"ok"


def server(listener):
    connection, _ = listener.accept()
    with connection:
        got = b"".join(iter(lambda: connection.recv(1 << 20), b""))
        connection.sendall(b"ok" if got == expected else b"no")
        return got == expected


if role == "client":
    sys.exit(not all(client(n) for n in range(connections)))
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.create_server((address, port), family=family) as listener:
    listener.settimeout(60)
    sys.exit(not all(server(listener) for _ in range(connections)))
