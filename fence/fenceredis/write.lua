-- write.lua checks a fencing token, remembers it, and runs the commands of a
-- write: all in one step.
--
-- KEYS[1]  mark      hash: lock, the name of the lock whose tokens are compared;
--                    exclusive and shared, the highest numbers of those who held it
--                    alone and of those who shared it
-- KEYS[2]  ...       the keys of the commands
--
-- ARGV[1]  name of the lock
-- ARGV[2]  x, or s for a share
-- ARGV[3]  number of the token, in decimal
-- ARGV[4]  ...       the commands, each as the number of its words and the words
--
-- Returns "done" and the reply of each command; or, having changed nothing, "stale"
-- with the mode and number of the highest token; or "other" with the name of the
-- lock. If a command fails its error is returned: the token is remembered, those
-- before it have been run, and those after it have not.

local mark = KEYS[1]
local lock, mode, number = ARGV[1], ARGV[2], ARGV[3]

-- less compares numbers of up to twenty digits, of which a double keeps fifteen.
local function less(a, b)
  local high, higher = tonumber(string.sub(a, 1, -11)) or 0, tonumber(string.sub(b, 1, -11)) or 0
  if high ~= higher then
    return high < higher
  end
  return tonumber(string.sub(a, -10)) < tonumber(string.sub(b, -10))
end

local seen = redis.call('HMGET', mark, 'lock', 'exclusive', 'shared')
local exclusive, shared = seen[2] or '0', seen[3] or '0'
if seen[1] and seen[1] ~= lock then
  return {'other', seen[1]}
end
if less(number, exclusive) then
  return {'stale', 'x', exclusive}
end
if mode == 'x' and less(number, shared) then
  return {'stale', 's', shared}
end
if mode == 'x' and less(exclusive, number) then
  redis.call('HSET', mark, 'lock', lock, 'exclusive', number, 'shared', shared)
elseif mode == 's' and less(shared, number) then
  redis.call('HSET', mark, 'lock', lock, 'exclusive', exclusive, 'shared', number)
end

local replies = {'done'}
local at = 4
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, last))
  at = last + 1
end
return replies
