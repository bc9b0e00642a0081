"""Agents that misbehave, or do exactly what a test needs: text that runs in place of the real one's."""

AGENT = """
import json, os, struct, sys, time

def send(header, body=b""):
    data = json.dumps(header).encode()
    sys.stdout.buffer.write(struct.pack(">II", len(data), len(body)) + data + body)
    sys.stdout.buffer.flush()

def receive():
    sizes = sys.stdin.buffer.read(8)
    if len(sizes) < 8:
        sys.exit(0)
    header, body = struct.unpack(">II", sizes)
    return json.loads(sys.stdin.buffer.read(header)), sys.stdin.buffer.read(body)

sys.stdout.buffer.write(b"\\n\\0RANKDECK-AGENT-1\\n")
send({"ev": "hello", "protocol": 1, "host": "stand-in", "pid": os.getpid()})
while True:
    request, body = receive()
    number, op = request["id"], request["op"]
    if op == "ping":
        send({"id": number, "ok": True, "time": time.time()})
    elif op == "echo":
        send({"id": number, "ok": True, "said": request.get("say")}, body)
    elif op == "drip":
        while True:
            send({"id": number, "ev": "drop"}, b"x" * 1000)
            time.sleep(0.01)
    elif op == "garbage":
        os.write(1, b"Segmentation fault (core dumped)\\n")
    elif op == "die":
        sys.stderr.write("out of luck\\n")
        sys.stderr.flush()
        os._exit(request["status"])
    elif op == "kill":
        os.kill(os.getpid(), 9)
"""

OTHER_PROTOCOL = AGENT.replace('"protocol": 1', '"protocol": 2')
SILENT = "import time\nprint('reticulating splines', flush=True)\ntime.sleep(600)\n"
CRASHES = "raise RuntimeError('rankdeck_agent is unwell')\n"


def bootstrap_input(source: str) -> bytes:
    """What the channel gets in place of the real agent: the first line reads a length, then that text."""
    data = source.encode()
    return b"%08d" % len(data) + data
