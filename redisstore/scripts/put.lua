local fence, owner, about, version, saved, state, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6], ARGV[7]

local got = redis.call('HMGET', key, 't', 'f', 'v')
if got[1] then return GONE end
if got[2] and got[2] ~= fence then return FENCED end
if not got[2] then
  redis.call('UNLINK', key) -- logs of a session without a record
  redis.call('HSET', key, 'f', fence, 'o', owner)
end
redis.call('HSET', key, 'a', about)
if not got[3] or tonumber(version) >= tonumber(got[3]) then
  redis.call('HSET', key, 'v', version)
  if saved then redis.call('HSET', key, 's', state) else redis.call('HDEL', key, 's') end
end
redis.call('PEXPIRE', key, ttl)
return OK
