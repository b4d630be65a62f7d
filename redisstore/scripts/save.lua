local fence, version, saved, state = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]

local got = redis.call('HMGET', key, 't', 'f', 'v')
if got[1] then return GONE end
if not got[2] then return UNKNOWN end
if got[2] ~= fence then return FENCED end
if tonumber(version) > tonumber(got[3]) then
  redis.call('HSET', key, 'v', version)
  if saved then redis.call('HSET', key, 's', state) else redis.call('HDEL', key, 's') end
end
return OK
