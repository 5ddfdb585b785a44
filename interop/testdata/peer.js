// A client of a lock of npm that does what it is told, a line for a line.
//
//   peer.js redlock|ioredis-lock HOST PORT      acquire KEY MS | release
const Redis = require('ioredis');
const [kind, host, port] = process.argv.slice(2);
const db = new Redis(Number(port), host);

const clients = {
  redlock() {
    const Redlock = require('redlock');
    const redlock = new Redlock([db], { retryCount: 0 });
    let lock;
    return {
      acquire: async (key, ms) => { lock = await redlock.lock(key, ms); },
      release: () => lock.unlock(),
    };
  },
  'ioredis-lock'() {
    const { createLock } = require('ioredis-lock');
    let lock;
    return {
      acquire: (key, ms) => { lock = createLock(db, { timeout: ms, retries: 0 }); return lock.acquire(key); },
      release: () => lock.release(),
    };
  },
};

const client = clients[kind]();
(async () => {
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const [verb, key, ms] = line.split(' ');
    let answer = true;
    try {
      await (verb === 'acquire' ? client.acquire(key, Number(ms)) : client.release());
    } catch (e) {
      answer = false;
    }
    console.log(answer);
  }
  db.disconnect();
})();
