#!lua flags=allow-oom
-- release.lua withdraws a claim, granted or in line, and calls the next.
--
-- KEYS[1]  lock    see acquire.lua
-- KEYS[2]  line    see acquire.lua
-- KEYS[3]  shares  see acquire.lua
-- KEYS[4]  claims  see acquire.lua
-- KEYS[5]  fence   see acquire.lua
--
-- ARGV[1]  claim ID. It alone is compared: the caller may not know its token
-- ARGV[2]  token, 0 if the caller knows of no grant
-- ARGV[3]  milliseconds for which a granted claim goes on without its holder, or 0
--
-- Returns {1, now} if the claim is gone, also if it was before, or
-- {-1, now, reason, notice...} if it was granted and ended in another way.

local lock, line, shares, claims, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, keep = ARGV[1], tonumber(ARGV[3])
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local cur = call('GET', lock)

-- Mostly it holds all of the key as it was granted, nobody waits for it and nobody has
-- had a notice. An attempt of a quorum has rivals that wait in no line: whoever
-- listens may ask.
if cur == id .. ':' .. ARGV[2] and ARGV[3] == '0' and call('EXISTS', claims) == 0 then
  call('DEL', lock)
  if string.find(id, '~', 1, true) then redis.pcall('PUBLISH', 'pawl:free:' .. lock, string.format('%.0f', now)) end
  return {1, now}
end

local mine, kept
if cur and string.sub(cur, 1, #id + 1) == id .. ':' then
  mine, kept = string.match(string.sub(cur, #id + 2), '^(%d+)(.*)$')
  if kept == ':kept' then return {1, now} end
  if kept ~= '' then mine = nil end
end
if mine then
  if keep > 0 then
    redis.call('SET', lock, cur .. ':kept', 'PX', ARGV[3])
    return {1, now}
  end
  redis.call('DEL', lock)
  cur = nil
end
if mine and string.find(id, '~', 1, true) then
  redis.pcall('PUBLISH', 'pawl:free:' .. lock, string.format('%.0f', now))
end
if mine and redis.call('EXISTS', claims) == 0 then
  return {1, now}
end

local ms = math.floor(now / 1000)
local up = ms + 1 -- see acquire.lua
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

if mine then
  wake(true)
  return {1, now}
end

local state, w, c, expiry, rest = string.match(redis.call('HGET', claims, id) or '', '^(%a) (%d+) (%d+) (%d+) %d+ (.*)$')
if state == 'w' or state == 'c' then
  redis.call('ZREM', line, id)
  redis.call('HDEL', claims, id)
  wake(false)
  return {1, now}
end
if state and tonumber(expiry) > ms and cur == '#shares' and redis.call('ZSCORE', shares, id) then
  if state == 'k' then return {1, now} end
  if keep > 0 then
    redis.call('HSET', claims, id, string.format('k %s %s %.0f %.0f %s', w, c, up + keep, keep, rest))
    redis.call('ZADD', shares, int(up + keep), id)
    outlive(shares, keep + 1000)
    outlive(claims, keep + 1000)
    settle()
    return {1, now}
  end
  redis.call('ZREM', shares, id)
  redis.call('HDEL', claims, id)
  units = units - tonumber(w)
  settle()
  wake(true)
  return {1, now}
end

local n = notice()
local forced = n and n[1] == 'f'
local f = redis.call('GET', fence)
if ARGV[2] == '0' or not forced and string.match(f or '', '^%d+:%x*:(.*)$') == id then
  return {1, now}
end
if forced then return with({-1, now, 'forced'}, n) end
if cur and cur ~= '#shares' then return {-1, now, 'stolen'} end
return {-1, now, f and 'expired' or 'deleted'}
