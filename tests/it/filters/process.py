"""A long-running filter of git's protocol version 2: both directions reverse the content."""

import sys

with open(sys.argv[1], "a") as starts:
    starts.write("start\n")


def read():
    length = int(sys.stdin.buffer.read(4) or b"0", 16)
    return sys.stdin.buffer.read(length - 4) if length > 4 else None


def read_all():
    packets = []
    while (packet := read()) is not None:
        packets.append(packet)
    return packets


def write(data):
    sys.stdout.buffer.write(b"%04x" % (len(data) + 4) + data)


def flush():
    sys.stdout.buffer.write(b"0000")
    sys.stdout.buffer.flush()


read_all()
write(b"git-filter-server\n")
write(b"version=2\n")
flush()
read_all()
write(b"capability=clean\n")
write(b"capability=smudge\n")
flush()
while True:
    header = read_all()
    if not header:
        break
    content = b"".join(read_all())
    write(b"status=success\n")
    flush()
    content = content[::-1]
    for at in range(0, len(content), 65516):
        write(content[at : at + 65516])
    flush()
    flush()
