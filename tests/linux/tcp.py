# tcp.py server|client ADDRESS PORT: seeded bytes over TCP; the server compares every one of them.

import random, socket, sys

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
expected = random.Random(port).randbytes(2 << 20)
family = socket.AF_INET6 if ":" in address else socket.AF_INET
if role == "client":
    with socket.create_connection((address, port), 60) as connection:
        connection.sendall(expected)
        connection.shutdown(socket.SHUT_WR)
        sys.exit(connection.recv(2) != b"ok")
with socket.create_server((address, port), family=family) as listener:
    listener.settimeout(60)
    connection, _ = listener.accept()
    got = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    same = got == expected
    connection.sendall(b"ok" if same else b"no")
    sys.exit(not same)
