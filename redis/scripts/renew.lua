#!lua flags=allow-oom
-- renew.lua restarts the TTL of a granted claim. It never grants, and creates no key.
--
-- KEYS[1]  lock    see acquire.lua
-- KEYS[2]  line    see acquire.lua
-- KEYS[3]  shares  see acquire.lua
-- KEYS[4]  claims  see acquire.lua
-- KEYS[5]  fence   see acquire.lua
--
-- ARGV[1]  claim ID
-- ARGV[2]  token
-- ARGV[3]  TTL in milliseconds
-- ARGV[4]  floor: the counter is raised to it; 0 for none. With a floor a claim whose
--          fence has gone is lost, since nothing can keep the promise of the raise
--
-- Returns {1, now, token, notice...}, or {-1, now, reason, notice...} if the claim is
-- not granted; see acquire.lua.

local lock, line, shares, claims, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, ttl, floor = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ms = math.floor(now / 1000)
local up = ms + 1 -- see acquire.lua
local cur = redis.call('GET', lock)
local mine = cur and string.sub(cur, 1, #id + 1) == id .. ':' and string.match(string.sub(cur, #id + 2), '^(%d+)')
if mine and cur ~= id .. ':' .. mine and cur ~= id .. ':' .. mine .. ':kept' then mine = nil end

local function int(n)
  return string.format('%.0f', n)
end

-- outlive keeps key for ms more at least, without shortening its life.
local function outlive(key, ms)
  local left = redis.call('PTTL', key)
  if left < ms then redis.call('PEXPIRE', key, int(ms)) end
  return left
end

local function notice()
  local n = redis.call('HGET', claims, '!' .. id)
  if not n then return nil end
  local kind, at, expiry, by, rest = string.match(n, '^(%a) (%d+) (%d+) (%d+) (.*)$')
  if not kind or tonumber(expiry) <= ms then return nil end
  return {kind, tonumber(at), string.sub(rest, 1, tonumber(by)), string.sub(rest, by + 1)}
end

local function with(reply, n)
  for _, v in ipairs(n or {}) do reply[#reply + 1] = v end
  return reply
end

local function lost()
  local n = notice()
  if n and n[1] == 'f' then return with({-1, now, 'forced'}, n) end
  if cur and cur ~= '#shares' and not mine then return {-1, now, 'stolen'} end
  if redis.call('EXISTS', fence) == 0 then return {-1, now, 'deleted'} end
  return {-1, now, 'expired'}
end

local exclusive = cur == id .. ':' .. ARGV[2]
local record
if not exclusive then
  if cur ~= '#shares' then return lost() end
  record = redis.call('HGET', claims, id)
  local expiry, token = string.match(record or '', '^h %d+ %d+ (%d+) %d+ (%d+) ')
  if token ~= ARGV[2] or tonumber(expiry) <= ms or not redis.call('ZSCORE', shares, id) then return lost() end
end

if floor > 0 then
  local last, rest = string.match(redis.call('GET', fence) or '', '^(%d+)(:.*)$')
  if not last then return lost() end
  if floor > tonumber(last) then redis.call('SET', fence, int(floor) .. rest, 'KEEPTTL') end
end

if exclusive then
  redis.call('PEXPIRE', lock, ARGV[3])
else
  local w, c, rest = string.match(record, '^h (%d+) (%d+) %d+ %d+ (.*)$')
  redis.call('HSET', claims, id, string.format('h %s %s %.0f %.0f %s', w, c, up + ttl, ttl, rest))
  redis.call('ZADD', shares, int(up + ttl), id)
  redis.call('PEXPIREAT', lock, int(tonumber(redis.call('ZREVRANGE', shares, 0, 0, 'WITHSCORES')[2])))
  outlive(shares, ttl + 1000)
  outlive(claims, ttl + 1000)
end
redis.call('PEXPIRE', fence, int(math.max(86400000, 10 * ttl)))
return with({1, now, tonumber(ARGV[2])}, notice())
