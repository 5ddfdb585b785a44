# A client of redis-py that does what it is told, a line for a line.
#
#   peer.py HOST PORT                  acquire KEY MS | release
#   peer.py HOST PORT KEY N FILE       N critical sections, in which FILE exists
import os, sys
import redis

db = redis.Redis(host=sys.argv[1], port=int(sys.argv[2]))

if len(sys.argv) > 3:
    key, sections, path = sys.argv[3], int(sys.argv[4]), sys.argv[5]
    for _ in range(sections):
        with db.lock(key, timeout=30, sleep=0.002):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))  # fails if somebody is in there
            os.unlink(path)
    print("done")
    sys.exit()

lock = None
for line in sys.stdin:
    words = line.split()
    if words[0] == "acquire":
        lock = db.lock(words[1], timeout=int(words[2]) / 1000)
        answer = lock.acquire(blocking=False)
    else:
        try:
            lock.release()
            answer = True
        except redis.exceptions.LockError:
            answer = False
    print("true" if answer else "false", flush=True)
