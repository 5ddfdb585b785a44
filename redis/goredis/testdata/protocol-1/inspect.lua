#!lua flags=no-writes
-- inspect.lua tells who holds a key and who waits, and changes nothing.
--
-- KEYS[1]  lock    see acquire.lua
-- KEYS[2]  line    see acquire.lua
-- KEYS[3]  shares  see acquire.lua
-- KEYS[4]  claims  see acquire.lua
-- KEYS[5]  fence   see acquire.lua
--
-- ARGV[1]  how many holders to tell of, and how many who wait
--
-- Returns {now, value of lock or "", its time left in milliseconds, value of fence or
-- "", its time left, number of live shares, {share, record, ...}, number that wait,
-- {claim, record, since, ...}, {kind, at, by, why, ...}}: now, since and at in
-- microseconds, shares by expiry, the line and the notices (see revoke.lua) oldest
-- first. Beyond 1000 claims that wait, those that have ended may be counted too.

local lock, line, shares, claims, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local limit = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ms = math.floor(now / 1000)
local cur = redis.call('GET', lock) or ''
local f = redis.call('GET', fence) or ''

local held, live = {}, 0
if cur == '#shares' then
  local after = string.format('(%.0f', ms)
  live = redis.call('ZCOUNT', shares, after, '+inf')
  for _, who in ipairs(redis.call('ZRANGEBYSCORE', shares, after, '+inf', 'LIMIT', 0, limit)) do
    held[#held + 1] = who
    held[#held + 1] = redis.call('HGET', claims, who) or ''
  end
end

local waiting, waits = redis.call('ZCARD', line), {}
local queue = redis.call('ZRANGE', line, 0, math.max(limit, 1000) - 1, 'WITHSCORES')
for i = 1, #queue, 2 do
  local record = redis.call('HGET', claims, queue[i])
  local expiry = string.match(record or '', '^[wc] %d+ %d+ (%d+) ')
  if not expiry or tonumber(expiry) <= ms then
    waiting = waiting - 1
  elseif #waits < 3 * limit then
    waits[#waits + 1] = queue[i]
    waits[#waits + 1] = record
    waits[#waits + 1] = tonumber(queue[i + 1])
  end
end

local notices, index = {}, redis.call('HGET', claims, '#n') or ''
while index ~= '' do
  local n, rest = string.match(index, '^(%d+):(.*)$')
  if not n then break end
  local kind, at, expiry, by, text = string.match(redis.call('HGET', claims, '!' .. string.sub(rest, 1, tonumber(n))) or '',
    '^(%a) (%d+) (%d+) (%d+) (.*)$')
  if kind and tonumber(expiry) > ms then
    for _, v in ipairs({kind, tonumber(at), string.sub(text, 1, tonumber(by)), string.sub(text, by + 1)}) do
      notices[#notices + 1] = v
    end
  end
  index = string.sub(rest, n + 1)
end

return {now, cur, redis.call('PTTL', lock), f, redis.call('PTTL', fence), live, held, waiting, waits, notices}
