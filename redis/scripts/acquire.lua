#!lua
-- acquire.lua makes one attempt to have a claim granted.
--
-- KEYS[1]  lock    string: "claimID:token" of the exclusive holder, then ":kept"
--                  if it was released with a Keep; "#shares" while shares are held
-- KEYS[2]  line    sorted set: claims that wait, by arrival in microseconds
-- KEYS[3]  shares  sorted set: claims that hold a share, by expiry in milliseconds
-- KEYS[4]  claims  hash: claim ID -> record, for claims in the two sets;
--                  "#w" -> the weight of all shares; "!claimID" -> a notice, and
--                  "#n" -> the IDs that have one (see revoke.lua)
-- KEYS[5]  fence   string: "token:incarnation:claimID", the last token given out
-- KEYS[6]  marker  string: "run until floor written length terms", the server that may
--                  grant, and when; only with a quarantine, and not on a cluster
--
-- A record is "state weight capacity expiry ttl token block channel label", with
-- times in milliseconds. States: w waits, c was called and waits, h holds a share,
-- k holds a share that was released with a Keep.
--
-- ARGV[1]  claim ID
-- ARGV[2]  TTL in milliseconds
-- ARGV[3]  weight
-- ARGV[4]  capacity; equal to the weight for an exclusive claim
-- ARGV[5]  the sender's deadline in microseconds of this server's clock, 0 for none
-- ARGV[6]  1 to stay in line when there is no room
-- ARGV[7]  number of tokens wanted
-- ARGV[8]  candidate token, 0 for none
-- ARGV[9]  wake channel; {} in it stands for the hash tag of the keys, and is for
--          Redis Cluster
-- ARGV[10] label
-- ARGV[11] with a quarantine, the longest TTL in milliseconds
-- ARGV[12] with a quarantine, what is added to it, in milliseconds
-- ARGV[13] with a quarantine, what else its clients have to agree on
--
-- Returns one of
--   {1, now, token, block, notice...}               granted
--   {0, now, place, left, last, kind, id, record}   no room; what is in the way is of
--       kind 1 (id is the value of lock), 2 (a share) or 3 (a claim that waits)
--   {-1, now, reason, notice...}                    was granted, and is not any more
--   {-2, now}                                       came after the sender's deadline
--   {-3, now, left}                                 in quarantine for so long
--   {-4, now, terms}                                others have another quarantine
-- with now in microseconds, left in milliseconds (-1: never ends) and a notice of
-- kind (a asked, f forced), time in microseconds, by, why.
--
-- The marker has the run ID of the server that wrote it, then in microseconds until
-- when nothing is granted, a floor for tokens, when it was written and how long the
-- quarantine is, then ARGV[11] to ARGV[13]. It lives for 90 days: without it a server
-- begins a quarantine, be it that it has lost everything or that nobody came for long.

local lock, line, shares, claims, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, ttl = ARGV[1], ARGV[2]
local exclusive = ARGV[3] == ARGV[4]
local call, format = redis.call, string.format

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if ARGV[5] ~= '0' and now > tonumber(ARGV[5]) then
  return {-2, now}
end

-- Mostly the key is free, nobody waits for it, nobody has had a notice, and the new
-- token is simply the clock or the candidate. What is said further below of tokens
-- and of the fence comes to this then.
if exclusive and ARGV[7] == '1' and not ARGV[11] and tonumber(ttl) <= 8640000 and call('EXISTS', lock, claims) == 0 then
  local token, text, last = now, ARGV[8], '0'
  local f = call('GET', fence)
  if f then last = string.match(f, '^(%d+):%x*:') end -- nil if unreadable
  if text == '0' then
    text = format('%.0f', now)
  else
    token = tonumber(text)
    if not f then last = now - 1000000 end
  end
  if last and token > tonumber(last) and token <= now + 1000000 and token < 9007199254740992 - 65536
    and not (f and string.find(f, id, 1, true)) then
    call('SET', fence, text .. '::' .. id, 'PX', '86400000')
    call('SET', lock, id .. ':' .. text, 'PX', ttl)
    return {1, now, token, 1}
  end
end

