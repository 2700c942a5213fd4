"""Plays the other end of an ibv_ ping-pong for a machine that sits at the serial line.

serial_relay.py server|client LINES SENT COMMAND...

The command is the server, or the client, of a ping-pong that exchanges SENT addresses over TCP, of which the machine
knows the first LINES. What is printed behind "> " goes to the machine; its lines come in on ttyS1. The order is the
command's own: the client's addresses, the server's, "done"; then "end" from each. Ends with the command's status.
"""

import socket
import subprocess
import sys
import time

PORT = 18515
LINE = 52  # lid:qpn:psn:gid and a zero byte
NOBODY = "0000:000000:000000:" + "0" * 32


def hear(line):
    said = line.readline().strip()
    print(f"machine: {said}", flush=True)
    return said


def say(text):
    print(f"> {text}", flush=True)


def receive(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            sys.exit(f"the command closed the connection after {data!r}")
        data += more
    return data


def take_addresses(connection, lines, sent):
    data = receive(connection, LINE * sent)
    for i in range(lines):
        say(data[LINE * i : LINE * (i + 1)].rstrip(b"\0").decode())


def give_addresses(connection, machine, lines, sent):
    said = [hear(machine) for _ in range(lines)]
    said += [NOBODY] * (sent - lines)
    connection.sendall(b"".join(line.encode() + b"\0" for line in said))


def serve(command, machine, lines, sent):
    """The command is the server, the machine the client."""
    process = subprocess.Popen(command)
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", PORT))
            break
        except ConnectionRefusedError:
            if process.poll() is not None:
                sys.exit(f"the command ended with {process.returncode}")
            time.sleep(0.05)
    give_addresses(connection, machine, lines, sent)
    take_addresses(connection, lines, sent)
    connection.sendall(hear(machine).encode() + b"\0")
    return process, connection


def ask(command, machine, lines, sent):
    """The command is the client, the machine the server."""
    listener = socket.create_server(("127.0.0.1", PORT))
    process = subprocess.Popen([*command, "127.0.0.1"])
    connection, _ = listener.accept()
    take_addresses(connection, lines, sent)
    give_addresses(connection, machine, lines, sent)
    say(receive(connection, 5).rstrip(b"\0").decode())
    return process, connection


role, lines, sent, *command = sys.argv[1:]
with open("/dev/ttyS1", encoding="ascii") as machine:
    play = serve if role == "server" else ask
    process, connection = play(command, machine, int(lines), int(sent))
    status = process.wait()
    say("end")
    hear(machine)
sys.exit(status)
