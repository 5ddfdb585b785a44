#!lua flags=no-writes,allow-stale
-- facts.lua tells what a server says of itself. It runs on a replica too.
--
-- KEYS[1]  marker  see acquire.lua; may be left out
--
-- ARGV[1]  sections of INFO, with a space between
--
-- Returns {now, marker or "", INFO or ""}, with 0 and "" for what the user may not know.

local time = redis.pcall('TIME')
local marker = KEYS[1] and redis.pcall('GET', KEYS[1])
local info = ''
for section in string.gmatch(ARGV[1], '%S+') do
  local text = redis.pcall('INFO', section)
  if type(text) == 'string' then info = info .. text end
end
return {time.err and 0 or time[1] * 1000000 + time[2], type(marker) == 'string' and marker or '', info}
