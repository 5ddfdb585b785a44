# This holds one lock of kazoo's at most. It takes "acquire PATH MILLISECONDS" and
# "release" on its input, and answers each with yes or no.
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

client = KazooClient(sys.argv[1])
client.start()
lock = None
for line in sys.stdin:
    words = line.split()
    if words[0] == "acquire":
        # Without the pattern kazoo looks at its own nodes only.
        lock = client.Lock(words[1], "peer", extra_lock_patterns=["-lock-"])
        try:
            ok = lock.acquire(timeout=int(words[2]) / 1000)
        except LockTimeout:
            ok = False
    else:
        ok = lock.release()
    print("yes" if ok else "no", flush=True)
client.stop()
