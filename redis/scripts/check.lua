#!lua
-- check.lua tries all commands that the other scripts use, on keys that nothing else
-- uses, and leaves nothing.
--
-- KEYS[1]  lock    see acquire.lua
-- KEYS[2]  line    see acquire.lua
-- KEYS[3]  shares  see acquire.lua
-- KEYS[4]  claims  see acquire.lua
-- KEYS[5]  fence   see acquire.lua
--
-- ARGV[1]  wake channel, see acquire.lua
-- ARGV[2]  the command that publishes on it
--
-- Returns {command, error, ...} for those that failed.

local lock, line, shares, claims, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local failed, named = {}, {}

local function try(command, ...)
  local v = redis.pcall(command, ...)
  if type(v) == 'table' and v.err and not named[command] then
    named[command] = true
    failed[#failed + 1] = string.lower(command)
    failed[#failed + 1] = v.err
  end
end

-- What can end a key comes first, so that none stays.
try('TIME')
try('DEL', lock)
for _, key in ipairs({lock, fence}) do
  try('SET', key, 'x', 'PX', '1000')
  try('GET', key)
  try('EXISTS', key)
  try('PTTL', key)
  try('PEXPIRE', key, '1000')
  try('PEXPIREAT', key, '1')
  try('DEL', key)
end
for _, key in ipairs({line, shares}) do
  try('ZREM', key, 'x')
  if not named.ZREM then try('ZADD', key, '1', 'x') end
  try('ZRANGE', key, '0', '0')
  try('ZREVRANGE', key, '0', '0')
  try('ZRANGEBYSCORE', key, '-inf', '1')
  try('ZRANK', key, 'x')
  try('ZSCORE', key, 'x')
  try('ZCARD', key)
  try('ZCOUNT', key, '-inf', '1')
  try('ZREM', key, 'x')
end
try('HDEL', claims, 'x')
if not named.HDEL then try('HSET', claims, 'x', 'x') end
try('HGET', claims, 'x')
try('HDEL', claims, 'x')
try(ARGV[2], ARGV[1], '')
return failed