-- A server that is not the one of the marker may have forgotten what it granted, or
-- have old counters. INFO tells whether it is: a marker alone comes back with an old
-- snapshot, and is on a replica too. The marker is written and kept whatever becomes of
-- the claim.
local inc, least = '', 0
if ARGV[11] then
  local info = redis.pcall('INFO', 'server')
  local at = type(info) == 'string' and string.find(info, 'run_id:', 1, true) -- much faster than a pattern
  local run = at and string.match(info, '^%x+', at + 7)
  if not run then
    return redis.error_reply('NORUNID the server does not tell its run_id, which a quarantine takes: grant +info')
  end
  inc = string.sub(run, 1, 8)
  if KEYS[6] then
    if tonumber(ttl) > tonumber(ARGV[11]) then
      return redis.error_reply('TTLTOOLONG the TTL is longer than the quarantine allows')
    end
    local ours = ARGV[11] .. ' ' .. ARGV[12] .. ' ' .. ARGV[13]
    local length = math.max((ARGV[11] + ARGV[12]) * 1000, 2000000)
    local ran, ends, floor, written, long, terms = string.match(call('GET', KEYS[6]) or '',
      '^(%x+) (%d+) (%d+) (%d+) (%d+) (%d+ %d+ .*)$')
    least, ends = tonumber(floor or 0), tonumber(ends or 0)
    local changed = true
    if ran ~= run then
      length = math.max(length, tonumber(long or 0)) -- theirs may have been longer
      ends, least = now + length, math.max(least, now + 2000000)
    elseif terms ~= ours then
      return {-4, now, terms}
    else
      length = tonumber(long)
      changed = ends > now + length or now - written > 86400000000
      ends = math.min(ends, now + length) -- the clock may have been set back
    end
    if changed then
      call('SET', KEYS[6], format('%s %.0f %.0f %.0f %.0f %s', run, ends, least, now, length, ours), 'PX', 7776000000)
    end
    if now < ends then
      return {-3, now, math.ceil((ends - now) / 1000)}
    end
  end
end

local cur = call('GET', lock)
local last, lastinc, lastid = 0, nil, nil
local f = call('GET', fence)
if f then
  last, lastinc, lastid = string.match(f, '^(%d+):(%x*):(.*)$')
  last = tonumber(last)
  if not last then
    return redis.error_reply('BADFENCE the last token of the key is unreadable')
  end
end

-- The new token. Without a candidate it is the clock if that is ahead, so that
-- tokens go on rising when the counter is lost. A candidate far beyond the clock is
-- ignored, so that no client with a wrong clock can push the counter to its end.
-- A counter of another incarnation may be older than tokens that were given out
-- since: the token leaps over a second's worth of them.
local token, block = last + 1, tonumber(ARGV[7])
if f and inc ~= '' and lastinc ~= inc then token = last + 1048576 end
if ARGV[8] == '0' then
  if now > token then token = now end
else
  local candidate = tonumber(ARGV[8])
  if not f then
    token = math.max(token, least + 1, now - 1000000)
  elseif inc ~= '' and lastinc ~= inc then
    token = math.max(token, now + 1000000)
  end
  if candidate > token and candidate <= now + 1000000 then token = candidate end
end
local spent = token > 9007199254740992 - 65536 -- beyond, Lua can't count exactly
local text = format('%.0f', token)
local newfence = (block == 1 and text or format('%.0f', token + block - 1)) .. ':' .. inc .. ':' .. id
local fencettl = '86400000'
if ttl * 10 > 86400000 then fencettl = format('%.0f', ttl * 10) end

-- Nobody holds the key, nobody waits for it and nobody has had a notice.
if exclusive and not cur and lastid ~= id and not spent and call('EXISTS', claims) == 0 then
  call('SET', fence, newfence, 'PX', fencettl)
  call('SET', lock, id .. ':' .. text, 'PX', ttl)
  return {1, now, token, block}
end

