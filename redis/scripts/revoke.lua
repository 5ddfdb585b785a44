#!lua flags=allow-oom
-- revoke.lua asks the holder of a key to let go, or ends its claim and calls the next.
--
-- KEYS[1]  lock    see acquire.lua
-- KEYS[2]  line    see acquire.lua
-- KEYS[3]  shares  see acquire.lua
-- KEYS[4]  claims  see acquire.lua
-- KEYS[5]  fence   see acquire.lua
--
-- ARGV[1]  claim ID; for a foreign holder the whole value of lock
-- ARGV[2]  a to ask, f to force
-- ARGV[3]  who asks
-- ARGV[4]  why
--
-- Returns {1, now} if the claim held the key, or {-1, now, reason, notice...}; see
-- acquire.lua.
--
-- A notice is "kind at expiry length by why": at in microseconds, expiry in
-- milliseconds, and the length of by in bytes. "#n" has the IDs of those who have one,
-- oldest first, each as "length:claimID".

local lock, line, shares, claims, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, kind = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ms = math.floor(now / 1000)
local cur = redis.call('GET', lock)
local units = tonumber(redis.call('HGET', claims, '#w') or 0)

local function int(n)
  return string.format('%.0f', n)
end

-- outlive keeps key for ms more at least, without shortening its life.
local function outlive(key, ms)
  local left = redis.call('PTTL', key)
  if left < ms then redis.call('PEXPIRE', key, int(ms)) end
  return left
end

-- lasting runs a command that may make key, and keeps it for ms more at least. What
-- ends a key is tried first: a script that stops for want of a right leaves none for
-- ever.
local function lasting(ms, command, key, ...)
  local left = outlive(key, ms)
  redis.call(command, key, ...)
  if left < 0 then redis.call('PEXPIRE', key, int(ms)) end
end

local function fits(w, c)
  if not cur then return true end
  return cur == '#shares' and w < c and units + w <= c
end

-- publish says something on a channel. One with {} in its name is in the slot of the
-- keys, whose hash tag goes there: that is how it is on Redis Cluster.
local function publish(channel, message)
  local before, after = string.match(channel, '^(.-{)(}.*)$')
  if not before then return redis.pcall('PUBLISH', channel, message) end
  return redis.pcall('SPUBLISH', before .. string.match(line, '{(.-)}') .. after, message)
end

-- wake drops dead claims from the head of the line and, if there is room for the
-- claim that heads it then, calls that claim. It has a second to answer, so that a
-- dead waiter costs the others no more. One that was called is called again only if
-- room is new.
local function wake(room)
  for _ = 1, 128 do
    local head = redis.call('ZRANGE', line, 0, 1)
    if not head[1] then return end
    local state, w, c, expiry, rest, channel = string.match(redis.call('HGET', claims, head[1]) or '',
      '^(%a) (%d+) (%d+) (%d+) (%d+ %d+ %d+ (%S+) .*)$')
    if state and tonumber(expiry) > ms then
      if fits(tonumber(w), tonumber(c)) and (room or state == 'w') then
        expiry = math.min(tonumber(expiry), ms + 1000)
        redis.call('HSET', claims, head[1], string.format('c %s %s %.0f %s', w, c, expiry, rest))
        publish(channel, 'go ' .. head[1])
        local second = head[2] and redis.call('HGET', claims, head[2])
        channel = second and string.match(second, '^%a %d+ %d+ %d+ %d+ %d+ %d+ (%S+) ')
        if channel then publish(channel, 'next ' .. head[2]) end
      end
      return
    end
    redis.call('ZREM', line, head[1])
    redis.call('HDEL', claims, head[1])
  end
end

-- settle lets lock last as long as the longest share, and no longer.
local function settle()
  local longest = redis.call('ZREVRANGE', shares, 0, 0, 'WITHSCORES')[2]
  if longest and tonumber(longest) > ms then
    redis.call('PEXPIREAT', lock, int(tonumber(longest)))
    lasting(longest - ms + 1000, 'HSET', claims, '#w', int(units))
    return
  end
  redis.call('DEL', lock)
  cur = nil
  if not longest then redis.call('HDEL', claims, '#w') end
end

-- read takes the notice for who apart, if it has one that is still remembered.
local function read(who)
  local kind, at, expiry, by, rest = string.match(redis.call('HGET', claims, '!' .. who) or '', '^(%a) (%d+) (%d+) (%d+) (.*)$')
  if not kind or tonumber(expiry) <= ms then return nil end
  return {kind, tonumber(at), string.sub(rest, 1, tonumber(by)), string.sub(rest, by + 1)}
end

local foreign = false
local holds = false
local weight, left = 0, redis.call('PTTL', lock)
if cur and cur ~= '#shares' then
  if string.sub(cur, 1, #id + 1) == id .. ':' then
    local kept = string.match(string.sub(cur, #id + 2), '^%d+(.*)$')
    holds = kept == '' or kept == ':kept'
  end
  foreign = not holds and cur == id
elseif cur and redis.call('ZSCORE', shares, id) then
  local w, expiry = string.match(redis.call('HGET', claims, id) or '', '^[hk] (%d+) %d+ (%d+) ')
  if w and tonumber(expiry) > ms then
    holds, weight, left = true, tonumber(w), tonumber(expiry) - ms
  end
end

if foreign then
  if kind == 'a' then return {-2, now} end
  redis.call('DEL', lock)
  cur = nil
  wake(true)
  return {1, now}
end
if not holds then
  local n = read(id)
  if n and n[1] == 'f' then return {-1, now, 'forced', n[1], n[2], n[3], n[4]} end
  if cur and cur ~= '#shares' then return {-1, now, 'stolen'} end
  return {-1, now, redis.call('EXISTS', fence) == 1 and 'expired' or 'deleted'}
end

-- The notice, the newest of at most 16.
local ids, index = {}, redis.call('HGET', claims, '#n') or ''
while index ~= '' do
  local n, rest = string.match(index, '^(%d+):(.*)$')
  if not n then break end
  local who = string.sub(rest, 1, tonumber(n))
  if who ~= id then
    if read(who) then ids[#ids + 1] = who else redis.call('HDEL', claims, '!' .. who) end
  end
  index = string.sub(rest, n + 1)
end
while #ids >= 16 do redis.call('HDEL', claims, '!' .. table.remove(ids, 1)) end
ids[#ids + 1] = id
for i, who in ipairs(ids) do ids[i] = #who .. ':' .. who end
local linger = math.max(3600000, left)
lasting(linger, 'HSET', claims, '#n', table.concat(ids),
  '!' .. id, string.format('%s %.0f %.0f %d ', kind, now, ms + linger, #ARGV[3]) .. ARGV[3] .. ARGV[4])

if kind == 'f' then
  if weight == 0 then
    redis.call('DEL', lock)
    cur = nil
  else
    redis.call('ZREM', shares, id)
    redis.call('HDEL', claims, id)
    units = units - weight
    settle()
  end
  wake(true)
end
return {1, now}
