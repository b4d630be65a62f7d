local from, next, owner, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local got = redis.call('HMGET', key, 't', 'f')
if got[1] then return {GONE} end
if not got[2] then return {UNKNOWN} end
if got[2] ~= next then -- not a repeat
  if got[2] ~= from then return {FENCED} end
  redis.call('HSET', key, 'f', next, 'o', owner)
  redis.call('HDEL', key, 'r')
end
redis.call('PEXPIRE', key, ttl)
local answer = {OK, redis.call('HMGET', key, 'f', 'o', 'a', 'v', 's', 'r')}
for _, entry in ipairs(logsInOrder()) do
  local l = entry.log
  answer[#answer + 1] = {entry.name, l.about, l.backlog and 1 or 0, int(l.first), int(l.last), l.sealed and 1 or 0}
end
return answer