ttl = tonumber(ttl)
local weight, capacity = tonumber(ARGV[3]), tonumber(ARGV[4])
-- Shares end on the millisecond. They begin on the next one, so that none is kept
-- shorter than was asked: its holder counts from before.
local ms = math.floor(now / 1000)
local up = ms + 1
local units = 0
local mine, kept
if cur and string.sub(cur, 1, #id + 1) == id .. ':' then
  mine, kept = string.match(string.sub(cur, #id + 2), '^(%d+)(.*)$')
  if kept ~= '' and kept ~= ':kept' then mine = nil end
end
local RECORD = '^(%a) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$'

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

local function lost()
  local n = notice()
  if n and n[1] == 'f' then return with({-1, now, 'forced'}, n) end
  if cur and cur ~= '#shares' and not mine then return {-1, now, 'stolen'} end
  if not f then return {-1, now, 'deleted'} end
  return {-1, now, 'expired'}
end

local function record(state, w, c, token, block)
  return string.format('%s %.0f %.0f %.0f %.0f %.0f %.0f %s %s', state, w, c, up + ttl, ttl, token, block, ARGV[9], ARGV[10])
end

-- share writes the record of a share of ours, and lets the keys live as long as it.
local function share(w, c, token, block)
  lasting(ttl + 1000, 'HSET', claims, id, record('h', w, c, token, block))
  lasting(ttl + 1000, 'ZADD', shares, int(up + ttl), id)
  local longest = redis.call('ZREVRANGE', shares, 0, 0, 'WITHSCORES')[2]
  redis.call('SET', lock, '#shares', 'PXAT', int(tonumber(longest)))
  cur = '#shares'
  if units > 0 then redis.call('HSET', claims, '#w', int(units)) end
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

-- The claim holds all of the key: the same grant again, or a share of it.
if mine then
  if kept ~= '' then return lost() end
  local granted = tonumber(mine)
  block = lastid == id and math.max(1, math.min(block, last - granted + 1)) or 1
  redis.call('PEXPIRE', fence, fencettl)
  if exclusive then
    redis.call('PEXPIRE', lock, ARGV[2])
  else
    units = weight
    share(weight, capacity, granted, block)
  end
  local reply = with({1, now, granted, block}, notice())
  if not exclusive then wake(true) end
  return reply
end

units = tonumber(redis.call('HGET', claims, '#w') or 0)

-- The claim holds a share, or waits.
local state, w, c, expiry, _, held, tokens = string.match(redis.call('HGET', claims, id) or '', RECORD)
local waits = false
if state and tonumber(expiry) > ms then
  if state == 'w' or state == 'c' then
    waits = true
  elseif cur == '#shares' and redis.call('ZSCORE', shares, id) then
    if state == 'k' then return lost() end
    local less = not exclusive and weight < tonumber(w)
    if less then
      units = units - tonumber(w) + weight
      w, c = weight, capacity
    end
    share(tonumber(w), tonumber(c), tonumber(held), tonumber(tokens))
    redis.call('PEXPIRE', fence, fencettl)
    local reply = with({1, now, tonumber(held), tonumber(tokens)}, notice())
    if less then wake(true) end
    return reply
  end
elseif state == 'w' or state == 'c' then
  redis.call('ZREM', line, id)
  redis.call('HDEL', claims, id)
end
if not waits then
  local n = notice()
  if lastid == id or n and n[1] == 'f' then return lost() end
end
if spent then return redis.error_reply('FENCEOVERFLOW the tokens of the key have run out') end

-- Shares that have ended go, at most 128 of them; all have if lock is not theirs.
local crowded = false
if redis.call('EXISTS', shares) == 1 then
  local dead
  if cur == '#shares' then
    dead = redis.call('ZRANGEBYSCORE', shares, '-inf', int(ms), 'LIMIT', 0, 128)
  else
    dead = redis.call('ZRANGE', shares, 0, 127)
  end
  for _, who in ipairs(dead) do
    local weighs = string.match(redis.call('HGET', claims, who) or '', '^%a (%d+) ')
    units = units - tonumber(weighs or 0)
    redis.call('ZREM', shares, who)
    redis.call('HDEL', claims, who)
  end
  crowded = #dead == 128
  if #dead > 0 then lasting(ttl + 1000, 'HSET', claims, '#w', int(units)) end
end
if not crowded and redis.call('EXISTS', shares) == 0 then
  units = 0
  redis.call('HDEL', claims, '#w')
  if cur == '#shares' then
    redis.call('DEL', lock)
    cur = nil
  end
end

-- So do dead claims at the head of the line.
local head, headrecord
for i = 1, 129 do
  head = redis.call('ZRANGE', line, 0, 0)[1]
  headrecord = head and redis.call('HGET', claims, head)
  local alive = string.match(headrecord or '', '^%a %d+ %d+ (%d+) ')
  if not head or alive and tonumber(alive) > ms then break end
  if i == 129 then
    crowded = true
    break
  end
  redis.call('ZREM', line, head)
  redis.call('HDEL', claims, head)
end

if not crowded and (not head or head == id) and fits(weight, capacity) then
  if waits then
    redis.call('ZREM', line, id)
    redis.call('HDEL', claims, id)
  end
  redis.call('SET', fence, newfence, 'PX', fencettl)
  if exclusive then
    redis.call('SET', lock, id .. ':' .. text, 'PX', ARGV[2])
  else
    units = units + weight
    share(weight, capacity, token, block)
    wake(true)
  end
  return {1, now, token, block}
end

local place = 0
if ARGV[6] == '1' then
  lasting(ttl + 1000, 'HSET', claims, id, record('w', weight, capacity, 0, 0))
  if waits then
    outlive(line, ttl + 1000)
  else
    local newest = redis.call('ZREVRANGE', line, 0, 0, 'WITHSCORES')[2]
    lasting(ttl + 1000, 'ZADD', line, int(math.max(now, tonumber(newest or 0) + 1)), id)
  end
  place = redis.call('ZRANK', line, id) + 1
elseif waits then
  redis.call('ZREM', line, id)
  redis.call('HDEL', claims, id)
end

wake(false)
local reply
if cur == '#shares' then
  local who = redis.call('ZREVRANGE', shares, 0, 0)[1] or ''
  reply = {0, now, place, redis.call('PTTL', lock), last, 2, who, redis.call('HGET', claims, who) or ''}
elseif cur then
  reply = {0, now, place, redis.call('PTTL', lock), last, 1, cur, ''}
else
  headrecord = head and redis.call('HGET', claims, head) or ''
  local ends = tonumber(string.match(headrecord, '^%a %d+ %d+ (%d+) ') or ms)
  reply = {0, now, place, math.max(0, ends - ms), last, 3, head or '', headrecord}
end
if crowded then reply[4] = 0 end
return reply
