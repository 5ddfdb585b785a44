#!lua
-- bootstrap.lua lets a server grant at once that would begin with a quarantine, since
-- nobody can hold anything.
--
-- KEYS[1]  marker  see acquire.lua
--
-- ARGV[1]  the longest TTL in milliseconds
-- ARGV[2]  what is added to it, in milliseconds
-- ARGV[3]  what else the clients have to agree on
--
-- Returns {1, now}.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local info = redis.pcall('INFO', 'server')
local at = type(info) == 'string' and string.find(info, 'run_id:', 1, true) -- much faster than a pattern
local run = at and string.match(info, '^%x+', at + 7)
if not run then
  return redis.error_reply('NORUNID the server does not tell its run_id, which a quarantine takes: grant +info')
end
local floor = tonumber(string.match(redis.call('GET', KEYS[1]) or '', '^%x+ %d+ (%d+) ') or 0)
local length = math.max((ARGV[1] + ARGV[2]) * 1000, 2000000)
redis.call('SET', KEYS[1], string.format('%s %.0f %.0f %.0f %.0f %s %s %s',
  run, now, math.max(floor, now + 2000000), now, length, ARGV[1], ARGV[2], ARGV[3]), 'PX', 7776000000)
return {1, now}
